//! Custom functions, their ctx, and the field that nobody clears.
//!
//! ```text
//! node ─▶ backward fn ─▶ ctx ─▶ needs_input_grad   a tuple of 40 + 8n bytes
//!                          ├──▶ saved_tensors      values, without their graph
//!                          ├──▶ dirty_tensors, non_differentiable
//!                          └──▶ attribute ─▶ tensor  an output here is a cycle
//! ```
//!
//! The node's release after its backward drops the ctx. The ctx's destructor
//! clears `saved_tensors` twice and `needs_input_grad` never, so one tuple per
//! apply has no owner. Models `FunctionBase` (`ccsrc/pynative/backward/hook/
//! function_py.cc`) and `_Function` (`common/_grad_function.py`). Not modelled:
//! version counters of dirty tensors, the release of device memory of unsaved
//! tensors, `setup_context`, saved tensors under saved-tensor hooks (so what a
//! function saves within a recomputed block is kept).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::mem::size_of;
use std::rc::Rc;

use crate::autograd::node::{GradNode, OpNode};
use crate::autograd::saved::SavedList;
use crate::census::Kind;
use crate::error::Error;
use crate::kernels::full;
use crate::ops::Grads;
use crate::policy::CtxClear;
use crate::runtime::{Core, Runtime};
use crate::tensor::{Array, Meta, Shape, Tensor};

/// Words of a `CPython` tuple before its items: gc links, count, type, size.
const TUPLE_HEADER_WORDS: usize = 5;

/// A user's function: what `forward` and `backward` of `_Function` are.
pub trait Function {
    /// The outputs for `inputs`; runs without recording.
    ///
    /// # Errors
    /// What the user raises.
    fn forward(&self, ctx: &FunctionCtx, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error>;

    /// The gradient of each input, `None` where there is none. A gradient that
    /// did not arrive is zeros, or `None` without `materialize_grads`.
    ///
    /// # Errors
    /// What the user raises.
    fn backward(
        &self,
        ctx: &FunctionCtx,
        grads: &[Option<Tensor>],
    ) -> Result<Vec<Option<Tensor>>, Error>;
}

/// What a function's forward leaves for its backward.
#[derive(Clone)]
pub struct FunctionCtx(Rc<Body>);

struct Body {
    core: Rc<Core>,
    needs_input_grad: RefCell<Option<Box<[usize]>>>,
    saved_tensors: RefCell<Option<Box<[Array]>>>,
    dirty_tensors: RefCell<Option<Vec<Tensor>>>,
    non_differentiable: RefCell<Option<Vec<Tensor>>>,
    materialize_grads: Cell<bool>,
    attribute: RefCell<Option<Tensor>>,
}

impl Body {
    const SIZE: usize = 2 * size_of::<usize>() + size_of::<Self>();
}

impl Body {
    fn clear_needs_input_grad(&self) {
        if let Some(tuple) = self.needs_input_grad.take() {
            let size = size_of_val::<[usize]>(&tuple);
            self.core.census.dropped(Kind::NeedsInputGrad, size);
        }
    }

    fn clear_saved_tensors(&self) {
        if let Some(saved) = self.saved_tensors.take() {
            let size = size_of_val::<[Array]>(&saved);
            drop(saved);
            self.core.census.dropped(Kind::SavedTensors, size);
        }
    }
}

/// `FunctionBase_clear`.
impl Drop for Body {
    fn drop(&mut self) {
        self.clear_saved_tensors();
        match self.core.policies.ctx_clear {
            // The field's reference goes with the struct, uncounted: the tuple
            // stays allocated and nobody can reach it any more.
            CtxClear::NamesSavedTensorsTwice => forget_tuple(self.needs_input_grad.take()),
            CtxClear::ClearsEachField => self.clear_needs_input_grad(),
        }
        self.core.census.dropped(Kind::FunctionCtx, Self::SIZE);
    }
}

#[allow(clippy::mem_forget, reason = "this is the modelled leak")]
fn forget_tuple(tuple: Option<Box<[usize]>>) {
    std::mem::forget(tuple);
}

impl FunctionCtx {
    fn new(core: &Rc<Core>) -> Self {
        core.census.created(Kind::FunctionCtx, Body::SIZE);
        Self(Rc::new(Body {
            core: Rc::clone(core),
            needs_input_grad: RefCell::default(),
            saved_tensors: RefCell::default(),
            dirty_tensors: RefCell::default(),
            non_differentiable: RefCell::default(),
            materialize_grads: Cell::new(true),
            attribute: RefCell::default(),
        }))
    }

