//! The step on the mock: forwards of a cell with `set_grad`, and no grad. The
//! same step on `ms` is in `repro_ready_top_cell_host_memory.py`.

use mockspore::{CellId, Error, Runtime, Tensor, ops};

use crate::mock::{Mock, Setting};

/// The one cell.
const CELL: CellId = CellId(1);

/// What follows the recorded forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    NotRecorded,
    Nothing,
    ClearRes,
    Grad,
}

struct Forwards {
    runtime: Runtime,
    then: Then,
    operators: u64,
    input: Tensor,
    weight: Tensor,
    sens: [Tensor; 1],
}

/// Makes everything long-lived, so that a step leaves behind only the defect.
pub(crate) fn build(setting: &Setting<'_>) -> Result<Box<dyn Mock>, Error> {
    let then = match setting.choice("forward") {
        "no_set_grad" => Then::NotRecorded,
        "clear_res" => Then::ClearRes,
        "grad" => Then::Grad,
        _ => Then::Nothing,
    };
    let input = setting.random_tensor(&[2, 2])?;
    // A differentiated input is a leaf from its first recorded forward on.
    input.requires_grad_();
    Ok(Box::new(Forwards {
        runtime: setting.runtime.clone(),
        then,
        operators: setting.integer("operators"),
        input,
        weight: setting.random_tensor(&[2, 2])?,
        sens: [setting.random_tensor(&[2, 2])?],
    }))
}

impl Mock for Forwards {
    fn step(&mut self) -> Result<(), Error> {
        let inputs = [self.input.clone()];
        let forward = |inputs: &[Tensor]| self.forward(&inputs[0]);
        let runtime = &self.runtime;
        match self.then {
            Then::NotRecorded => forward(&inputs).map(drop),
            Then::Grad => {
                runtime.forward_with_grad(CELL, forward, &inputs)?;
                runtime
                    .grad_of(Some(CELL), forward, &inputs, &[0], Some(&self.sens))
                    .map(drop)
            }
            Then::Nothing => runtime.forward_with_grad(CELL, forward, &inputs).map(drop),
            Then::ClearRes => {
                runtime.forward_with_grad(CELL, forward, &inputs)?;
                runtime.clear_res();
                Ok(())
            }
        }
    }
}

impl Forwards {
    fn forward(&self, input: &Tensor) -> Result<Vec<Tensor>, Error> {
        let mut output = input.clone();
        for _ in 0..self.operators {
            output = ops::mul(&output, &self.weight)?;
        }
        Ok(vec![output])
    }
}
