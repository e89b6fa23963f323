//! The step on the mock: operators with and without arguments that are no
//! tensors. The same step on `ms` is in `repro_kernel_argument_host_memory.py`.

use mockspore::{Error, Runtime, Tensor, ops};

use crate::mock::{Mock, Setting};

/// What one call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Elementwise,
    Sum,
    Matmul,
    GradWithoutSens,
    ReportLoop,
}

struct KernelArgument {
    runtime: Runtime,
    call: Call,
    calls: u64,
    input: Tensor,
    weight: Tensor,
}

/// Makes everything long-lived, so that a step leaves behind only the defect.
pub(crate) fn build(setting: &Setting<'_>) -> Result<Box<dyn Mock>, Error> {
    let call = match setting.choice("call") {
        "sum" => Call::Sum,
        "matmul" => Call::Matmul,
        "grad_without_sens" => Call::GradWithoutSens,
        "report_loop" => Call::ReportLoop,
        _ => Call::Elementwise,
    };
    let input = setting.random_tensor(&[2, 2])?;
    // A differentiated input is a leaf from its first backward on.
    input.requires_grad_();
    Ok(Box::new(KernelArgument {
        runtime: setting.runtime.clone(),
        call,
        calls: setting.integer("calls_per_step"),
        input,
        weight: setting.random_tensor(&[2, 2])?,
    }))
}

impl Mock for KernelArgument {
    fn step(&mut self) -> Result<(), Error> {
        (0..self.calls).try_for_each(|_| self.once())
    }
}

impl KernelArgument {
    fn once(&self) -> Result<(), Error> {
        match self.call {
            Call::Elementwise => ops::mul(&self.input, &self.weight).map(drop),
            Call::Sum => ops::sum(&self.input).map(drop),
            Call::Matmul => ops::matmul(&self.input, &self.weight).map(drop),
            Call::GradWithoutSens => self.grad(Ok),
            Call::ReportLoop => self.grad(|y| ops::sum(&ops::mul(&y, &y)?)),
        }
    }

    /// `ms.grad` without `sens_param`, of what `then` makes of a product.
    fn grad(&self, then: impl FnOnce(Tensor) -> Result<Tensor, Error>) -> Result<(), Error> {
        let forward = |inputs: &[Tensor]| {
            let y = ops::mul(&inputs[0], &self.weight)?;
            Ok(vec![then(y)?])
        };
        let inputs = [self.input.clone()];
        self.runtime.grad(forward, &inputs, &[0], None).map(drop)
    }
}
