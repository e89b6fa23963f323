//! Backward nodes.
//!
//! ```text
//! Tensor ─shared─▶ control block ─▶ OpNode ─▶ edges ─shared─▶ earlier nodes
//!                                     ├─▶ backward fn ─▶ saved values
//!                                     └─▶ hook list ─▶ hooks
//! Tensor ─shared─▶ leaf block (node inside) ─▶ hook list, accumulated grad
//! ```
//!
//! A backward releases the backward fn with its saved values; edges and hooks
//! stay while any tensor of the graph lives. Models `BackwardNode`,
//! `FuncBackwardNode` and `LeafNode` (`ccsrc/pynative/backward/`), made by
//! `BackwardNode::Create` (separate control block) and `std::make_shared`.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::mem::size_of;
use std::rc::Rc;

use crate::autograd::hook::HookList;
use crate::autograd::record::Grads;
use crate::census::Kind;
use crate::error::Error;
use crate::kernels::zip;
use crate::model::shared::{Dying, Managed, Shared, Weak};
use crate::runtime::Core;
use crate::tensor::{Array, Meta};

/// What every node has.
pub(crate) struct Base {
    core: Rc<Core>,
    use_count: Cell<u32>,
    /// Place in the task list of the backward that visits it.
    pub(crate) task: Cell<Task>,
    pub(crate) hooks: HookList,
}

/// A node's mark: which backward visits it, and as which of its tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Task {
    pub(crate) engine_id: u64,
    pub(crate) index: usize,
}

impl Base {
    fn new(core: &Rc<Core>) -> Self {
        Self {
            core: Rc::clone(core),
            use_count: Cell::new(1),
            task: Cell::default(),
            hooks: HookList::new(core),
        }
    }
}

/// From the gradients of the outputs to those of the inputs.
type Backward = dyn Fn(&[Option<Array>]) -> Result<Grads, Error>;

/// Bytes of its block: two counts and the values that it saved.
fn backward_size(backward: &Backward) -> usize {
    2 * size_of::<usize>() + size_of_val(backward).next_multiple_of(size_of::<usize>())
}

/// The input side of a node: which output of which node it differentiates into.
pub(crate) type Edge = Option<Meta>;

/// A node that an operator made.
pub(crate) struct OpNode {
    pub(crate) base: Base,
    /// The operator, as the framework prints its node.
    pub(crate) name: &'static str,
    /// Nodes made later are visited first.
    pub(crate) seq: u64,
    outputs: usize,
    pub(crate) edges: Box<[Edge]>,
    backward: RefCell<Option<Rc<Backward>>>,
}

impl OpNode {
    pub(crate) fn create<B>(
        core: &Rc<Core>,
        name: &'static str,
        edges: impl Iterator<Item = Edge>,
        outputs: usize,
        backward: B,
    ) -> Shared<Box<Self>>
    where
        B: Fn(&[Option<Array>]) -> Result<Grads, Error> + 'static,
    {
        let edges: Box<[Edge]> = edges.collect();
        let census = &core.census;
        census.created(Kind::Edges, size_of_val::<[Edge]>(&edges));
        let backward: Rc<Backward> = Rc::new(backward);
        census.created(Kind::BackwardFn, backward_size(&*backward));
        census.created(Kind::OpNode, size_of::<Self>());
        Shared::new(Box::new(Self {
            base: Base::new(core),
            name,
            seq: core.next_seq(),
            outputs,
            edges,
            backward: RefCell::new(Some(backward)),
        }))
    }

    /// The gradients of the inputs from those of the outputs.
    ///
    /// # Errors
    /// [`Error::BackwardTwice`] if an earlier backward has released the node.
    pub(crate) fn run_backward(&self, grads: &[Option<Array>]) -> Result<Grads, Error> {
        // Held by a clone: user code in it may run another backward.
        let backward = self.backward.borrow().clone();
        backward.ok_or(Error::BackwardTwice)?(grads)
    }

    /// Drops the backward function and what it saved, nothing else.
    pub(crate) fn release(&self) {
        let backward = self.backward.borrow_mut().take();
        if let Some(backward) = backward {
            // Outside of the borrow: what it holds may run user code.
            let size = backward_size(&*backward);
            drop(backward);
            self.base.core.census.dropped(Kind::BackwardFn, size);
        }
    }
}

