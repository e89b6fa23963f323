//! Random programs over custom functions, recompute, operators that raise,
//! cached abstracts, kernel arguments and kept forwards, and an account of what
//! must be alive after each operation.

pub(crate) mod programs;

use std::rc::Rc;

use mockspore::{
    AbstractCache, AbstractLimits, Block, CellId, CtxClear, Device, Error, Function, FunctionCtx,
    KernelArgument, NeedsInputGrad, OutputOwner, Policies, ReadyTopCell, RecomputeStop, Runtime,
    Tensor, apply, ops, recompute,
};

pub(crate) use programs::{MAX_OPS, Op, all_policies, programs};

/// A reduced cap: the same saw-tooth in a short program.
pub(crate) const LIMITS: AbstractLimits = AbstractLimits {
    threshold: 20,
    drops: 10,
};

/// What must be alive, by the account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) tuples: u64,
    pub(crate) abandoned: u64,
    pub(crate) arguments: u64,
    pub(crate) abstracts: u64,
    pub(crate) top_cells: u64,
    /// Operators behind kept forwards.
    pub(crate) nodes: u64,
}

struct Cube(NeedsInputGrad);

impl Function for Cube {
    fn forward(&self, ctx: &FunctionCtx, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
        ctx.save_for_backward(&inputs[..1]);
        if self.0 == NeedsInputGrad::ClearedInForward {
            ctx.clear_needs_input_grad();
        }
        let square = ops::mul(&inputs[0], &inputs[0])?;
        Ok(vec![ops::mul(&square, &inputs[inputs.len() - 1])?])
    }

    fn backward(
        &self,
        ctx: &FunctionCtx,
        grads: &[Option<Tensor>],
    ) -> Result<Vec<Option<Tensor>>, Error> {
        let inputs = ctx.needs_input_grad().map_or(0, |needs| needs.len());
        let saved = ctx.saved_tensors();
        let grad = grads[0].as_ref().map(|grad| ops::mul(grad, &saved[0]));
        if self.0 == NeedsInputGrad::ClearedInBackward {
            ctx.clear_needs_input_grad();
        }
        // A function that has cleared its field knows its inputs otherwise.
        let mut all = vec![None; inputs.max(1)];
        all[0] = grad.transpose()?;
        Ok(all)
    }
}

/// A program's world: the runtime beside the account.
pub(crate) struct World {
    pub(crate) runtime: Runtime,
    pub(crate) account: Account,
    function: Rc<dyn Function>,
    block: Rc<dyn Block>,
    x: Tensor,
    other: Tensor,
    sens: [Tensor; 1],
    /// Requested bytes of each lost tuple.
    pub(crate) lost: Vec<usize>,
    /// Bits of every gradient and value.
    pub(crate) values: Vec<u32>,
}

impl World {
    pub(crate) fn new(policies: Policies) -> Self {
        let runtime = Runtime::new(policies, Device::Cpu);
        runtime.set_abstract_limits(LIMITS);
        let tensor = |data: [f32; 4]| runtime.tensor(&data, &[2, 2]).unwrap();
        let (x, weight) = (tensor([1.0, -2.0, 0.5, 3.0]), tensor([0.5, 2.0, -1.0, 4.0]));
        x.requires_grad_();
        let sens = [tensor([1.0, 0.25, -2.0, 1.5])];
        let block = move |inputs: &[Tensor]| {
            let product = ops::mul(&inputs[0], &weight)?;
            Ok(vec![ops::mul(&product, &weight)?])
        };
        let world = Self {
            function: Rc::new(Cube(policies.needs_input_grad)),
            block: Rc::new(block),
            other: runtime.tensor(&[0.0; 3], &[3]).unwrap(),
            x,
            sens,
            runtime,
            account: Account::default(),
            lost: Vec::with_capacity(MAX_OPS),
            values: Vec::with_capacity(MAX_OPS * 16),
        };
        // A leaf has an accumulated gradient from its first `run_backward` on.
        world.run_backward();
        world
    }

    fn policies(&self) -> Policies {
        self.runtime.policies()
    }

    pub(crate) fn run(&mut self, program: &[Op]) {
        for &op in program {
            self.apply(op);
        }
    }

    pub(crate) fn apply(&mut self, op: Op) {
        match op {
            Op::Apply { inputs, under_grad } => self.apply_function(inputs, under_grad),
            Op::Recompute(layers) => self.recompute(layers),
            Op::Raise(outputs) => self.raise(outputs),
            Op::Norm => {
                let norm = ops::norm(&self.x).unwrap();
                self.note(&norm);
                self.entered(2);
            }
            Op::Sum => {
                let sum = ops::sum(&self.x).unwrap();
                self.note(&sum);
                self.uploaded(3);
            }
            Op::Matmul => {
                let product = ops::matmul(&self.x, &self.x).unwrap();
                self.note(&product);
                self.uploaded(2);
            }
            Op::GradWithoutSens => {
                let square = |inputs: &[Tensor]| Ok(vec![ops::mul(&inputs[0], &inputs[0])?]);
                self.grad(square, false);
                self.uploaded(2);
            }
            Op::RunBackward => self.run_backward(),
            Op::Forward(operators) => self.forward(operators),
            Op::ClearRes => {
                self.runtime.clear_res();
                self.account.abstracts = 0;
                (self.account.top_cells, self.account.nodes) = (0, 0);
            }
        }
    }

