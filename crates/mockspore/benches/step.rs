//! How long the autograd part of one reported step takes, and its blocks alone:
//! `cargo bench -p mockspore --bench step`; beside real libraries: `cargo xtask speed`.

use std::collections::BTreeMap;
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

type Outputs = Result<Vec<Tensor>, Error>;

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
    fn forward(&self, inputs: &[Tensor], handles: &mut Vec<TensorHookHandle>) -> Outputs {
        let mut output = inputs[0].clone();
        for layer in 0..HOOKS {
            output = ops::mul(&output, &self.weight)?;
            handles.push(output.register_hook(|_| Ok(None)));
            if layer < APPLIES {
                output = apply(&self.runtime, &self.function, &[output])?.swap_remove(0);
            }
        }
        Ok(vec![output])
    }

    fn run(&mut self) -> Result<(), Error> {
        let mut handles = std::mem::take(&mut self.handles);
        let forward = |inputs: &[Tensor]| self.forward(inputs, &mut handles);
        let (runtime, sens) = (&self.runtime, Some(&self.sens[..]));
        black_box(runtime.grad(forward, &self.inputs, &[0], sens)?);
        for handle in handles.drain(..) {
            handle.remove();
        }
        self.handles = handles;
        Ok(())
    }

    /// Sizes of the blocks that are alive at the end of a forward, in turn.
    fn blocks(&self) -> Result<Vec<usize>, Error> {
        let mut live = BTreeMap::new();
        let census = self.runtime.census();
        census.for_each_size(&mut |size, count: u64| {
            live.insert(size, -(count as i64));
        });
        self.runtime.set_grad_flag(true);
        let mut handles = Vec::new();
        let outputs = self.forward(&self.inputs, &mut handles)?;
        census
            .for_each_size(&mut |size, count: u64| *live.entry(size).or_default() += count as i64);
        drop(outputs);
        for handle in handles {
            handle.remove();
        }
        self.runtime.set_grad_flag(false);
        let most = live.values().copied().max().unwrap_or_default();
        let turns = (0..most).flat_map(|turn| {
            let left = live.iter().filter(move |&(_, &count)| turn < count);
            left.map(|(&size, _)| size)
        });
        Ok(turns.collect())
    }
}

/// Makes and frees blocks, nothing else.
fn make_and_free(sizes: &[usize], blocks: &mut Vec<Vec<u8>>) {
    blocks.extend(sizes.iter().map(|&size| Vec::with_capacity(size)));
    black_box(&blocks);
    blocks.clear();
}

fn step(criterion: &mut Criterion) {
    let Ok(mut step) = Step::new() else { return };
    criterion.bench_function("step", |bench| {
        bench.iter(|| step.run().is_ok());
    });
    let Ok(sizes) = step.blocks() else { return };
    let mut blocks = Vec::with_capacity(sizes.len());
    criterion.bench_function("blocks_of_step", |bench| {
        bench.iter(|| make_and_free(&sizes, &mut blocks));
    });
}

criterion_group!(benches, step);
criterion_main!(benches);
