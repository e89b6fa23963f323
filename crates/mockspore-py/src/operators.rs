//! The operators of `mint` and `ops`.

use mockspore::{Error, ops};
use pyo3::prelude::*;

use crate::error::raise;
use crate::tensor::Tensor;

fn binary(
    py: Python<'_>,
    a: &Tensor,
    b: &Tensor,
    op: fn(&mockspore::Tensor, &mockspore::Tensor) -> Result<mockspore::Tensor, Error>,
) -> PyResult<Tensor> {
    op(&a.0, &b.0).map(Tensor).map_err(|error| raise(py, error))
}

/// `input * other`.
#[pyfunction]
pub(crate) fn mul(py: Python<'_>, input: &Tensor, other: &Tensor) -> PyResult<Tensor> {
    binary(py, input, other, ops::mul)
}

/// `input + other`.
#[pyfunction]
pub(crate) fn add(py: Python<'_>, input: &Tensor, other: &Tensor) -> PyResult<Tensor> {
    binary(py, input, other, ops::add)
}

/// `input - other`.
#[pyfunction]
pub(crate) fn sub(py: Python<'_>, input: &Tensor, other: &Tensor) -> PyResult<Tensor> {
    binary(py, input, other, ops::sub)
}

/// The matrix product.
#[pyfunction]
pub(crate) fn matmul(py: Python<'_>, input: &Tensor, other: &Tensor) -> PyResult<Tensor> {
    binary(py, input, other, ops::matmul)
}

/// `max(input, 0)`.
#[pyfunction]
pub(crate) fn relu(input: &Tensor) -> Tensor {
    Tensor(ops::relu(&input.0))
}

/// The sum of all values.
#[pyfunction]
pub(crate) fn sum(input: &Tensor) -> Tensor {
    Tensor(ops::sum(&input.0))
}

/// The Euclidean norm of all values.
#[pyfunction]
pub(crate) fn norm(input: &Tensor) -> Tensor {
    Tensor(ops::norm(&input.0))
}
