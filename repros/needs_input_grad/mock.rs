//! The step on the mock: applies of a custom function that fan out from one
//! input. The same step on `ms` is in `repro_needs_input_grad_host_memory.py`.

use std::rc::Rc;

use mockspore::{Error, Function, FunctionCtx, NeedsInputGrad, Runtime, Tensor, apply, ops};

use crate::mock::{Mock, Setting};

/// Doubles its first input, and clears the field where the caller does.
struct Double(NeedsInputGrad);

impl Function for Double {
    fn forward(&self, ctx: &FunctionCtx, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
        let output = ops::add(&inputs[0], &inputs[0])?;
        if self.0 == NeedsInputGrad::ClearedInForward {
            ctx.clear_needs_input_grad();
        }
        Ok(vec![output])
    }

    fn backward(
        &self,
        ctx: &FunctionCtx,
        grads: &[Option<Tensor>],
    ) -> Result<Vec<Option<Tensor>>, Error> {
        let inputs = ctx.needs_input_grad().map_or(1, |needs| needs.len());
        let twice = grads[0].as_ref().map(|grad| ops::add(grad, grad));
        let mut all = vec![None; inputs];
        all[0] = twice.transpose()?;
        if self.0 == NeedsInputGrad::ClearedInBackward {
            ctx.clear_needs_input_grad();
        }
        Ok(all)
    }
}

struct Applies {
    runtime: Runtime,
    function: Rc<dyn Function>,
    under_grad: bool,
    /// The same tensor in every place.
    inputs: Vec<Tensor>,
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
    Ok(Box::new(Applies {
        runtime: setting.runtime.clone(),
        function: Rc::new(Double(setting.runtime.policies().needs_input_grad)),
        under_grad: setting.choice("apply") != "outside_grad",
        inputs: vec![input; setting.integer("inputs_per_apply") as usize],
        sens: vec![sens; applies],
    }))
}

impl Mock for Applies {
    fn step(&mut self) -> Result<(), Error> {
        let forward = |_: &[Tensor]| {
            let applies = self.sens.iter().map(|_| {
                let mut outputs = apply(&self.runtime, &self.function, &self.inputs)?;
                Ok(outputs.swap_remove(0))
            });
            applies.collect::<Result<Vec<_>, Error>>()
        };
        if !self.under_grad {
            return forward(&self.inputs).map(drop);
        }
        let runtime = &self.runtime;
        let input = &self.inputs[..1];
        runtime
            .grad(forward, input, &[0], Some(&self.sens))
            .map(drop)
    }
}
