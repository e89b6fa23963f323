//! The step on the mock: layers, each recomputed in the backward. The same step
//! on `ms` is in `repro_recompute_residue_host_memory.py`.

use std::rc::Rc;

use mockspore::{Block, Error, Runtime, Tensor, ops, recompute};

use crate::mock::{Mock, Setting};

struct RecomputeResidue {
    runtime: Runtime,
    layers: u64,
    recomputed: bool,
    block: Rc<dyn Block>,
    input: Tensor,
    sens: [Tensor; 1],
}

/// Makes everything long-lived, so that a step leaves behind only the defect.
pub(crate) fn build(setting: &Setting<'_>) -> Result<Box<dyn Mock>, Error> {
    let weight = setting.random_tensor(&[2, 2])?;
    let block = move |inputs: &[Tensor]| {
        let inner = ops::mul(&inputs[0], &weight)?;
        Ok(vec![ops::mul(&inner, &weight)?])
    };
    let input = setting.random_tensor(&[2, 2])?;
    // A differentiated input is a leaf from its first backward on.
    input.requires_grad_();
    Ok(Box::new(RecomputeResidue {
        runtime: setting.runtime.clone(),
        layers: setting.integer("layers"),
        recomputed: setting.choice("recompute") == "on",
        block: Rc::new(block),
        input,
        sens: [setting.random_tensor(&[2, 2])?],
    }))
}

impl Mock for RecomputeResidue {
    fn step(&mut self) -> Result<(), Error> {
        let stop = self.runtime.policies().recompute_stop;
        let forward = |inputs: &[Tensor]| {
            let mut outputs = inputs.to_vec();
            for _ in 0..self.layers {
                outputs = if self.recomputed {
                    recompute(&self.runtime, &self.block, &outputs, stop)?
                } else {
                    self.block.forward(&outputs)?
                };
            }
            Ok(outputs)
        };
        let inputs = [self.input.clone()];
        let runtime = &self.runtime;
        runtime
            .grad(forward, &inputs, &[0], Some(&self.sens))
            .map(drop)
    }
}
