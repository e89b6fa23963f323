//! `_Function.apply`: a Python class run by the mock's custom functions.

#![allow(
    clippy::needless_pass_by_value,
    reason = "pyo3 hands arguments over by value"
)]

use std::cell::RefCell;
use std::rc::Rc;

use mockspore::{Error, Function, FunctionCtx};
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

use crate::error::{exception, raise, raised};
use crate::executor::{outputs, unwrap};
use crate::function::{Field, FunctionBase, forget};
use crate::runtime::with_runtime;
use crate::tensor::Tensor;

/// A Python class with `forward` and `backward`, applied once.
struct PythonFunction {
    class: Py<PyType>,
    ctx: Py<FunctionBase>,
    /// Let go when the forward has them.
    arguments: RefCell<Option<Py<PyTuple>>>,
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
        let arguments = self.arguments.take().into_iter();
        let arguments = arguments.flat_map(|all| all.into_bound(py));
        let arguments = with_first(fields.as_any(), arguments)?;
        let output = self.class.bind(py).getattr("forward")?.call1(arguments)?;
        let fields = fields.borrow();
        if let Some(dirty) = marked(py, &fields.dirty_tensors, "dirty_tensors")? {
            ctx.mark_dirty(&dirty);
        }
        if let Some(constant) = marked(py, &fields.non_differentiable, "non_differentiable")? {
            ctx.mark_non_differentiable(&constant);
        }
        ctx.set_materialize_grads(fields.materialize_grads.get());
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
        arguments: RefCell::new(Some(arguments.unbind())),
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
