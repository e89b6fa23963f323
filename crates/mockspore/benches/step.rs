//! How long the autograd part of one reported step takes: `cargo bench -p mockspore`.

use std::hint::black_box;
use std::rc::Rc;

use criterion::{Criterion, criterion_group, criterion_main};
use jemallocator::Jemalloc;
use mockspore::{
    Device, Error, Function, FunctionCtx, Policies, Runtime, Tensor, TensorHookHandle, apply, ops,
};

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Hooks and custom functions of the reported step.
const HOOKS: usize = 182;
const APPLIES: usize = 133;

/// Passes its input on, as `PostBackwardFunction` does.
struct Pass;

impl Function for Pass {
    fn forward(&self, _: &FunctionCtx, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
        Ok(inputs.to_vec())
    }

    fn backward(
        &self,
        _: &FunctionCtx,
        grads: &[Option<Tensor>],
    ) -> Result<Vec<Option<Tensor>>, Error> {
        Ok(grads.to_vec())
    }
}

struct Step {
    runtime: Runtime,
    function: Rc<dyn Function>,
    inputs: [Tensor; 1],
    weight: Tensor,
    sens: [Tensor; 1],
    handles: Vec<TensorHookHandle>,
}

impl Step {
    fn new() -> Result<Self, Error> {
        let runtime = Runtime::new(Policies::fixed(), Device::Cpu);
        let tensor = || runtime.tensor(&[0.5, 1.0, 1.5, 2.0], &[2, 2]);
        Ok(Self {
            function: Rc::new(Pass),
            inputs: [tensor()?],
            weight: tensor()?,
            sens: [tensor()?],
            handles: Vec::with_capacity(HOOKS),
            runtime,
        })
    }

    /// A chain of operators with a hook on each, and a function behind most.
    fn run(&mut self) -> Result<(), Error> {
        let (runtime, function, weight) = (&self.runtime, &self.function, &self.weight);
        let handles = &mut self.handles;
        let forward = |inputs: &[Tensor]| {
            let mut output = inputs[0].clone();
            for layer in 0..HOOKS {
                output = ops::mul(&output, weight)?;
                handles.push(output.register_hook(|_| Ok(None)));
                if layer < APPLIES {
                    output = apply(runtime, function, &[output])?.swap_remove(0);
                }
            }
            Ok(vec![output])
        };
        let grads = runtime.grad(forward, &self.inputs, &[0], Some(&self.sens))?;
        black_box(grads);
        for handle in self.handles.drain(..) {
            handle.remove();
        }
        Ok(())
    }
}

fn step(criterion: &mut Criterion) {
    let Ok(mut step) = Step::new() else { return };
    criterion.bench_function("182 hooks and 133 applies, removed", |bench| {
        bench.iter(|| step.run().is_ok());
    });
}

criterion_group!(benches, step);
criterion_main!(benches);