impl Drop for OpNode {
    fn drop(&mut self) {
        self.release();
        let census = &self.base.core.census;
        census.dropped(Kind::Edges, size_of_val::<[Edge]>(&self.edges));
        census.dropped(Kind::OpNode, size_of::<Self>());
    }
}

/// Bytes of the real `LeafNode` that the mock has no use for; they bring the
/// whole block into the allocator's 256-byte class, as the real one is.
const UNMODELLED_LEAF_BYTES: usize = 80;

/// A node for a tensor that no operator made.
pub(crate) struct LeafNode {
    pub(crate) base: Base,
    /// What `run_backward` has accumulated (`Tensor._grad`).
    pub(crate) grad: RefCell<Option<Array>>,
    _unmodelled: [u8; UNMODELLED_LEAF_BYTES],
}

impl LeafNode {
    pub(crate) fn create(core: &Rc<Core>) -> GradNode {
        GradNode::Leaf(Shared::new(Self {
            base: Base::new(core),
            grad: RefCell::new(None),
            _unmodelled: [0; UNMODELLED_LEAF_BYTES],
        }))
    }

    /// Adds to the accumulated gradient.
    pub(crate) fn accumulate(&self, grad: Array) -> Result<(), Error> {
        let sum = match self.grad.take() {
            None => grad,
            Some(before) => zip("add", &before, &grad, |a, b| a + b)?,
        };
        self.grad.replace(Some(sum));
        Ok(())
    }
}

impl Managed for Box<OpNode> {
    const BLOCK: Kind = Kind::ControlBlock;

    /// As upstream's `CustomDeleter`: a chain of nodes dies in a loop, however
    /// long it is, and not by recursion.
    fn destroy(dying: Dying<Self>) {
        match dying.core() {
            Some(core) => core.graveyard.bury(dying),
            None => drop(dying),
        }
    }

    fn use_count(&self) -> &Cell<u32> {
        &self.base.use_count
    }

    fn core(&self) -> &Rc<Core> {
        &self.base.core
    }
}

impl Managed for LeafNode {
    const BLOCK: Kind = Kind::LeafBlock;

    fn use_count(&self) -> &Cell<u32> {
        &self.base.use_count
    }

    fn core(&self) -> &Rc<Core> {
        &self.base.core
    }
}

/// A `shared_ptr<BackwardNode>`.
#[derive(Clone)]
pub(crate) enum GradNode {
    /// Made by an operator.
    Op(Shared<Box<OpNode>>),
    /// Made for a tensor that no operator made.
    Leaf(Shared<LeafNode>),
}

impl GradNode {
    /// Reads what every node has.
    pub(crate) fn with_base<R>(&self, read: impl FnOnce(&Base) -> R) -> R {
        match self {
            Self::Op(node) => read(&node.get().base),
            Self::Leaf(node) => read(&node.get().base),
        }
    }

    /// Number of outputs whose gradients it takes.
    pub(crate) fn outputs(&self) -> usize {
        match self {
            Self::Op(node) => node.get().outputs,
            Self::Leaf(_) => 1,
        }
    }

    pub(crate) fn downgrade(&self) -> WeakNode {
        match self {
            Self::Op(node) => WeakNode::Op(node.downgrade()),
            Self::Leaf(node) => WeakNode::Leaf(node.downgrade()),
        }
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Op(a), Self::Op(b)) => a.same(b),
            (Self::Leaf(a), Self::Leaf(b)) => a.same(b),
            _ => false,
        }
    }
}

impl fmt::Debug for GradNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Op(node) => write!(f, "<{}, seq={}>", node.get().name, node.get().seq),
            Self::Leaf(_) => write!(f, "<leaf>"),
        }
    }
}

/// A `weak_ptr<BackwardNode>`: 16 bytes, as in C++.
pub(crate) enum WeakNode {
    /// Pins the control block.
    Op(Weak<Box<OpNode>>),
    /// Pins the whole leaf.
    Leaf(Weak<LeafNode>),
}

impl WeakNode {
    pub(crate) fn lock(&self) -> Option<GradNode> {
        match self {
            Self::Op(weak) => weak.lock().map(GradNode::Op),
            Self::Leaf(weak) => weak.lock().map(GradNode::Leaf),
        }
    }

    pub(crate) fn release(self, core: &Core) {
        match self {
            Self::Op(weak) => weak.release(core),
            Self::Leaf(weak) => weak.release(core),
        }
    }
}
