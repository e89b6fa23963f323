//! Values in, values out: what the operators and their gradients compute.

use std::rc::Rc;

use crate::error::Error;
use crate::runtime::Core;
use crate::tensor::{Array, Shape};

/// Elementwise `f(a, b)` with `NumPy`'s broadcasting.
pub(crate) fn zip(
    op: &'static str,
    a: &Array,
    b: &Array,
    f: impl Fn(f32, f32) -> f32,
) -> Result<Array, Error> {
    if a.shape == b.shape {
        let values = a.values().zip(b.values()).map(|(x, y)| f(x, y));
        return Ok(Array::new(a.core(), a.shape, values));
    }
    let shape = broadcast(a.shape, b.shape).ok_or(Error::Broadcast {
        op,
        left: a.shape,
        right: b.shape,
    })?;
    let at = |i| {
        f(
            a.at(source(i, shape, a.shape)),
            b.at(source(i, shape, b.shape)),
        )
    };
    Ok(Array::new(a.core(), shape, (0..shape.size()).map(at)))
}

/// Elementwise `f(a)`.
pub(crate) fn map(a: &Array, f: impl Fn(f32) -> f32) -> Array {
    Array::new(a.core(), a.shape, a.values().map(f))
}

/// One value in every place.
pub(crate) fn full(core: &Rc<Core>, shape: Shape, value: f32) -> Array {
    Array::new(core, shape, (0..shape.size()).map(|_| value))
}

/// The sum of all values, a scalar.
pub(crate) fn sum(a: &Array) -> Array {
    Array::new(a.core(), Shape::scalar(), std::iter::once(a.values().sum()))
}

/// `[n, k] x [k, m]`, each operand transposed first where asked.
pub(crate) fn matmul(a: &Array, a_t: bool, b: &Array, b_t: bool) -> Result<Array, Error> {
    let mismatch = Error::Matmul {
        left: a.shape,
        right: b.shape,
    };
    let (&[a0, a1], &[b0, b1]) = (a.shape.dims(), b.shape.dims()) else {
        return Err(mismatch);
    };
    let (rows, inner) = if a_t { (a1, a0) } else { (a0, a1) };
    let (b_inner, columns) = if b_t { (b1, b0) } else { (b0, b1) };
    if inner != b_inner {
        return Err(mismatch);
    }
    let left = |row, at| {
        a.at(if a_t {
            at * rows + row
        } else {
            row * inner + at
        })
    };
    let right = |at, column| {
        b.at(if b_t {
            column * inner + at
        } else {
            at * columns + column
        })
    };
    let dot = |row, column| (0..inner).map(|at| left(row, at) * right(at, column)).sum();
    let values = (0..rows * columns).map(|at| dot(at / columns, at % columns));
    Ok(Array::new(a.core(), Shape::new(&[rows, columns])?, values))
}

/// Sums a gradient back to the shape that was broadcast to it.
pub(crate) fn unbroadcast(grad: Array, shape: Shape) -> Array {
    if grad.shape == shape {
        return grad;
    }
    let mut sums = vec![0.0; shape.size()];
    for (i, value) in grad.values().enumerate() {
        sums[source(i, grad.shape, shape)] += value;
    }
    Array::new(grad.core(), shape, sums.into_iter())
}

/// `size` rows of `a` from row `start` on.
pub(crate) fn slice(a: &Array, start: usize, size: usize) -> Array {
    let row = a.shape.size() / a.shape.dims().first().copied().unwrap_or(1).max(1);
    let values = a.values().skip(start * row).take(size * row);
    Array::new(a.core(), a.shape.with_rows(size), values)
}

/// `whole` with `piece` put at row `start`; as it was where there is none.
pub(crate) fn unslice(whole: Array, piece: Option<&Array>, start: usize) -> Array {
    let Some(piece) = piece else { return whole };
    let row = whole.shape.size() / whole.shape.dims().first().copied().unwrap_or(1).max(1);
    let from = start * row;
    let at = |index: usize| match index
        .checked_sub(from)
        .filter(|&at| at < piece.shape.size())
    {
        Some(at) => piece.at(at),
        None => whole.at(index),
    };
    Array::new(whole.core(), whole.shape, (0..whole.shape.size()).map(at))
}

/// The common shape of two operands, aligned at the last dimension.
fn broadcast(a: Shape, b: Shape) -> Option<Shape> {
    let rank = a.dims().len().max(b.dims().len());
    let mut dims = [1; Shape::MAX_RANK];
    for (back, dim) in dims[..rank].iter_mut().rev().enumerate() {
        *dim = match (from_back(a, back), from_back(b, back)) {
            (x, y) if x == y || y == 1 => x,
            (1, y) => y,
            _ => return None,
        };
    }
    Shape::new(&dims[..rank]).ok()
}

fn from_back(shape: Shape, back: usize) -> usize {
    shape.dims().iter().rev().nth(back).copied().unwrap_or(1)
}

/// Where value `index` of a broadcast result comes from in an operand.
fn source(index: usize, result: Shape, operand: Shape) -> usize {
    let (mut rest, mut at, mut stride) = (index, 0, 1);
    for back in 0..result.dims().len() {
        let dim = from_back(result, back);
        let own = from_back(operand, back);
        at += if own == 1 { 0 } else { (rest % dim) * stride };
        rest /= dim.max(1);
        stride *= own;
    }
    at
}

/// Rows and columns of a matrix; none of what is no matrix.
pub(crate) fn matrix(array: &Array) -> (usize, usize) {
    match array.shape.dims() {
        &[rows, columns] => (rows, columns),
        _ => (0, 0),
    }
}

/// The values of one row.
pub(crate) fn row(array: &Array, index: usize) -> impl Iterator<Item = f32> + '_ {
    let (_, columns) = matrix(array);
    (0..columns).map(move |column| array.at(index * columns + column))
}

/// The rows at `indices`.
pub(crate) fn taken_rows(array: &Array, indices: &[usize]) -> Array {
    let (_, columns) = matrix(array);
    let values = indices.iter().flat_map(|&index| row(array, index));
    let values: Vec<f32> = values.collect();
    let shape = Shape::of_matrix(indices.len(), columns);
    Array::new(array.core(), shape, values.into_iter())
}

/// Each row added to the row at its index, of `rows` zeros.
pub(crate) fn scattered_rows(array: &Array, indices: &[usize], rows: usize) -> Array {
    let (_, columns) = matrix(array);
    let mut sums = vec![0.0; rows * columns];
    for (from, &to) in indices.iter().enumerate() {
        for (column, value) in row(array, from).enumerate() {
            sums[to * columns + column] += value;
        }
    }
    let shape = Shape::of_matrix(rows, columns);
    Array::new(array.core(), shape, sums.into_iter())
}
