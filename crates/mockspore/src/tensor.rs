//! Tensors: f32 values, a shape and autograd meta.
//!
//! ```text
//! Tensor ─▶ values (Storage, shared)          freed with the last holder
//!    └─ meta ─▶ shared_ptr<BackwardNode>      keeps the graph behind it alive
//! ```
//!
//! Models `Tensor` with its `AutoGradMetaData`, in one block. Not modelled:
//! strides, dtypes, device memory.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::mem::size_of;
use std::rc::Rc;

use crate::autograd::node::{GradNode, LeafNode};
use crate::census::Kind;
use crate::runtime::Core;

pub use crate::shape::Shape;

/// Values and shape without autograd: what a node saves, what a gradient is.
#[derive(Clone)]
pub(crate) struct Array {
    pub(crate) shape: Shape,
    storage: Storage,
}

impl Array {
    /// `values` must yield exactly `shape.size()` values.
    pub(crate) fn new(core: &Rc<Core>, shape: Shape, values: impl Iterator<Item = f32>) -> Self {
        let cells: Rc<[Cell<f32>]> = values.map(Cell::new).collect();
        debug_assert_eq!(cells.len(), shape.size());
        core.census
            .created(Kind::Storage, storage_size(cells.len()));
        let storage = Storage {
            core: Rc::clone(core),
            cells,
        };
        Self { shape, storage }
    }

    pub(crate) fn core(&self) -> &Rc<Core> {
        &self.storage.core
    }

    pub(crate) fn values(&self) -> impl ExactSizeIterator<Item = f32> + Clone {
        self.storage.cells.iter().map(Cell::get)
    }

    pub(crate) fn at(&self, index: usize) -> f32 {
        self.storage.cells[index].get()
    }

    /// Writes values in place, for every holder of them.
    pub(crate) fn assign(&self, values: impl Iterator<Item = f32>) {
        for (cell, value) in self.storage.cells.iter().zip(values) {
            cell.set(value);
        }
    }
}

/// The shared values. The last handle notes the block's end.
#[derive(Clone)]
struct Storage {
    core: Rc<Core>,
    cells: Rc<[Cell<f32>]>,
}

impl Drop for Storage {
    fn drop(&mut self) {
        if Rc::strong_count(&self.cells) == 1 {
            let size = storage_size(self.cells.len());
            self.core.census.dropped(Kind::Storage, size);
        }
    }
}

/// Bytes of an `Rc<[f32]>`: two counts and the values, word-aligned.
fn storage_size(values: usize) -> usize {
    (2 * size_of::<usize>() + 4 * values).next_multiple_of(size_of::<usize>())
}

/// The autograd side of a tensor: the node that makes its gradient.
#[derive(Clone)]
pub(crate) struct Meta {
    pub(crate) node: GradNode,
    pub(crate) output_index: u32,
}

struct Body {
    array: Array,
    meta: RefCell<Option<Meta>>,
    /// Given at its first use as a key, 0 before.
    id: Cell<u64>,
}

impl Body {
    const SIZE: usize = 2 * size_of::<usize>() + size_of::<Self>();
}

impl Drop for Body {
    fn drop(&mut self) {
        self.array.core().census.dropped(Kind::Tensor, Self::SIZE);
    }
}

/// A tensor of the mock runtime; clones share it.
#[derive(Clone)]
pub struct Tensor(Rc<Body>);

impl Tensor {
    pub(crate) fn from_array(array: Array, meta: Option<Meta>) -> Self {
        array.core().census.created(Kind::Tensor, Body::SIZE);
        let meta = RefCell::new(meta);
        let id = Cell::default();
        Self(Rc::new(Body { array, meta, id }))
    }

    pub(crate) fn array(&self) -> &Array {
        &self.0.array
    }

    pub(crate) fn core(&self) -> &Rc<Core> {
        self.0.array.core()
    }

    pub(crate) fn meta(&self) -> Option<Meta> {
        self.0.meta.borrow().clone()
    }

    /// The node of this tensor; a tensor without one becomes a leaf.
    pub(crate) fn meta_or_leaf(&self) -> Meta {
        self.0
            .meta
            .borrow_mut()
            .get_or_insert_with(|| Meta {
                node: LeafNode::create(self.core()),
                output_index: 0,
            })
            .clone()
    }

    pub(crate) fn set_meta(&self, meta: Meta) {
        let old = self.0.meta.borrow_mut().replace(meta);
        // Outside of the borrow: it may end a graph.
        drop(old);
    }

    /// Its id, which no other tensor of the runtime ever has.
    pub(crate) fn id(&self) -> u64 {
        if self.0.id.get() == 0 {
            self.0.id.set(self.core().next_tensor_id());
        }
        self.0.id.get()
    }

    /// Whether both are one tensor, not just equal.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// The dimensions.
    pub fn shape(&self) -> Shape {
        self.array().shape
    }

    /// The values, row-major.
    pub fn to_vec(&self) -> Vec<f32> {
        self.array().values().collect()
    }

    /// Writes the values of another tensor of the same shape in place, whatever
    /// its runtime (`Tensor.copy_`); a shorter one fills the front.
    pub fn copy_(&self, source: &Self) {
        self.array().assign(source.array().values());
    }

    /// Whether gradients flow into it (`Tensor._requires_grad`).
    pub fn requires_grad(&self) -> bool {
        self.0.meta.borrow().is_some()
    }

    /// Whether no operator node made it (`Tensor._is_leaf`).
    pub fn is_leaf(&self) -> bool {
        let meta = self.0.meta.borrow();
        !matches!(
            &*meta,
            Some(Meta {
                node: GradNode::Op(_),
                ..
            })
        )
    }

    /// Makes it a leaf that gradients flow into (`Tensor.requires_grad_`).
    pub fn requires_grad_(&self) {
        self.meta_or_leaf();
    }

    /// Takes the accumulated gradient away, as `param.grad = None` does.
    pub fn take_grad(&self) -> Option<Self> {
        let meta = self.meta()?;
        let GradNode::Leaf(leaf) = &meta.node else {
            return None;
        };
        let grad = leaf.get().grad.borrow_mut().take()?;
        Some(Self::from_array(grad, None))
    }

    /// The gradient that `run_backward` accumulated (`Tensor._grad`).
    pub fn grad(&self) -> Option<Self> {
        let meta = self.meta()?;
        let GradNode::Leaf(leaf) = &meta.node else {
            return None;
        };
        let grad = leaf.get().grad.borrow().clone()?;
        Some(Self::from_array(grad, None))
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensor")
            .field("shape", &self.shape())
            .field("values", &self.to_vec())
            .field("requires_grad", &self.requires_grad())
            .finish()
    }
}