    /// Which inputs need a gradient; `None` once the field is cleared.
    pub fn needs_input_grad(&self) -> Option<Vec<bool>> {
        let tuple = self.0.needs_input_grad.borrow();
        let items = &tuple.as_ref()?[TUPLE_HEADER_WORDS..];
        Some(items.iter().map(|&item| item == 1).collect())
    }

    /// `ctx.needs_input_grad = None`: releases the tuple that the field holds.
    pub fn clear_needs_input_grad(&self) {
        self.0.clear_needs_input_grad();
    }

    /// Stores a new tuple in the field of a new ctx. (Upstream does not release
    /// what the field held; a ctx is applied once, so it holds nothing.)
    fn store_needs_input_grad(&self, needs: impl ExactSizeIterator<Item = bool>) {
        let mut tuple = vec![0; TUPLE_HEADER_WORDS + needs.len()].into_boxed_slice();
        for (slot, need) in tuple[TUPLE_HEADER_WORDS..].iter_mut().zip(needs) {
            *slot = usize::from(need);
        }
        let census = &self.0.core.census;
        census.created(Kind::NeedsInputGrad, size_of_val::<[usize]>(&tuple));
        self.0.needs_input_grad.replace(Some(tuple));
    }

    /// Keeps values for the backward (`save_for_backward`); a second call
    /// replaces the first.
    pub fn save_for_backward(&self, tensors: &[Tensor]) {
        let saved: Box<[Array]> = tensors
            .iter()
            .map(|tensor| tensor.array().clone())
            .collect();
        self.0.clear_saved_tensors();
        let size = size_of_val::<[Array]>(&saved);
        self.0.core.census.created(Kind::SavedTensors, size);
        self.0.saved_tensors.replace(Some(saved));
    }

    /// The values that were kept, each as a tensor without a graph.
    pub fn saved_tensors(&self) -> Vec<Tensor> {
        let saved = self.0.saved_tensors.borrow();
        let arrays = saved.iter().flatten().cloned();
        arrays
            .map(|array| Tensor::from_array(array, None))
            .collect()
    }

    /// Marks inputs that the forward changed in place (`mark_dirty`).
    pub fn mark_dirty(&self, tensors: &[Tensor]) {
        self.0.dirty_tensors.replace(Some(tensors.to_vec()));
    }

    /// Marks outputs that no gradient flows into (`mark_non_differentiable`).
    pub fn mark_non_differentiable(&self, tensors: &[Tensor]) {
        self.0.non_differentiable.replace(Some(tensors.to_vec()));
    }

    /// Whether a gradient that did not arrive is zeros in the backward
    /// (`set_materialize_grads`; on by default).
    pub fn set_materialize_grads(&self, materialize: bool) {
        self.0.materialize_grads.set(materialize);
    }

    /// `ctx.attribute = tensor`. An output kept so without a backward is a
    /// cycle through the node that nothing collects.
    pub fn set_attribute(&self, tensor: &Tensor) {
        self.0.attribute.replace(Some(tensor.clone()));
    }
}

impl fmt::Debug for FunctionCtx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionCtx")
            .field("needs_input_grad", &self.needs_input_grad())
            .finish_non_exhaustive()
    }
}

