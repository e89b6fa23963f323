//! What the executor runs: forwards that are recorded, and backwards.
//!
//! Models `_pynative_executor` (`graph/api.py`) and `run_backward`
//! (`_c_expression`). They differ: a forward that `grad` records clears the
//! cache of abstracts at its end, `run_backward` does not.

use std::rc::Rc;

use crate::autograd::engine::{self, Request};
use crate::autograd::root::roots;
use crate::autograd::top_cell::CellId;
use crate::error::Error;
use crate::runtime::Runtime;
use crate::tensor::Tensor;

/// Kernel arguments of the ones that seed a backward: a value and a dtype.
const SENS_ARGUMENTS: usize = 2;

impl Runtime {
    /// Queues a callback for the end of the running backward
    /// (`queue_backward_final_callback`).
    ///
    /// # Errors
    /// [`Error::CallbackOutsideBackward`] if none runs.
    pub fn queue_backward_final_callback(
        &self,
        callback: impl FnOnce() -> Result<(), Error> + 'static,
    ) -> Result<(), Error> {
        let mut engines = self.core().engines.borrow_mut();
        let callbacks = engines.last_mut().ok_or(Error::CallbackOutsideBackward)?;
        callbacks.push(Box::new(callback));
        Ok(())
    }

    /// `mindspore.value_and_grad(fn, grad_position=positions)` applied to
    /// `inputs`: the outputs of `function` and the gradients at `positions`.
    /// `sens` is the gradient of each output, ones where it is `None`.
    ///
    /// The inputs at `positions` become leaves and stay so, as upstream.
    ///
    /// # Errors
    /// Those of `function`, of hooks and callbacks, of a `sens` or a position
    /// that does not fit, and [`Error::OtherRuntime`].
    pub fn grad(
        &self,
        function: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>, Error>,
        inputs: &[Tensor],
        positions: &[usize],
        sens: Option<&[Tensor]>,
    ) -> Result<(Vec<Tensor>, Vec<Tensor>), Error> {
        self.grad_of(None, function, inputs, positions, sens)
    }

    /// [`Self::grad`] of a cell: a forward of it that is kept is consumed
    /// instead of running `function`.
    ///
    /// # Errors
    /// As [`Self::grad`].
    pub fn grad_of(
        &self,
        cell: Option<CellId>,
        function: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>, Error>,
        inputs: &[Tensor],
        positions: &[usize],
        sens: Option<&[Tensor]>,
    ) -> Result<(Vec<Tensor>, Vec<Tensor>), Error> {
        let core = self.core();
        self.owns(inputs)?;
        let leaves = positions
            .iter()
            .map(|&position| {
                let inputs_given = inputs.len();
                let input = inputs.get(position).ok_or(Error::GradPosition {
                    position,
                    inputs: inputs_given,
                })?;
                Ok(input.meta_or_leaf())
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let kept = cell.and_then(|cell| core.top_cells.take(&core.census, cell));
        let outputs = match kept {
            Some(outputs) => outputs.into_vec(),
            None => self.record(function, inputs)?,
        };
        if sens.is_none() {
            core.upload(SENS_ARGUMENTS * outputs.len());
        }
        let roots = roots(&outputs, sens)?;
        let captured = engine::backward(core, Request::capture(roots, &leaves))?;
        let grads = captured
            .into_iter()
            .zip(positions)
            .map(|(grad, &position)| {
                // An input that no output depends on has a zero gradient.
                let zeros = || crate::kernels::full(core, inputs[position].shape(), 0.0);
                Tensor::from_array(grad.unwrap_or_else(zeros), None)
            });
        let grads = grads.collect();
        Ok((outputs, grads))
    }

    /// `_c_expression.run_backward`: accumulates into the leaves' `_grad`
    /// without a top cell. `grads` are the gradients of `outputs`, ones where
    /// `None`.
    ///
    /// # Errors
    /// [`Error::NoGrad`] if an output requires none, [`Error::BackwardTwice`]
    /// for a released graph, [`Error::OtherRuntime`], and what hooks and
    /// callbacks raise.
    pub fn run_backward(
        &self,
        outputs: &[Tensor],
        grads: Option<&[Tensor]>,
        keep_graph: bool,
    ) -> Result<(), Error> {
        self.owns(outputs)?;
        if !outputs.iter().all(Tensor::requires_grad) {
            return Err(Error::NoGrad);
        }
        let roots = roots(outputs, grads)?;
        engine::backward(self.core(), Request::accumulate(roots, keep_graph))?;
        Ok(())
    }

    /// A forward of `cell` after `set_grad`: recorded and kept for a grad of the
    /// cell that may come (`ready_run_top_cell_`).
    ///
    /// # Errors
    /// Those of `function`, and [`Error::OtherRuntime`].
    pub fn forward_with_grad(
        &self,
        cell: CellId,
        function: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>, Error>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, Error> {
        self.owns(inputs)?;
        inputs.iter().for_each(Tensor::requires_grad_);
        let outputs = self.record(function, inputs)?;
        self.core().top_cells.insert(self.core(), cell, &outputs);
        Ok(outputs)
    }

    /// Runs `function` between `new_graph` and `end_graph`.
    fn record(
        &self,
        function: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>, Error>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, Error> {
        let core = self.core();
        let outer = core.grad_flag.replace(true);
        let outputs = function(inputs);
        core.grad_flag.set(outer);
        let outputs = outputs?;
        self.owns(&outputs)?;
        core.node_abs_cache.clear(&core.census);
        Ok(outputs)
    }

    fn owns(&self, tensors: &[Tensor]) -> Result<(), Error> {
        let mut own = tensors
            .iter()
            .map(|tensor| Rc::ptr_eq(tensor.core(), self.core()));
        own.all(|own| own).then_some(()).ok_or(Error::OtherRuntime)
    }
}
