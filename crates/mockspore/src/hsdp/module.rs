//! One unit's module: what it computes, with its scheduler's hooks around it.
//!
//! ```text
//! Module ─▶ Scheduler ─▶ HsdpState ─▶ parameters
//! ```
//!
//! It multiplies what it is given by its parameters: real arithmetic, so that a
//! sharded run can be compared with one rank's; the shapes are small and all
//! the same. Stands for the `Cell` that `fully_shard` wraps. Not modelled:
//! units within units.

use std::rc::Rc;

use crate::autograd::recompute::{Block, recompute};
use crate::error::Error;
use crate::hsdp::process::Point;
use crate::hsdp::scheduler::Scheduler;
use crate::ops;
use crate::runtime::Runtime;
use crate::tensor::Tensor;

/// One unit's module on one rank.
pub(crate) struct Module {
    pub(crate) scheduler: Rc<Scheduler>,
    /// Outputs that it returns, each with a hook if it requires grad.
    pub(crate) outputs: usize,
    /// Whether its last output is for nobody.
    pub(crate) leaves_unused: bool,
    /// Whether its input is the model's own, which requires no grad, and its
    /// output joins what the units before it made.
    pub(crate) joins: bool,
    pub(crate) recomputed: bool,
    /// Stands for the parameters of a module that has none.
    pub(crate) one: Tensor,
}

impl Module {
    /// What the units up to this one make of `stream`; `plain` is the model's
    /// own input.
    pub(crate) fn run(&self, plain: &Tensor, stream: Tensor) -> Result<Tensor, Error> {
        if self.joins {
            return ops::add(&stream, &self.call(plain.clone())?);
        }
        self.call(stream)
    }

    /// The module with its hooks around it; its outputs are added up.
    fn call(&self, input: Tensor) -> Result<Tensor, Error> {
        let input = self.scheduler.pre_forward(input)?;
        let mut outputs = self.compute(&input)?;
        self.scheduler.post_forward(&outputs)?;
        if self.leaves_unused {
            outputs.pop();
        }
        let first = outputs.swap_remove(0);
        let sum = |sum, output| ops::add(&sum, output);
        outputs.iter().try_fold(first, sum)
    }

    /// Output `i` is the input times parameter `i`; parameters that are left
    /// multiply the first.
    pub(crate) fn compute(&self, input: &Tensor) -> Result<Vec<Tensor>, Error> {
        let scheduler = &self.scheduler;
        let process = &scheduler.context.process;
        process.observe(&scheduler.name, Point::Compute)?;
        let params = &scheduler.state.params;
        let factor = |index: usize| match params.len() {
            0 => &self.one,
            count => &params[index % count].full,
        };
        let outputs = (0..self.outputs).map(|index| ops::mul(input, factor(index)));
        let mut outputs = outputs.collect::<Result<Vec<_>, Error>>()?;
        for param in params.iter().skip(self.outputs) {
            outputs[0] = ops::mul(&outputs[0], &param.full)?;
        }
        Ok(outputs)
    }
}

/// The units as one recomputed block.
pub(crate) fn recomputed(
    runtime: &Runtime,
    units: Vec<Rc<Module>>,
    plain: &Tensor,
    stream: Tensor,
) -> Result<Tensor, Error> {
    let plain = plain.clone();
    let block = move |inputs: &[Tensor]| {
        let first = inputs[0].clone();
        let run = |stream, unit: &Rc<Module>| unit.run(&plain, stream);
        Ok(vec![units.iter().try_fold(first, run)?])
    };
    let block: Rc<dyn Block> = Rc::new(block);
    let stop = runtime.policies().recompute_stop;
    Ok(recompute(runtime, &block, &[stream], stop)?.swap_remove(0))
}
