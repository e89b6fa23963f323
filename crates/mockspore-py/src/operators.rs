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
pub(crate) fn relu(py: Python<'_>, input: &Tensor) -> PyResult<Tensor> {
    ops::relu(&input.0)
        .map(Tensor)
        .map_err(|error| raise(py, error))
}

/// The sum of all values.
#[pyfunction]
pub(crate) fn sum(py: Python<'_>, input: &Tensor) -> PyResult<Tensor> {
    ops::sum(&input.0)
        .map(Tensor)
        .map_err(|error| raise(py, error))
}

/// The Euclidean norm of all values.
#[pyfunction]
pub(crate) fn norm(py: Python<'_>, input: &Tensor) -> PyResult<Tensor> {
    ops::norm(&input.0)
        .map(Tensor)
        .map_err(|error| raise(py, error))
}

/// Pieces of `input` along its first dimension.
#[pyfunction]
#[allow(
    clippy::needless_pass_by_value,
    reason = "pyo3 hands arguments over by value"
)]
pub(crate) fn split(
    py: Python<'_>,
    input: &Tensor,
    split_size_or_sections: Vec<usize>,
) -> PyResult<Vec<Tensor>> {
    let pieces = ops::split(&input.0, &split_size_or_sections);
    let pieces = pieces.map_err(|error| raise(py, error))?;
    Ok(pieces.into_iter().map(Tensor).collect())
}
