//! Operators: each one's gradient stands beside its forward.
//!
//! Named after `mindspore.mint` and `mindspore.ops`. A node is made when the
//! grad flag is on and an input requires grad; it saves only what the inputs
//! that require grad need. On CPU, arguments that are no tensors are uploaded.

use std::rc::Rc;

use smallvec::smallvec;

use crate::autograd::record::{computed, record, record_all, saved_for};
use crate::autograd::saved::{Saved, SavedList};
use crate::error::Error;
use crate::kernels::{
    full, map, matmul as mm, matrix, scattered_rows, slice, sum as total, taken_rows, unbroadcast,
    unslice, zip,
};
use crate::tensor::{Array, Shape, Tensor};

/// Kernel arguments of `sum` (axis, keepdim, dtype) and of its backward.
const SUM_ARGUMENTS: [usize; 2] = [3, 1];
/// Kernel arguments of one matrix product: two transpose flags.
const MATMUL_ARGUMENTS: usize = 2;
/// Kernel arguments of the backward of `norm`.
const NORM_BACKWARD_ARGUMENTS: usize = 1;

/// `shape` if `input` needs a gradient of it.
fn shape_for(input: &Tensor) -> Option<Shape> {
    input.requires_grad().then(|| input.shape())
}

/// `a * b` (`mint.mul`).
///
/// # Errors
/// [`Error::Broadcast`] if the shapes do not broadcast, and what a hook on
/// saved values raises.
pub fn mul(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    let output = zip("mul", a.array(), b.array(), |x, y| x * y);
    let output = computed(a.core(), 1, output)?;
    record("Mul", &[a, b], output, || {
        let (a_shape, b_shape) = (a.shape(), b.shape());
        let (for_a, for_b) = (saved_for(a, b.array())?, saved_for(b, a.array())?);
        Ok(move |grad: &Array| {
            let product = |saved: &Option<Saved>, shape| {
                let product = |saved: &Saved| {
                    let product = zip("mul", grad, &saved.get()?, |g, v| g * v)?;
                    Ok(unbroadcast(product, shape))
                };
                saved.as_ref().map(product).transpose()
            };
            Ok(smallvec![
                product(&for_a, a_shape)?,
                product(&for_b, b_shape)?
            ])
        })
    })
}

/// `a + b` (`mint.add`).
///
/// # Errors
/// [`Error::Broadcast`] if the shapes do not broadcast.
pub fn add(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    let output = zip("add", a.array(), b.array(), |x, y| x + y);
    let output = computed(a.core(), 1, output)?;
    record("AddExt", &[a, b], output, || {
        let (for_a, for_b) = (shape_for(a), shape_for(b));
        Ok(move |grad: &Array| {
            let back = |shape| unbroadcast(grad.clone(), shape);
            Ok(smallvec![for_a.map(back), for_b.map(back)])
        })
    })
}

/// `a - b` (`mint.sub`).
///
/// # Errors
/// [`Error::Broadcast`] if the shapes do not broadcast.
pub fn sub(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    let output = zip("sub", a.array(), b.array(), |x, y| x - y);
    let output = computed(a.core(), 1, output)?;
    record("SubExt", &[a, b], output, || {
        let (for_a, for_b) = (shape_for(a), shape_for(b));
        Ok(move |grad: &Array| {
            let grad_a = for_a.map(|shape| unbroadcast(grad.clone(), shape));
            let grad_b = for_b.map(|shape| unbroadcast(map(grad, |g| -g), shape));
            Ok(smallvec![grad_a, grad_b])
        })
    })
}

/// The matrix product of `[n, k]` and `[k, m]` (`mint.matmul`).
///
/// # Errors
/// [`Error::Matmul`] if the operands are no matrices that fit, and what a hook
/// on saved values raises.
pub fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    let product = |left: &Array, left_t, right: &Array, right_t| {
        let product = mm(left, left_t, right, right_t)?;
        left.core().upload(MATMUL_ARGUMENTS);
        Ok(product)
    };
    let output = product(a.array(), false, b.array(), false);
    let output = computed(a.core(), 1, output)?;
    record("MatMulExt", &[a, b], output, || {
        let (for_a, for_b) = (saved_for(a, b.array())?, saved_for(b, a.array())?);
        Ok(move |grad: &Array| {
            let to_a = |b: &Saved| product(grad, false, &b.get()?, true);
            let to_b = |a: &Saved| product(&a.get()?, true, grad, false);
            let grad_a = for_a.as_ref().map(to_a);
            let grad_b = for_b.as_ref().map(to_b);
            Ok(smallvec![grad_a.transpose()?, grad_b.transpose()?])
        })
    })
}