/// Applies a function to tensors (`_Function.apply`).
///
/// # Errors
/// What `forward` raises. The backward then fails with what `backward` raises,
/// or with [`Error::GradCount`] if it returns another number of gradients.
pub fn apply(
    runtime: &Runtime,
    function: &Rc<dyn Function>,
    inputs: &[Tensor],
) -> Result<Vec<Tensor>, Error> {
    let inputs: Vec<Option<Tensor>> = inputs.iter().cloned().map(Some).collect();
    apply_to(runtime, function, &inputs)
}

/// Applies a function to inputs of which some are no tensors: `None` here.
/// They have a place in `needs_input_grad`, and a gradient of `None`.
///
/// # Errors
/// As [`apply`].
pub fn apply_to(
    runtime: &Runtime,
    function: &Rc<dyn Function>,
    all: &[Option<Tensor>],
) -> Result<Vec<Tensor>, Error> {
    let core = Rc::clone(runtime.core());
    let ctx = FunctionCtx::new(&core);
    let requires_grad = |input: &Option<Tensor>| input.as_ref().is_some_and(Tensor::requires_grad);
    // Built and stored on every apply, whether or not anything is recorded.
    ctx.store_needs_input_grad(all.iter().map(requires_grad));
    let inputs: Vec<Tensor> = all.iter().flatten().cloned().collect();
    let inputs = &inputs[..];
    let recording = core.grad_flag.replace(false);
    let outputs = function.forward(&ctx, inputs);
    core.grad_flag.set(recording);
    let outputs = outputs?;
    let dirty = ctx.0.dirty_tensors.take().unwrap_or_default();
    let constant = ctx.0.non_differentiable.take().unwrap_or_default();
    if !recording || !inputs.iter().any(Tensor::requires_grad) {
        return Ok(outputs);
    }
    let shapes: Box<[Shape]> = outputs.iter().map(Tensor::shape).collect();
    let edges = all.iter().map(|input| input.as_ref()?.meta());
    let backward = backward(&core, Rc::clone(function), ctx, shapes, all.len());
    let node = GradNode::Op(OpNode::create(
        &core,
        "PyBackwardNode",
        edges,
        outputs.len(),
        backward,
    ));
    let attach = |(index, output): (usize, Tensor)| {
        if constant.iter().any(|other| output.is(other)) {
            return Tensor::from_array(output.array().clone(), None);
        }
        let meta = Meta {
            node: node.clone(),
            output_index: index as u32,
        };
        if dirty.iter().any(|other| output.is(other)) {
            // Changed in place: the caller's own tensor now comes from here.
            output.set_meta(meta);
            return output;
        }
        if inputs.iter().any(|input| output.is(input)) {
            // An input returned as it is becomes a view with a graph of its own.
            return Tensor::from_array(output.array().clone(), Some(meta));
        }
        output.set_meta(meta);
        output
    };
    Ok(outputs.into_iter().enumerate().map(attach).collect())
}

/// The node's backward function: it owns the ctx until it is released.
fn backward(
    core: &Rc<Core>,
    function: Rc<dyn Function>,
    ctx: FunctionCtx,
    shapes: Box<[Shape]>,
    inputs: usize,
) -> impl Fn(&[Option<Array>]) -> Result<Grads, Error> + 'static {
    let shapes = SavedList::new(core, shapes);
    move |grads| {
        let materialize = ctx.0.materialize_grads.get();
        let zeros = |index: usize| full(&ctx.0.core, shapes[index], 0.0);
        let arrived = grads.iter().enumerate().map(|(index, grad)| {
            let grad = grad.clone().or_else(|| materialize.then(|| zeros(index)));
            grad.map(|grad| Tensor::from_array(grad, None))
        });
        let arrived: Vec<Option<Tensor>> = arrived.collect();
        let returned = function.backward(&ctx, &arrived)?;
        if returned.len() != inputs {
            return Err(Error::GradCount {
                inputs,
                returned: returned.len(),
            });
        }
        let arrays = returned.into_iter().map(|grad| Some(grad?.array().clone()));
        Ok(arrays.collect())
    }
}
