//! The handle of an asynchronous combine.
//!
//! ```text
//! AsyncHandle ─▶ _tensor              also after wait(): it is what wait() returns
//!      └─ deredundency ─▶ _ctx, _combined
//!               └───────▶ OepGroup     what peers have computed and nobody has taken
//! ```
//!
//! Models `AsyncHandle` and `_DeredundencyCombineHandle`. As a collective, the
//! reduce-scatter in `wait()` needs all outer ranks: the first that waits has
//! the others' parts computed too.

use std::cell::RefCell;
use std::fmt;
use std::mem::size_of;
use std::rc::Rc;

use crate::census::Kind;
use crate::comm::CommHandle;
use crate::error::Error;
use crate::moe::expert_parallel::context::DispatchContext;
use crate::moe::expert_parallel::rows;
use crate::ops;
use crate::runtime::Core;
use crate::tensor::{Shape, Tensor};

/// Something that a handle holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The way to it from the module.
    pub path: &'static str,
    /// Its shape.
    pub shape: Shape,
    /// Bytes of its values.
    pub bytes: usize,
}

/// Each outer rank's part: what came back from its experts, and the context.
type Part = (Tensor, Rc<DispatchContext>);

/// Outer ranks that reduce together.
#[derive(Default)]
pub(super) struct OepGroup {
    parts: RefCell<Vec<Part>>,
    /// By sender and receiver, until the receiver takes it.
    pieces: RefCell<Vec<Vec<Option<Tensor>>>>,
}

impl OepGroup {
    pub(super) fn new(core: &Rc<Core>, parts: Vec<Part>) -> Rc<Self> {
        core.census.created(Kind::AsyncHandle, Self::SIZE);
        Rc::new(Self {
            parts: RefCell::new(parts),
            pieces: RefCell::default(),
        })
    }

    const SIZE: usize = 2 * size_of::<usize>() + size_of::<Self>();

    /// The receiver's rows of the sum over all senders.
    fn reduce_scatter(&self, receiver: usize) -> Result<Tensor, Error> {
        let parts = self.parts.take();
        if !parts.is_empty() {
            let pieces = parts
                .iter()
                .map(|(tensor, ctx)| cut(tensor, ctx, parts.len()));
            let pieces = pieces.collect::<Result<Vec<_>, Error>>()?;
            self.pieces.replace(pieces);
        }
        let mut pieces = self.pieces.borrow_mut();
        let mut sum: Option<Tensor> = None;
        for of_sender in pieces.iter_mut() {
            let piece = of_sender[receiver].take();
            let piece = piece.ok_or(Error::Routing {
                why: "a rank waits twice for one combine",
            })?;
            sum = Some(match sum {
                None => piece,
                Some(sum) => ops::add(&sum, &piece)?,
            });
        }
        if pieces.iter().flatten().all(Option::is_none) {
            *pieces = Vec::new();
        }
        sum.ok_or(Error::Routing {
            why: "there is no outer rank",
        })
    }
}

/// Scales a rank's rows, puts them where they came from, and cuts the whole
/// into the outer ranks' parts.
fn cut(tensor: &Tensor, ctx: &DispatchContext, ranks: usize) -> Result<Vec<Option<Tensor>>, Error> {
    let rows = ctx.router_coeff.len();
    let coefficients = ctx.router_coeff.iter().copied();
    let array = crate::tensor::Array::new(tensor.core(), Shape::of_matrix(rows, 1), coefficients);
    let scaled = ops::mul(tensor, &Tensor::from_array(array, None))?;
    let whole = rows::scatter_add(&scaled, &ctx.dispatch_indices, ctx.gathered_rows)?;
    let sizes = vec![ctx.gathered_rows / ranks; ranks];
    Ok(ops::split(&whole, &sizes)?.into_iter().map(Some).collect())
}

/// What a deredundency handle has beside a plain one.
pub(super) struct Deredundency {
    pub(super) group: Rc<OepGroup>,
    pub(super) outer_rank: usize,
    pub(super) ctx: Rc<DispatchContext>,
    pub(super) combined: RefCell<Option<Tensor>>,
}

struct Body {
    core: Rc<Core>,
    tensor: Tensor,
    /// Until it is waited for.
    comm: RefCell<Option<CommHandle>>,
    deredundency: Option<Deredundency>,
}

impl Body {
    const SIZE: usize = 2 * size_of::<usize>() + size_of::<Self>();
}

impl Drop for Body {
    fn drop(&mut self) {
        if let Some(own) = &self.deredundency
            && Rc::strong_count(&own.group) == 1
        {
            self.core.census.dropped(Kind::AsyncHandle, OepGroup::SIZE);
        }
        self.core.census.dropped(Kind::AsyncHandle, Self::SIZE);
    }
}

/// The handle of one rank; clones share it.
#[derive(Clone)]
pub struct AsyncHandle(Rc<Body>);

impl AsyncHandle {
    pub(super) fn new(tensor: Tensor, ticks: u64, deredundency: Option<Deredundency>) -> Self {
        let core = Rc::clone(tensor.core());
        core.census.created(Kind::AsyncHandle, Body::SIZE);
        let comm = RefCell::new(Some(CommHandle::launch(&core, ticks)));
        Self(Rc::new(Body {
            core,
            tensor,
            comm,
            deredundency,
        }))
    }

    /// Waits once; the same tensor each time (`wait`).
    ///
    /// # Errors
    /// What operators raise.
    pub fn wait(&self) -> Result<Tensor, Error> {
        if let Some(comm) = self.0.comm.take() {
            comm.wait();
        }
        let Some(own) = &self.0.deredundency else {
            return Ok(self.0.tensor.clone());
        };
        if let Some(combined) = &*own.combined.borrow() {
            return Ok(combined.clone());
        }
        let combined = own.group.reduce_scatter(own.outer_rank)?;
        own.combined.replace(Some(combined.clone()));
        Ok(combined)
    }

    /// The tensors that it holds.
    pub fn held(&self) -> Vec<Held> {
        let held = |path, tensor: &Tensor| Held {
            path,
            shape: tensor.shape(),
            bytes: tensor.shape().size() * size_of::<f32>(),
        };
        let mut all = vec![held("_ep_combine_handle._tensor", &self.0.tensor)];
        let own = self.0.deredundency.as_ref();
        let combined = own.and_then(|own| own.combined.borrow().clone());
        all.extend(combined.map(|tensor| held("_ep_combine_handle._combined", &tensor)));
        all
    }

    /// Bytes of the context that a deredundency handle holds too.
    pub fn context_bytes(&self) -> usize {
        let own = self.0.deredundency.as_ref();
        own.map_or(0, |own| own.ctx.bytes())
    }
}

impl fmt::Debug for AsyncHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncHandle")
            .field("waited", &self.0.comm.borrow().is_none())
            .finish_non_exhaustive()
    }
}
