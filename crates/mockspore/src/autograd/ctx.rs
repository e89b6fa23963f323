//! The ctx of a custom function, and the field that nobody clears.
//!
//! ```text
//! ctx ─▶ needs_input_grad   a tuple of 40 + 8n bytes
//!   ├──▶ saved_tensors      values, without their graph
//!   ├──▶ dirty_tensors, non_differentiable
//!   └──▶ attribute ─▶ tensor  an output here is a cycle
//! ```
//!
//! The destructor clears `saved_tensors` twice and `needs_input_grad` never, so
//! one tuple per apply has no owner. Models `FunctionBase`
//! (`ccsrc/pynative/backward/hook/function_py.cc`).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::mem::size_of;
use std::rc::Rc;

use crate::census::Kind;
use crate::policy::CtxClear;
use crate::runtime::Core;
use crate::tensor::{Array, Tensor};

/// Words of a `CPython` tuple before its items: gc links, count, type, size.
const TUPLE_HEADER_WORDS: usize = 5;

/// What a function's forward leaves for its backward.
#[derive(Clone)]
pub struct FunctionCtx(pub(super) Rc<Body>);

pub(super) struct Body {
    pub(super) core: Rc<Core>,
    needs_input_grad: RefCell<Option<Box<[usize]>>>,
    saved_tensors: RefCell<Option<Box<[Array]>>>,
    pub(super) dirty_tensors: RefCell<Option<Vec<Tensor>>>,
    pub(super) non_differentiable: RefCell<Option<Vec<Tensor>>>,
    pub(super) materialize_grads: Cell<bool>,
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
    pub(super) fn new(core: &Rc<Core>) -> Self {
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
    pub(super) fn store_needs_input_grad(&self, needs: impl ExactSizeIterator<Item = bool>) {
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
