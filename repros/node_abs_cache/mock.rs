//! The step on the mock: norms, whose abstracts a bounded cache keeps. The same
//! step on `ms` is in `repro_node_abs_cache_host_memory.py`.

use mockspore::{AbstractLimits, Error, Runtime, Tensor, ops};

use crate::mock::{Mock, Setting};

/// What ends a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Nothing,
    Grad,
    RunBackward,
}

struct NodeAbsCache {
    runtime: Runtime,
    norms: u64,
    then: Then,
    input: Tensor,
    sens: [Tensor; 1],
}

/// Makes everything long-lived, so that a step leaves behind only the entries.
pub(crate) fn build(setting: &Setting<'_>) -> Result<Box<dyn Mock>, Error> {
    setting.runtime.set_abstract_limits(AbstractLimits {
        threshold: setting.integer("threshold") as usize,
        drops: setting.integer("drops") as usize,
    });
    let norms = match setting.choice("operator") {
        "mul" => 0,
        _ => setting.integer("norms_per_step"),
    };
    let then = match setting.choice("then") {
        "grad" => Then::Grad,
        "run_backward" => Then::RunBackward,
        _ => Then::Nothing,
    };
    let input = setting.random_tensor(&[4, 4])?;
    // A differentiated input is a leaf from its first backward on, and a leaf
    // has a gradient from its first `run_backward` on.
    input.requires_grad_();
    let mut norms = NodeAbsCache {
        runtime: setting.runtime.clone(),
        norms,
        then,
        input,
        sens: [setting.random_tensor(&[4, 4])?],
    };
    norms.end()?;
    Ok(Box::new(norms))
}

impl Mock for NodeAbsCache {
    fn step(&mut self) -> Result<(), Error> {
        for _ in 0..self.norms {
            drop(ops::norm(&self.input)?);
        }
        self.end()
    }
}

impl NodeAbsCache {
    /// A backward of an operator that the cache does not see.
    fn end(&mut self) -> Result<(), Error> {
        let (runtime, inputs) = (&self.runtime, [self.input.clone()]);
        let double = |inputs: &[Tensor]| Ok(vec![ops::add(&inputs[0], &inputs[0])?]);
        match self.then {
            Then::Nothing => Ok(()),
            Then::Grad => runtime
                .grad(double, &inputs, &[0], Some(&self.sens))
                .map(drop),
            Then::RunBackward => {
                runtime.set_grad_flag(true);
                let outputs = double(&inputs);
                runtime.set_grad_flag(false);
                runtime.run_backward(&outputs?, Some(&self.sens), false)
            }
        }
    }
}
