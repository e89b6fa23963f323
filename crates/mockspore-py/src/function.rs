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
use std::rc::Rc;

use mockspore::{CtxClear, Error, Function, FunctionCtx};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyTuple, PyType};

use crate::error::{exception, raise, raised};
use crate::executor::{outputs, unwrap};
use crate::runtime::with_runtime;
use crate::tensor::Tensor;

type Field = RefCell<Option<Py<PyAny>>>;

/// The ctx of a custom function.
#[pyclass(subclass, unsendable, module = "mockspore")]
pub(crate) struct FunctionBase {
    /// The mock's ctx, from apply on.
    ctx: RefCell<Option<FunctionCtx>>,
    clear: CtxClear,
    needs_input_grad: Field,
    saved_tensors: Field,
    dirty_tensors: Field,
    non_differentiable: Field,
    materialize_grads: Cell<bool>,
    /// Whether its forward has returned: what it saved is there only then.
    saved: Cell<bool>,
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
fn forget(tuple: Option<Py<PyAny>>) {
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
        store(&self.saved_tensors, value);
    }

    #[getter(dirty_tensors)]
    fn get_dirty_tensors(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        read(py, &self.dirty_tensors)
    }

    #[setter(dirty_tensors)]
    fn set_dirty_tensors(&self, value: Option<Bound<'_, PyAny>>) {
        store(&self.dirty_tensors, value);
    }

    #[getter(non_differentiable)]
    fn get_non_differentiable(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        read(py, &self.non_differentiable)
    }

    #[setter(non_differentiable)]
    fn set_non_differentiable(&self, value: Option<Bound<'_, PyAny>>) {
        store(&self.non_differentiable, value);
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

/// A Python class with `forward` and `backward`, applied once.
struct PythonFunction {
    class: Py<PyType>,
    ctx: Py<FunctionBase>,
    arguments: Py<PyTuple>,
    /// What the forward returned, for the caller of apply.
    returned: RefCell<Option<Py<PyAny>>>,
}

impl Function for PythonFunction {
    fn forward(
        &self,
        ctx: &FunctionCtx,
        _: &[mockspore::Tensor],
    ) -> Result<Vec<mockspore::Tensor>, Error> {
        Python::attach(|py| self.run_forward(py, ctx)).map_err(raised)
    }

    fn backward(
        &self,
        _: &FunctionCtx,
        grads: &[Option<mockspore::Tensor>],
    ) -> Result<Vec<Option<mockspore::Tensor>>, Error> {
        Python::attach(|py| self.run_backward(py, grads)).map_err(raised)
    }
}

impl PythonFunction {
    fn run_forward(&self, py: Python<'_>, ctx: &FunctionCtx) -> PyResult<Vec<mockspore::Tensor>> {
        let fields = self.ctx.bind(py);
        {
            let fields = fields.borrow();
            let needs = ctx.needs_input_grad().unwrap_or_default();
            let needs = PyTuple::new(py, needs)?.into_any();
            // As upstream: the field's old reference is not released.
            forget(fields.needs_input_grad.replace(Some(needs.unbind())));
            fields.ctx.replace(Some(ctx.clone()));
        }
        let arguments = with_first(fields.as_any(), self.arguments.bind(py).iter())?;
        let output = self.class.bind(py).getattr("forward")?.call1(arguments)?;
        let fields = fields.borrow();
        if let Some(dirty) = marked(py, &fields.dirty_tensors, "dirty_tensors")? {
            ctx.mark_dirty(&dirty);
        }
        if let Some(constant) = marked(py, &fields.non_differentiable, "non_differentiable")? {
            ctx.mark_non_differentiable(&constant);
        }
        ctx.set_materialize_grads(fields.materialize_grads.get());
        // The mock's ctx is the node's; a strong reference here would be a cycle.
        fields.saved.set(true);
        let tensors = outputs(&output);
        self.returned.replace(Some(output.unbind()));
        tensors
    }

    fn run_backward(
        &self,
        py: Python<'_>,
        grads: &[Option<mockspore::Tensor>],
    ) -> PyResult<Vec<Option<mockspore::Tensor>>> {
        let grads = grads.iter().map(|grad| grad.clone().map(Tensor));
        let grads = grads
            .map(|grad| grad.into_pyobject(py))
            .collect::<PyResult<Vec<_>>>()?;
        let arguments = with_first(self.ctx.bind(py).as_any(), grads.into_iter())?;
        let returned = self.class.bind(py).getattr("backward")?.call1(arguments)?;
        let all = match returned.cast::<PyTuple>() {
            Ok(tuple) => tuple.iter().collect(),
            Err(_) => vec![returned],
        };
        all.iter().map(gradient).collect()
    }
}

fn with_first<'py>(
    first: &Bound<'py, PyAny>,
    rest: impl Iterator<Item = Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyTuple>> {
    let all: Vec<Bound<'py, PyAny>> = [first.clone()].into_iter().chain(rest).collect();
    PyTuple::new(first.py(), all)
}

fn gradient(value: &Bound<'_, PyAny>) -> PyResult<Option<mockspore::Tensor>> {
    if value.is_none() {
        return Ok(None);
    }
    let tensor = value.cast::<Tensor>()?;
    Ok(Some(tensor.borrow().0.clone()))
}

/// Takes a mark out of its field; only now is its type looked at.
fn marked(py: Python<'_>, field: &Field, name: &str) -> PyResult<Option<Vec<mockspore::Tensor>>> {
    let Some(value) = field.take() else {
        return Ok(None);
    };
    let value = value.into_bound(py);
    let Ok(tuple) = value.cast::<PyTuple>() else {
        let type_name = value.get_type().name()?;
        let message = format!("{name} of functionbase should be a tuple, but get a {type_name}");
        return Err(exception(py, "MockRuntimeError", message));
    };
    let tensors: Vec<PyRef<'_, Tensor>> = tuple.extract()?;
    Ok(Some(unwrap(&tensors)))
}

/// Applies a class to arguments, of which some may be no tensors.
#[pyfunction]
#[pyo3(signature = (cls, *arguments))]
pub(crate) fn apply<'py>(
    cls: &Bound<'py, PyType>,
    arguments: Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = cls.py();
    let tensor = |argument: Bound<'_, PyAny>| {
        let tensor = argument.cast::<Tensor>().ok()?;
        Some(tensor.borrow().0.clone())
    };
    let inputs: Vec<Option<mockspore::Tensor>> = arguments.iter().map(tensor).collect();
    let function = Rc::new(PythonFunction {
        class: cls.clone().unbind(),
        ctx: cls.call0()?.cast_into::<FunctionBase>()?.unbind(),
        arguments: arguments.unbind(),
        returned: RefCell::default(),
    });
    let shared: Rc<dyn Function> = Rc::clone(&function) as Rc<dyn Function>;
    let applied = with_runtime(|runtime| mockspore::apply_to(runtime, &shared, &inputs));
    let applied = applied.map_err(|error| raise(py, error))?;
    let returned = function.returned.take().map(|value| value.into_bound(py));
    let single = returned.is_some_and(|value| value.is_instance_of::<Tensor>());
    let mut tensors = applied.into_iter().map(Tensor);
    match tensors.next() {
        Some(only) if single => Ok(Bound::new(py, only)?.into_any()),
        first => {
            Ok(PyTuple::new(py, first.into_iter().chain(tensors).collect::<Vec<_>>())?.into_any())
        }
    }
}
