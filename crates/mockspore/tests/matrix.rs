//! The presets against what the four released wheels were measured to do.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::rc::Rc;

use mockspore::census::Kind;
use mockspore::{
    Block, CellId, Device, Error, Function, FunctionCtx, Policies, ReduceOp, Runtime, Tensor,
    World, apply, ops, recompute,
};

const CALLS: u64 = 10;

fn runtime(preset: &str, device: Device) -> Runtime {
    Runtime::new(Policies::preset(preset).unwrap(), device)
}

fn tensor(runtime: &Runtime) -> Tensor {
    runtime.tensor(&[1.0, 2.0, 3.0, 4.0], &[2, 2]).unwrap()
}

/// Blocks of `kind` that one call leaves behind, over ten calls.
fn kept(runtime: &Runtime, kind: Kind, mut call: impl FnMut()) -> u64 {
    let before = runtime.live(kind);
    (0..CALLS).for_each(|_| call());
    let kept = runtime.live(kind) - before;
    assert_eq!(kept % CALLS, 0, "{kind:?}");
    kept / CALLS
}

struct Same;

impl Function for Same {
    fn forward(&self, _: &FunctionCtx, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
        Ok(vec![ops::add(&inputs[0], &inputs[0])?])
    }

    fn backward(
        &self,
        _: &FunctionCtx,
        grads: &[Option<Tensor>],
    ) -> Result<Vec<Option<Tensor>>, Error> {
        Ok(grads.to_vec())
    }
}

fn grad_of(runtime: &Runtime, forward: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>, Error>) {
    let input = tensor(runtime);
    let sens = [tensor(runtime)];
    runtime.grad(forward, &[input], &[0], Some(&sens)).unwrap();
}

/// (dropped hook, tuple per apply, Tensor per recompute, Tensor per raising
/// operator, event of a dropped handle, kernel arguments of a sum, top cell)
fn behaviour(preset: &str) -> [u64; 7] {
    let cpu = runtime(preset, Device::Cpu);
    let policies = cpu.policies();
    let hooks = kept(&cpu, Kind::HookEntry, || {
        grad_of(&cpu, |inputs| {
            let output = ops::mul(&inputs[0], &inputs[0])?;
            drop(output.register_hook(|_| Ok(None)));
            Ok(vec![output])
        });
    });
    let function: Rc<dyn Function> = Rc::new(Same);
    let tuples = kept(&cpu, Kind::NeedsInputGrad, || {
        grad_of(&cpu, |inputs| apply(&cpu, &function, inputs));
    });
    let weight = tensor(&cpu);
    let block: Rc<dyn Block> = Rc::new(move |inputs: &[Tensor]| {
        Ok(vec![ops::mul(&ops::mul(&inputs[0], &weight)?, &weight)?])
    });
    let recomputed = kept(&cpu, Kind::Tensor, || {
        grad_of(&cpu, |inputs| {
            recompute(&cpu, &block, inputs, policies.recompute_stop)
        });
    });
    let (x, other) = (tensor(&cpu), cpu.tensor(&[0.0; 3], &[3]).unwrap());
    let raised = kept(&cpu, Kind::Tensor, || {
        ops::add(&x, &other).unwrap_err();
    });
    let arguments = kept(&cpu, Kind::PoolBlock, || drop(ops::sum(&x).unwrap()));
    let cells = kept(&cpu, Kind::TopCell, || {
        let forward = |inputs: &[Tensor]| Ok(vec![ops::mul(&inputs[0], &inputs[0])?]);
        cpu.forward_with_grad(CellId(1), forward, std::slice::from_ref(&x))
            .unwrap();
    });
    let ascend = runtime(preset, Device::Ascend);
    let world = World::new(std::slice::from_ref(&ascend));
    let shared = [tensor(&ascend)];
    let events = kept(&ascend, Kind::Event, || {
        let handles = world.all_reduce(&shared, ReduceOp::Sum).unwrap();
        handles.iter().for_each(mockspore::CommHandle::wait);
        drop(handles);
        ascend.synchronize();
    });
    [hooks, tuples, recomputed, raised, events, arguments, cells]
}

#[test]
fn each_release_keeps_what_its_wheel_was_measured_to_keep() {
    // 2.7.2 has no non-reentrant recompute; its row says what the preset does.
    assert_eq!(behaviour("2.7.2"), [1, 0, 0, 1, 0, 3, 1]);
    assert_eq!(behaviour("2.8.0"), [1, 1, 0, 1, 0, 3, 1]);
    assert_eq!(behaviour("2.9.0"), [1, 1, 1, 1, 0, 3, 1]);
    assert_eq!(behaviour("2.10.0"), [1, 1, 1, 1, 1, 3, 1]);
}

#[test]
fn the_fixed_preset_keeps_nothing_but_one_of_what_it_reuses() {
    let fixed = runtime("fixed", Device::Ascend);
    let world = World::new(std::slice::from_ref(&fixed));
    let shared = [tensor(&fixed)];
    for _ in 0..100 {
        let handles = world.all_reduce(&shared, ReduceOp::Sum).unwrap();
        handles.iter().for_each(mockspore::CommHandle::wait);
    }
    assert_eq!(fixed.live(Kind::Event), 1, "the pool's only event");
    let cpu = runtime("fixed", Device::Cpu);
    let x = tensor(&cpu);
    for _ in 0..100 {
        let forward = |inputs: &[Tensor]| Ok(vec![ops::mul(&inputs[0], &inputs[0])?]);
        cpu.forward_with_grad(CellId(1), forward, std::slice::from_ref(&x))
            .unwrap();
        drop(ops::sum(&x).unwrap());
    }
    assert_eq!((cpu.live(Kind::TopCell), cpu.live(Kind::MemBuf)), (1, 0));
}
