//! `FunctionBase`: the ctx of a custom function, with real Python objects.
//!
//! ```text
//! node ─▶ backward fn ─▶ Python function ─▶ FunctionBase ─▶ needs_input_grad
//!                                              └─▶ the mock's own ctx and tuple
//! ```
//!
//! As upstream, the type has no traverse and no clear: the garbage collector
//! sees a subclass's `__dict__` and never these fields. Its destructor clears
//! what the policy says, so a `needs_input_grad` tuple of `CPython` is lost for
//! real, beside the mock's block of the same size.

#![allow(
    clippy::needless_pass_by_value,
    reason = "pyo3 hands arguments over by value"
)]

use std::cell::{Cell, RefCell};

use mockspore::{CtxClear, FunctionCtx};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyTuple};

use crate::error::exception;
use crate::executor::unwrap;
use crate::runtime::with_runtime;
use crate::tensor::Tensor;

pub(crate) type Field = RefCell<Option<Py<PyAny>>>;

/// The ctx of a custom function.
#[pyclass(subclass, unsendable, module = "mockspore")]
pub(crate) struct FunctionBase {
    /// The mock's ctx, from apply on.
    pub(crate) ctx: RefCell<Option<FunctionCtx>>,
    clear: CtxClear,
    pub(crate) needs_input_grad: Field,
    saved_tensors: Field,
    pub(crate) dirty_tensors: Field,
    pub(crate) non_differentiable: Field,
    pub(crate) materialize_grads: Cell<bool>,
    /// Whether its forward has returned: what it saved is there only then.
    pub(crate) saved: Cell<bool>,
}

/// `FunctionBase_clear`.
impl Drop for FunctionBase {
    fn drop(&mut self) {
        if self.clear == CtxClear::NamesSavedTensorsTwice {
            forget(self.needs_input_grad.take());
        }
    }
}

#[allow(clippy::mem_forget, reason = "this is the modelled leak")]
pub(crate) fn forget(tuple: Option<Py<PyAny>>) {
    std::mem::forget(tuple);
}

/// None for a field without a value.
fn read(py: Python<'_>, field: &Field) -> Option<Py<PyAny>> {
    field.borrow().as_ref().map(|value| value.clone_ref(py))
}

/// Stores any object; None and `del` release what was there.
fn store(field: &Field, value: Option<Bound<'_, PyAny>>) {
    let value = value.filter(|value| !value.is_none()).map(Bound::unbind);
    // Dropped outside of the borrow: a destructor may read the field.
    drop(field.replace(value));
}

#[pymethods]
impl FunctionBase {
    #[new]
    #[pyo3(signature = ())]
    fn new() -> Self {
        Self {
            ctx: RefCell::default(),
            clear: with_runtime(|runtime| runtime.policies().ctx_clear),
            needs_input_grad: Field::default(),
            saved_tensors: Field::default(),
            dirty_tensors: Field::default(),
            non_differentiable: Field::default(),
            materialize_grads: Cell::new(true),
            saved: Cell::default(),
        }
    }

    #[getter(needs_input_grad)]
    fn get_needs_input_grad(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        read(py, &self.needs_input_grad)
    }

    #[setter(needs_input_grad)]
    fn set_needs_input_grad(&self, value: Option<Bound<'_, PyAny>>) {
        if let Some(ctx) = &*self.ctx.borrow() {
            ctx.clear_needs_input_grad();
        }
        store(&self.needs_input_grad, value);
    }

    #[deleter(needs_input_grad)]
    fn delete_needs_input_grad(&self) {
        self.set_needs_input_grad(None);
    }

    #[getter(saved_tensors)]
    fn get_saved_tensors(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if let Some(stored) = read(py, &self.saved_tensors) {
            return Ok(stored);
        }
        let ctx = self.ctx.borrow();
        let ctx = ctx.as_ref().filter(|_| self.saved.get());
        let saved = ctx.map_or_else(Vec::new, FunctionCtx::saved_tensors);
        let saved = PyTuple::new(py, saved.into_iter().map(Tensor))?;
        Ok(saved.into_any().unbind())
    }

    #[setter(saved_tensors)]
    fn set_saved_tensors(&self, value: Option<Bound<'_, PyAny>>) {
        if let Some(ctx) = &*self.ctx.borrow() {
            ctx.save_for_backward(&[]);
        }
        store(&self.saved_tensors, value);
    }

    #[deleter(saved_tensors)]
    fn delete_saved_tensors(&self) {
        self.set_saved_tensors(None);
    }

    #[getter(dirty_tensors)]
    fn get_dirty_tensors(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        read(py, &self.dirty_tensors)
    }

    #[setter(dirty_tensors)]
    fn set_dirty_tensors(&self, value: Option<Bound<'_, PyAny>>) {
        store(&self.dirty_tensors, value);
    }

    #[deleter(dirty_tensors)]
    fn delete_dirty_tensors(&self) {
        self.set_dirty_tensors(None);
    }

    #[getter(non_differentiable)]
    fn get_non_differentiable(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        read(py, &self.non_differentiable)
    }

    #[setter(non_differentiable)]
    fn set_non_differentiable(&self, value: Option<Bound<'_, PyAny>>) {
        store(&self.non_differentiable, value);
    }

    #[deleter(non_differentiable)]
    fn delete_non_differentiable(&self) {
        self.set_non_differentiable(None);
    }

    /// Write-only, as upstream: see `set_materialize_grads`.
    #[setter(materialize_grads)]
    fn write_materialize_grads(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set_materialize_grads(value)
    }

    /// Keeps tensors for the backward.
    #[pyo3(signature = (*tensors))]
    fn save_for_backward(&self, tensors: Vec<PyRef<'_, Tensor>>) {
        if let Some(ctx) = &*self.ctx.borrow() {
            ctx.save_for_backward(&unwrap(&tensors));
        }
    }

    /// Marks inputs that the forward changed in place.
    #[pyo3(signature = (*tensors))]
    fn mark_dirty(&self, tensors: Bound<'_, PyTuple>) {
        self.set_dirty_tensors(Some(tensors.into_any()));
    }

    /// Marks outputs that no gradient flows into.
    #[pyo3(signature = (*tensors))]
    fn mark_non_differentiable(&self, tensors: Bound<'_, PyTuple>) {
        self.set_non_differentiable(Some(tensors.into_any()));
    }

    /// Whether a gradient that did not arrive is zeros in the backward.
    fn set_materialize_grads(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let Ok(value) = value.cast::<PyBool>() else {
            let type_name = value.get_type().name()?;
            let message =
                format!("set materialize_grads value should be bool! but got {type_name}");
            return Err(exception(value.py(), "MockRuntimeError", message));
        };
        self.materialize_grads.set(value.is_true());
        Ok(())
    }
}