    fn note(&mut self, tensor: &Tensor) {
        let values = tensor.to_vec();
        self.values.extend(values.into_iter().map(f32::to_bits));
    }

    fn grad(&mut self, forward: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>, Error>, sens: bool) {
        let inputs = [self.x.clone()];
        let sens = sens.then_some(&self.sens[..]);
        let (_, grads) = self.runtime.grad(forward, &inputs, &[0], sens).unwrap();
        self.note(&grads[0]);
        // The end of a recorded graph empties the cache.
        self.account.abstracts = 0;
    }

    fn apply_function(&mut self, inputs: usize, under_grad: bool) {
        let (runtime, function) = (self.runtime.clone(), Rc::clone(&self.function));
        // Only the first is cleared of its count: one input where it matters.
        let clears = self.policies().needs_input_grad != NeedsInputGrad::Kept;
        let inputs = if clears { 1 } else { inputs };
        let inputs = vec![self.x.clone(); inputs];
        let forward = |_: &[Tensor]| apply(&runtime, &function, &inputs);
        if under_grad {
            self.grad(forward, true);
        } else {
            let outputs = forward(&[]).unwrap();
            self.note(&outputs[0]);
        }
        let policies = self.policies();
        let cleared = match policies.needs_input_grad {
            NeedsInputGrad::Kept => false,
            NeedsInputGrad::ClearedInForward => true,
            NeedsInputGrad::ClearedInBackward => under_grad,
        };
        let lost = policies.ctx_clear == CtxClear::NamesSavedTensorsTwice && !cleared;
        if lost {
            self.account.tuples += 1;
            self.lost.push(40 + 8 * inputs.len());
        }
    }

    fn recompute(&mut self, layers: usize) {
        let (runtime, block) = (self.runtime.clone(), Rc::clone(&self.block));
        let policies = self.policies();
        let forward = |inputs: &[Tensor]| {
            let mut outputs = inputs.to_vec();
            for _ in 0..layers {
                outputs = recompute(&runtime, &block, &outputs, policies.recompute_stop)?;
            }
            Ok(outputs)
        };
        self.grad(forward, true);
        let early = policies.recompute_stop == RecomputeStop::Early;
        self.abandoned(if early { layers } else { 0 });
    }

    fn raise(&mut self, outputs: usize) {
        if outputs == 1 {
            ops::add(&self.x, &self.other).unwrap_err();
        } else {
            ops::split(&self.x, &vec![2; outputs]).unwrap_err();
        }
        self.abandoned(outputs);
    }

    fn run_backward(&self) {
        self.runtime.set_grad_flag(true);
        let output = ops::mul(&self.x, &self.x).unwrap();
        self.runtime.set_grad_flag(false);
        self.runtime
            .run_backward(&[output], Some(&self.sens), false)
            .unwrap();
    }

    fn forward(&mut self, operators: usize) {
        let weight = self.sens[0].clone();
        let forward = |inputs: &[Tensor]| {
            let mut output = inputs[0].clone();
            for _ in 0..operators {
                output = ops::mul(&output, &weight)?;
            }
            Ok(vec![output])
        };
        let inputs = [self.x.clone()];
        let outputs = self
            .runtime
            .forward_with_grad(CellId(1), forward, &inputs)
            .unwrap();
        self.note(&outputs[0]);
        self.account.abstracts = 0;
        if self.policies().ready_top_cell == ReadyTopCell::KeepsLatest {
            (self.account.top_cells, self.account.nodes) = (0, 0);
        }
        self.account.top_cells += 1;
        self.account.nodes += operators as u64;
    }

    fn abandoned(&mut self, outputs: usize) {
        if self.policies().output_owner == OutputOwner::RawPointer {
            self.account.abandoned += outputs as u64;
        }
    }

    fn uploaded(&mut self, arguments: u64) {
        if self.policies().kernel_argument == KernelArgument::NeverReturned {
            self.account.arguments += arguments;
        }
    }

    fn entered(&mut self, entries: u64) {
        self.account.abstracts += entries;
        let over = self.account.abstracts > LIMITS.threshold as u64;
        if over && self.policies().abstract_cache == AbstractCache::Bounded {
            self.account.abstracts -= LIMITS.drops as u64;
        }
    }
}