/// `max(a, 0)` (`ops.relu`).
///
/// # Errors
/// What a hook on saved values raises.
pub fn relu(a: &Tensor) -> Result<Tensor, Error> {
    let output = map(a.array(), |x| x.max(0.0));
    record("ReLU", &[a], output.clone(), || {
        let saved = Saved::new(&output)?;
        Ok(move |grad: &Array| {
            let output = saved.get()?;
            let masked = zip("relu", grad, &output, |g, y| if y > 0.0 { g } else { 0.0 })?;
            Ok(smallvec![Some(masked)])
        })
    })
}

/// The sum of all values, a scalar (`mint.sum`).
///
/// # Errors
/// None of its own.
pub fn sum(a: &Tensor) -> Result<Tensor, Error> {
    let [forward, backward] = SUM_ARGUMENTS;
    a.core().upload(forward);
    record("SumExt", &[a], total(a.array()), || {
        let shape = a.shape();
        Ok(move |grad: &Array| {
            grad.core().upload(backward);
            Ok(smallvec![Some(full(grad.core(), shape, grad.at(0)))])
        })
    })
}

/// The Euclidean norm of all values, a scalar (`ops.norm`): the root of
/// `reduce_sum` of the squares. `reduce_sum` has no generated wrapper, so its
/// input and output enter the cache of abstracts.
///
/// # Errors
/// What a hook on saved values raises.
pub fn norm(a: &Tensor) -> Result<Tensor, Error> {
    let squares = Tensor::from_array(map(a.array(), |x| x * x), None);
    let reduced = Tensor::from_array(total(squares.array()), None);
    a.core()
        .node_abs_cache
        .enter(a.core(), &[&squares], &reduced);
    let output = map(reduced.array(), f32::sqrt);
    record("Norm", &[a], output.clone(), || {
        let (saved, norm) = (Saved::new(a.array())?, output.at(0));
        Ok(move |grad: &Array| {
            grad.core().upload(NORM_BACKWARD_ARGUMENTS);
            // The gradient at 0 is taken as 0, as the framework does.
            let scale = if norm == 0.0 { 0.0 } else { grad.at(0) / norm };
            Ok(smallvec![Some(map(&saved.get()?, |x| x * scale))])
        })
    })
}

/// Cuts `a` along its first dimension into pieces of these sizes (`mint.split`).
///
/// # Errors
/// [`Error::SplitSizes`] if the sizes do not add up to the dimension.
pub fn split(a: &Tensor, sizes: &[usize]) -> Result<Vec<Tensor>, Error> {
    let rows = a.shape().dims().first().copied().unwrap_or_default();
    let fits = sizes.iter().sum::<usize>() == rows && !sizes.is_empty();
    let fits = fits.then_some(()).ok_or_else(|| Error::SplitSizes {
        rows,
        sizes: sizes.to_vec(),
    });
    computed(a.core(), sizes.len(), fits)?;
    let starts = sizes.iter().scan(0, |start, &size| {
        *start += size;
        Some(*start - size)
    });
    let starts: Vec<usize> = starts.collect();
    let pieces = starts
        .iter()
        .zip(sizes)
        .map(|(&start, &size)| slice(a.array(), start, size));
    let outputs = record_all("SplitWithSize", &[a], pieces, || {
        let (core, shape) = (Rc::clone(a.core()), a.shape());
        let starts = SavedList::new(&core, starts.clone().into());
        Ok(move |grads: &[Option<Array>]| {
            let mut whole = full(&core, shape, 0.0);
            for (grad, &start) in grads.iter().zip(starts.iter()) {
                whole = unslice(whole, grad.as_ref(), start);
            }
            Ok(smallvec![Some(whole)])
        })
    })?;
    Ok(outputs.into_vec())
}

/// The rows of a matrix at `indices` (`mint.index_select` along dimension 0).
///
/// # Errors
/// [`Error::Index`] for an index that the matrix has no row for.
pub fn index_select(a: &Tensor, indices: &[usize]) -> Result<Tensor, Error> {
    let (rows, _) = matrix(a.array());
    let outside = indices.iter().copied().find(|&index| index >= rows);
    let index = outside.map_or(Ok(()), |index| Err(Error::Index { index, rows }));
    computed(a.core(), 1, index)?;
    record("IndexSelect", &[a], taken_rows(a.array(), indices), || {
        let indices = SavedList::new(a.core(), indices.into());
        Ok(move |grad: &Array| Ok(smallvec![Some(scattered_rows(grad, &indices, rows))]))
    })
}
