//! `Tensor` and the handle of its hooks.

use numpy::PyArrayDyn;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::convert::{array_from, tensor_from};
use crate::error::{exception, raised};

/// A tensor of the mock runtime.
#[pyclass(unsendable, frozen, module = "mockspore")]
pub(crate) struct Tensor(pub(crate) mockspore::Tensor);

#[pymethods]
impl Tensor {
    #[new]
    fn new(input_data: &Bound<'_, PyAny>) -> PyResult<Self> {
        tensor_from(input_data).map(Self)
    }

    /// The values as a `NumPy` array.
    fn asnumpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
        array_from(py, &self.0)
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.shape().dims())
    }

    #[getter]
    fn _requires_grad(&self) -> bool {
        self.0.requires_grad()
    }

    #[getter]
    fn _is_leaf(&self) -> bool {
        self.0.is_leaf()
    }

    #[getter]
    fn _grad(&self) -> Option<Self> {
        self.0.grad().map(Self)
    }

    /// Drops the gradient: the mock lets no other one take its place.
    #[setter(_grad)]
    fn set_grad(&self, py: Python<'_>, value: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        if value.is_some() {
            let message = "_grad can be set to None only".to_owned();
            return Err(exception(py, "MockRuntimeError", message));
        }
        drop(self.0.take_grad());
        Ok(())
    }

    /// Makes it a leaf that gradients flow into.
    fn requires_grad_(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf.0.requires_grad_();
        slf
    }

    /// Registers a hook on the gradient of this tensor.
    fn register_hook(&self, hook: Bound<'_, PyAny>) -> PyResult<TensorHookHandle> {
        if !hook.is_callable() {
            let type_name = hook.get_type().name()?;
            let message = format!("Expected a callable hook function, but got {type_name}.");
            return Err(exception(hook.py(), "MockTypeError", message));
        }
        let hook = hook.unbind();
        let handle = self.0.register_hook(move |grad| call(&hook, grad));
        Ok(TensorHookHandle(handle))
    }

    fn __repr__(&self) -> String {
        format!(
            "Tensor(shape={}, value={:?})",
            self.0.shape(),
            self.0.to_vec()
        )
    }
}

/// Calls a Python hook with a gradient.
fn call(hook: &Py<PyAny>, grad: &mockspore::Tensor) -> mockspore::autograd::hook::HookReturn {
    Python::attach(|py| {
        let returned = hook.call1(py, (Tensor(grad.clone()),)).map_err(raised)?;
        let returned = returned.bind(py);
        if returned.is_none() {
            return Ok(None);
        }
        match returned.cast::<Tensor>() {
            Ok(tensor) => Ok(Some(tensor.borrow().0.clone())),
            Err(_) => Err(mockspore::Error::HookReturn {
                type_name: returned.get_type().name().map_err(raised)?.to_string(),
            }),
        }
    })
}

/// The handle of a registered hook; dropping it keeps the hook.
#[pyclass(name = "_TensorHookHandle", unsendable, frozen, module = "mockspore")]
pub(crate) struct TensorHookHandle(mockspore::TensorHookHandle);

#[pymethods]
impl TensorHookHandle {
    /// The registration's id.
    #[getter]
    fn id(&self) -> u64 {
        self.0.id()
    }

    /// Takes the hook off; harmless when repeated.
    fn remove(&self) {
        self.0.remove();
    }
}
