//! The step on the mock: operators that raise, caught by the caller. The same
//! step on `ms` is in `repro_op_exception_output_host_memory.py`.

use mockspore::{Error, Tensor, ops};

use crate::mock::{Mock, Setting};

struct Raising {
    calls: u64,
    outputs: usize,
    raises: bool,
    input: Tensor,
    other: Tensor,
}

/// Makes everything long-lived, so that a step leaves behind only the defect.
pub(crate) fn build(setting: &Setting<'_>) -> Result<Box<dyn Mock>, Error> {
    Ok(Box::new(Raising {
        calls: setting.integer("calls_per_step"),
        outputs: setting.integer("outputs_per_call") as usize,
        raises: setting.choice("operator") == "raises",
        input: setting.random_tensor(&[4, 2])?,
        other: setting.random_tensor(&[3])?,
    }))
}

impl Mock for Raising {
    fn step(&mut self) -> Result<(), Error> {
        for _ in 0..self.calls {
            // What the caller catches; the fitting call raises nothing.
            match self.once() {
                Err(Error::Broadcast { .. } | Error::SplitSizes { .. }) if self.raises => {}
                outcome => outcome?,
            }
        }
        Ok(())
    }
}

impl Raising {
    /// `mint.add` for one output, `mint.split` for more.
    fn once(&self) -> Result<(), Error> {
        if self.outputs == 1 {
            let other = if self.raises {
                &self.other
            } else {
                &self.input
            };
            return ops::add(&self.input, other).map(drop);
        }
        // Pieces of one row each; the last takes the rest, or a row too many.
        let mut sizes = vec![1; self.outputs];
        let rest = 4 + 1 - self.outputs.min(4);
        sizes[self.outputs - 1] = rest + usize::from(self.raises);
        ops::split(&self.input, &sizes).map(drop)
    }
}
