//! From an operator's values to tensors behind a node.
//!
//! ```text
//! output object (nobody owns it yet) ─▶ shapes, kernel ─▶ saving ─▶ node ─▶ caller
//! ```
//!
//! An operator that raises, because its inputs do not fit or because a hook
//! stops the saving, leaves its output objects to nobody if the policy says so.
//! Models the generated operator wrappers (`TensorWrapper`).

use std::rc::Rc;

use smallvec::SmallVec;

use crate::autograd::node::{GradNode, OpNode};
use crate::autograd::saved::Saved;
use crate::error::Error;
use crate::policy::OutputOwner;
use crate::runtime::Core;
use crate::tensor::{Array, Meta, Shape, Tensor};

/// Gradients by input, in order; `None` where none is needed.
pub(crate) type Grads = SmallVec<[Option<Array>; 2]>;

/// The outputs of one operator.
pub(crate) type Outputs = SmallVec<[Tensor; 1]>;

/// The outputs' values; if there are none, the `outputs` objects that were to
/// hold them are abandoned.
pub(crate) fn computed<T>(
    core: &Rc<Core>,
    outputs: usize,
    values: Result<T, Error>,
) -> Result<T, Error> {
    if values.is_err() {
        for _ in 0..outputs {
            // Nobody can have seen the object before, so it is made only here.
            let empty = Array::new(core, Shape::empty(), std::iter::empty());
            abandon(Tensor::from_array(empty, None));
        }
    }
    values
}

/// The end of an output object whose operator raises.
#[allow(clippy::mem_forget, reason = "this is the modelled leak")]
fn abandon(output: Tensor) {
    match output.core().policies.output_owner {
        OutputOwner::RawPointer => std::mem::forget(output),
        OutputOwner::Owned => drop(output),
    }
}

/// Makes the output tensors, behind a node if a gradient can flow.
pub(crate) fn record_all<B>(
    name: &'static str,
    inputs: &[&Tensor],
    outputs: impl IntoIterator<Item = Array>,
    backward: impl FnOnce() -> Result<B, Error>,
) -> Result<Outputs, Error>
where
    B: Fn(&[Option<Array>]) -> Result<Grads, Error> + 'static,
{
    let outputs: Outputs = outputs
        .into_iter()
        .map(|array| Tensor::from_array(array, None))
        .collect();
    let Some(core) = inputs.first().map(|input| Rc::clone(input.core())) else {
        return Ok(outputs);
    };
    if !core.grad_flag.get() || !inputs.iter().any(|input| input.requires_grad()) {
        return Ok(outputs);
    }
    let backward = match backward() {
        Ok(backward) => backward,
        Err(error) => {
            outputs.into_iter().for_each(abandon);
            return Err(error);
        }
    };
    let edges = inputs.iter().map(|input| input.meta());
    let node = OpNode::create(&core, name, edges, outputs.len(), backward);
    for (index, output) in outputs.iter().enumerate() {
        output.set_meta(Meta {
            node: GradNode::Op(node.clone()),
            output_index: index as u32,
        });
    }
    Ok(outputs)
}

/// Makes the one output tensor.
pub(crate) fn record<B>(
    name: &'static str,
    inputs: &[&Tensor],
    output: Array,
    backward: impl FnOnce() -> Result<B, Error>,
) -> Result<Tensor, Error>
where
    B: Fn(&Array) -> Result<Grads, Error> + 'static,
{
    let with_first = || {
        let backward = backward()?;
        // With one output, the pass calls only when its gradient has arrived.
        Ok(move |grads: &[Option<Array>]| match grads.first() {
            Some(Some(grad)) => backward(grad),
            _ => Ok(Grads::new()),
        })
    };
    let mut outputs = record_all(name, inputs, [output], with_first)?;
    Ok(outputs.swap_remove(0))
}

/// What the gradient of `input` needs, saved if `input` requires one.
pub(crate) fn saved_for(input: &Tensor, value: &Array) -> Result<Option<Saved>, Error> {
    let wanted = input.requires_grad();
    wanted.then(|| Saved::new(value)).transpose()
}
