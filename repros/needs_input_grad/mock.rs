//! The step on the mock: applies of a custom function that fan out from one
//! input. The same step on `ms` is in `repro_needs_input_grad_host_memory.py`.

use std::rc::Rc;

use mockspore::{Error, Function, FunctionCtx, NeedsInputGrad, Runtime, Tensor, apply_to, ops};

use crate::mock::{Mock, Setting};

/// Doubles its first input, and clears the field where the caller does.
struct Double {
    clear: NeedsInputGrad,
    inputs: usize,
}

impl Function for Double {
    fn forward(&self, ctx: &FunctionCtx, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
        let output = ops::add(&inputs[0], &inputs[0])?;
        if self.clear == NeedsInputGrad::ClearedInForward {
            ctx.clear_needs_input_grad();
        }
        Ok(vec![output])
    }

    fn backward(
        &self,
        ctx: &FunctionCtx,
        grads: &[Option<Tensor>],
    ) -> Result<Vec<Option<Tensor>>, Error> {
        let twice = grads[0].as_ref().map(|grad| ops::add(grad, grad));
        let mut all = vec![None; self.inputs];
        all[0] = twice.transpose()?;
        if self.clear == NeedsInputGrad::ClearedInBackward {
            ctx.clear_needs_input_grad();
        }
        Ok(all)
    }
}

struct Applies {
    runtime: Runtime,
    function: Rc<dyn Function>,
    under_grad: bool,
    input: Tensor,
    /// The input, and arguments that are no tensors.
    arguments: Vec<Option<Tensor>>,
    sens: Vec<Tensor>,
}

/// Makes everything long-lived, so that a step leaves behind only the defect.
pub(crate) fn build(setting: &Setting<'_>) -> Result<Box<dyn Mock>, Error> {
    let applies = match setting.choice("apply") {
        "nowhere" => 0,
        _ => setting.integer("applies_per_step") as usize,
    };
    let input = setting.random_tensor(&[2, 2])?;
    // A differentiated input is a leaf from its first backward on.
    input.requires_grad_();
    let sens = setting.random_tensor(&[2, 2])?;
    let inputs = setting.integer("inputs_per_apply") as usize;
    let mut arguments = vec![None; inputs];
    arguments[0] = Some(input.clone());
    Ok(Box::new(Applies {
        runtime: setting.runtime.clone(),
        function: Rc::new(Double {
            clear: setting.runtime.policies().needs_input_grad,
            inputs,
        }),
        under_grad: setting.choice("apply") != "outside_grad",
        input,
        arguments,
        sens: vec![sens; applies],
    }))
}

impl Mock for Applies {
    fn step(&mut self) -> Result<(), Error> {
        let forward = |_: &[Tensor]| {
            let applies = self.sens.iter().map(|_| {
                let mut outputs = apply_to(&self.runtime, &self.function, &self.arguments)?;
                Ok(outputs.swap_remove(0))
            });
            applies.collect::<Result<Vec<_>, Error>>()
        };
        if !self.under_grad {
            return forward(&[]).map(drop);
        }
        let runtime = &self.runtime;
        let input = std::slice::from_ref(&self.input);
        runtime
            .grad(forward, input, &[0], Some(&self.sens))
            .map(drop)
    }
}
