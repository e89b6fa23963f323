//! `NumPy` in and out.

use mockspore::Tensor;
use numpy::{
    IxDyn, PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods,
};
use pyo3::prelude::*;

use crate::error::raise;
use crate::runtime::with_runtime;

/// A tensor of any array-like of numbers, as f32.
pub(crate) fn tensor_from(data: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let py = data.py();
    let array = py
        .import("numpy")?
        .call_method1("asarray", (data, "float32"))?;
    let array: PyReadonlyArrayDyn<'_, f32> = array.extract()?;
    let values: Vec<f32> = array.as_array().iter().copied().collect();
    with_runtime(|runtime| runtime.tensor(&values, array.shape())).map_err(|error| raise(py, error))
}

/// A copy of a tensor's values, row-major.
pub(crate) fn array_from<'py>(
    py: Python<'py>,
    tensor: &Tensor,
) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
    PyArray1::from_vec(py, tensor.to_vec()).reshape(IxDyn(tensor.shape().dims()))
}
