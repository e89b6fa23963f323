//! Operators: each one's gradient stands beside its forward.
//!
//! Named after `mindspore.mint` and `mindspore.ops`. A node is made when the
//! grad flag is on and an input requires grad; it saves only what the inputs
//! that require grad need.

use crate::autograd::node::{GradNode, OpNode};
use crate::error::Error;
use crate::kernels::{full, map, matmul as mm, sum as total, unbroadcast, zip};
use crate::tensor::{Array, Meta, Tensor};

/// Gradients by input, in order; `None` where none is needed.
pub(crate) type Grads = Vec<Option<Array>>;

/// Makes the output tensor, behind a node if a gradient can flow.
fn record<B>(
    name: &'static str,
    inputs: &[&Tensor],
    output: Array,
    backward: impl FnOnce() -> B,
) -> Tensor
where
    B: Fn(&Array) -> Result<Grads, Error> + 'static,
{
    let core = output.core().clone();
    let wanted = core.grad_flag.get() && inputs.iter().any(|input| input.requires_grad());
    let meta = wanted.then(|| {
        let backward = backward();
        // With one output, the pass calls only when its gradient has arrived.
        let from_first = move |grads: &[Option<Array>]| match grads.first() {
            Some(Some(grad)) => backward(grad),
            _ => Ok(Grads::new()),
        };
        Meta {
            node: GradNode::Op(OpNode::create(&core, name, inputs, 1, from_first)),
            output_index: 0,
        }
    });
    Tensor::from_array(output, meta)
}

/// `saved` if `input` needs a gradient.
fn for_grad<T>(input: &Tensor, saved: impl FnOnce() -> T) -> Option<T> {
    input.requires_grad().then(saved)
}

/// `a * b` (`mint.mul`).
///
/// # Errors
/// [`Error::Broadcast`] if the shapes do not broadcast.
pub fn mul(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    let output = zip("mul", a.array(), b.array(), |x, y| x * y)?;
    Ok(record("Mul", &[a, b], output, || {
        let (a_shape, b_shape) = (a.shape(), b.shape());
        let for_a = for_grad(a, || b.array().clone());
        let for_b = for_grad(b, || a.array().clone());
        move |grad| {
            let product = |saved: &Option<Array>, shape| {
                let saved = saved.as_ref();
                saved
                    .map(|s| Ok(unbroadcast(zip("mul", grad, s, |g, v| g * v)?, shape)))
                    .transpose()
            };
            Ok(vec![product(&for_a, a_shape)?, product(&for_b, b_shape)?])
        }
    }))
}

/// `a + b` (`mint.add`).
///
/// # Errors
/// [`Error::Broadcast`] if the shapes do not broadcast.
pub fn add(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    let output = zip("add", a.array(), b.array(), |x, y| x + y)?;
    Ok(record("AddExt", &[a, b], output, || {
        let for_a = for_grad(a, || a.shape());
        let for_b = for_grad(b, || b.shape());
        move |grad| {
            let back = |shape| unbroadcast(grad.clone(), shape);
            Ok(vec![for_a.map(back), for_b.map(back)])
        }
    }))
}

/// `a - b` (`mint.sub`).
///
/// # Errors
/// [`Error::Broadcast`] if the shapes do not broadcast.
pub fn sub(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    let output = zip("sub", a.array(), b.array(), |x, y| x - y)?;
    Ok(record("SubExt", &[a, b], output, || {
        let for_a = for_grad(a, || a.shape());
        let for_b = for_grad(b, || b.shape());
        move |grad| {
            let grad_a = for_a.map(|shape| unbroadcast(grad.clone(), shape));
            let grad_b = for_b.map(|shape| unbroadcast(map(grad, |g| -g), shape));
            Ok(vec![grad_a, grad_b])
        }
    }))
}

/// The matrix product of `[n, k]` and `[k, m]` (`mint.matmul`).
///
/// # Errors
/// [`Error::Matmul`] if the operands are no matrices that fit.
pub fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    let output = mm(a.array(), false, b.array(), false)?;
    Ok(record("MatMulExt", &[a, b], output, || {
        let for_a = for_grad(a, || b.array().clone());
        let for_b = for_grad(b, || a.array().clone());
        move |grad| {
            let grad_a = for_a.as_ref().map(|b| mm(grad, false, b, true));
            let grad_b = for_b.as_ref().map(|a| mm(a, true, grad, false));
            Ok(vec![grad_a.transpose()?, grad_b.transpose()?])
        }
    }))
}

/// `max(a, 0)` (`ops.relu`).
pub fn relu(a: &Tensor) -> Tensor {
    let output = map(a.array(), |x| x.max(0.0));
    record("ReLU", &[a], output.clone(), || {
        move |grad| {
            let masked = zip("relu", grad, &output, |g, y| if y > 0.0 { g } else { 0.0 })?;
            Ok(vec![Some(masked)])
        }
    })
}

/// The sum of all values, a scalar (`mint.sum`).
pub fn sum(a: &Tensor) -> Tensor {
    record("SumExt", &[a], total(a.array()), || {
        let shape = a.shape();
        move |grad| Ok(vec![Some(full(grad.core(), shape, grad.at(0)))])
    })
}

/// The Euclidean norm of all values, a scalar (`ops.norm`).
pub fn norm(a: &Tensor) -> Tensor {
    let squares = total(&map(a.array(), |x| x * x));
    let output = map(&squares, f32::sqrt);
    record("LpNorm", &[a], output.clone(), || {
        let saved = a.array().clone();
        move |grad| {
            let (g, norm) = (grad.at(0), output.at(0));
            // The gradient at 0 is taken as 0, as the framework does.
            let scale = if norm == 0.0 { 0.0 } else { g / norm };
            Ok(vec![Some(map(&saved, |x| x * scale))])
        }
    })
}
