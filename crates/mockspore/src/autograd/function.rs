//! Custom functions: their apply and their node.
//!
//! ```text
//! node ─▶ backward fn ─▶ ctx, released by the node's own backward
//! ```
//!
//! Models `_Function` (`common/_grad_function.py`) and `FunctionBase_apply`
//! (`ccsrc/pynative/backward/hook/function_py.cc`). Not modelled:
//! version counters of dirty tensors, the release of device memory of unsaved
//! tensors, `setup_context`, saved tensors under saved-tensor hooks (so what a
//! function saves within a recomputed block is kept).

use std::rc::Rc;

use smallvec::SmallVec;

use crate::autograd::ctx::FunctionCtx;
use crate::autograd::node::{GradNode, OpNode};
use crate::autograd::record::Grads;
use crate::autograd::saved::SavedList;
use crate::census::Tally;
use crate::error::Error;
use crate::kernels::full;
use crate::runtime::{Core, Runtime};
use crate::tensor::{Array, Meta, Shape, Tensor};

/// A user's function: what `forward` and `backward` of `_Function` are.
pub trait Function {
    /// The outputs for `inputs`; runs without recording.
    ///
    /// # Errors
    /// What the user raises.
    fn forward(&self, ctx: &FunctionCtx, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error>;

    /// The gradient of each input, `None` where there is none. A gradient that
    /// did not arrive is zeros, or `None` without `materialize_grads`.
    ///
    /// # Errors
    /// What the user raises.
    fn backward(
        &self,
        ctx: &FunctionCtx,
        grads: &[Option<Tensor>],
    ) -> Result<Vec<Option<Tensor>>, Error>;
}

/// Applies a function to tensors (`_Function.apply`).
///
/// # Errors
/// What `forward` raises. The backward then fails with what `backward` raises,
/// or with [`Error::GradCount`] if it returns another number of gradients.
pub fn apply(
    runtime: &Runtime,
    function: &Rc<dyn Function>,
    inputs: &[Tensor],
) -> Result<Vec<Tensor>, Error> {
    let inputs: SmallVec<[Option<Tensor>; 2]> = inputs.iter().cloned().map(Some).collect();
    apply_to(runtime, function, &inputs)
}

/// Applies a function to inputs of which some are no tensors: `None` here.
/// They have a place in `needs_input_grad`, and a gradient of `None`.
///
/// # Errors
/// As [`apply`].
pub fn apply_to(
    runtime: &Runtime,
    function: &Rc<dyn Function>,
    all: &[Option<Tensor>],
) -> Result<Vec<Tensor>, Error> {
    let core = Rc::clone(runtime.core());
    core.census.happened(Tally::Applies, 1);
    let ctx = FunctionCtx::new(&core);
    let requires_grad = |input: &Option<Tensor>| input.as_ref().is_some_and(Tensor::requires_grad);
    // Built and stored on every apply, whether or not anything is recorded.
    ctx.store_needs_input_grad(all.iter().map(requires_grad));
    let inputs: SmallVec<[Tensor; 2]> = all.iter().flatten().cloned().collect();
    let inputs = &inputs[..];
    let recording = core.grad_flag.replace(false);
    let outputs = function.forward(&ctx, inputs);
    core.grad_flag.set(recording);
    let outputs = outputs?;
    let dirty = ctx.0.dirty_tensors.take().unwrap_or_default();
    let constant = ctx.0.non_differentiable.take().unwrap_or_default();
    if !recording || !inputs.iter().any(Tensor::requires_grad) {
        return Ok(outputs);
    }
    let shapes: Box<[Shape]> = outputs.iter().map(Tensor::shape).collect();
    let edges = all.iter().map(|input| input.as_ref()?.meta());
    let backward = backward(&core, Rc::clone(function), ctx, shapes, all.len());
    let node = GradNode::Op(OpNode::create(
        &core,
        "PyBackwardNode",
        edges,
        outputs.len(),
        backward,
    ));
    let attach = |(index, output): (usize, Tensor)| {
        if constant.iter().any(|other| output.is(other)) {
            return Tensor::from_array(output.array().clone(), None);
        }
        let meta = Meta {
            node: node.clone(),
            output_index: index as u32,
        };
        if dirty.iter().any(|other| output.is(other)) {
            // Changed in place: the caller's own tensor now comes from here.
            output.set_meta(meta);
            return output;
        }
        if inputs.iter().any(|input| output.is(input)) {
            // An input returned as it is becomes a view with a graph of its own.
            return Tensor::from_array(output.array().clone(), Some(meta));
        }
        output.set_meta(meta);
        output
    };
    Ok(outputs.into_iter().enumerate().map(attach).collect())
}

/// The node's backward function: it owns the ctx until it is released.
fn backward(
    core: &Rc<Core>,
    function: Rc<dyn Function>,
    ctx: FunctionCtx,
    shapes: Box<[Shape]>,
    inputs: usize,
) -> impl Fn(&[Option<Array>]) -> Result<Grads, Error> + 'static {
    let shapes = SavedList::new(core, shapes);
    move |grads| {
        let materialize = ctx.0.materialize_grads.get();
        let zeros = |index: usize| full(&ctx.0.core, shapes[index], 0.0);
        let arrived = grads.iter().enumerate().map(|(index, grad)| {
            let grad = grad.clone().or_else(|| materialize.then(|| zeros(index)));
            grad.map(|grad| Tensor::from_array(grad, None))
        });
        let arrived: SmallVec<[Option<Tensor>; 1]> = arrived.collect();
        let returned = function.backward(&ctx, &arrived)?;
        if returned.len() != inputs {
            return Err(Error::GradCount {
                inputs,
                returned: returned.len(),
            });
        }
        let arrays = returned.into_iter().map(|grad| Some(grad?.array().clone()));
        Ok(arrays.collect())
    }
}
