//! The presets against what the four released wheels were measured to do.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::rc::Rc;

use mockspore::census::Kind;
use mockspore::{
    Block, CellId, CommHandle, Device, Error, Function, FunctionCtx, Policies, RecomputeStop,
    ReduceOp, Runtime, Tensor, Version, World, apply, ops, recompute,
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

/// Dropped hook, tuple per apply, Tensor per recompute, Tensor per raising
/// operator, kernel arguments of a sum.
fn on_cpu(cpu: &Runtime) -> [u64; 5] {
    let policies = cpu.policies();
    let hooks = kept(cpu, Kind::HookEntry, || {
        grad_of(cpu, |inputs| {
            let output = ops::mul(&inputs[0], &inputs[0])?;
            drop(output.register_hook(|_| Ok(None)));
            Ok(vec![output])
        });
    });
    let function: Rc<dyn Function> = Rc::new(Same);
    let tuples = kept(cpu, Kind::NeedsInputGrad, || {
        grad_of(cpu, |inputs| apply(cpu, &function, inputs));
    });
    let weight = tensor(cpu);
    let block: Rc<dyn Block> = Rc::new(move |inputs: &[Tensor]| {
        Ok(vec![ops::mul(&ops::mul(&inputs[0], &weight)?, &weight)?])
    });
    let recomputed = kept(cpu, Kind::Tensor, || {
        grad_of(cpu, |inputs| {
            recompute(cpu, &block, inputs, policies.recompute_stop)
        });
    });
    let (x, other) = (tensor(cpu), cpu.tensor(&[0.0; 3], &[3]).unwrap());
    let raised = kept(cpu, Kind::Tensor, || {
        ops::add(&x, &other).unwrap_err();
    });
    let arguments = kept(cpu, Kind::PoolBlock, || drop(ops::sum(&x).unwrap()));
    [hooks, tuples, recomputed, raised, arguments]
}

/// A recorded forward that no grad consumes.
fn forward(cpu: &Runtime) {
    let double = |inputs: &[Tensor]| Ok(vec![ops::add(&inputs[0], &inputs[0])?]);
    let input = [tensor(cpu)];
    cpu.forward_with_grad(CellId(1), double, &input).unwrap();
}

/// A collective that is waited for, and done.
fn collective(ascend: &Runtime) {
    let world = World::new(std::slice::from_ref(ascend));
    let handles = world.all_reduce(&[tensor(ascend)], ReduceOp::Sum).unwrap();
    handles.iter().for_each(CommHandle::wait);
    drop(handles);
    ascend.synchronize();
}

/// What one call of each kind keeps: those of [`on_cpu`], then the event of a
/// collective, then a recorded forward.
fn behaviour(preset: &str) -> [u64; 7] {
    let cpu = runtime(preset, Device::Cpu);
    let [hooks, tuples, recomputed, raised, arguments] = on_cpu(&cpu);
    let cells = kept(&cpu, Kind::TopCell, || forward(&cpu));
    let ascend = runtime(preset, Device::Ascend);
    let events = kept(&ascend, Kind::Event, || collective(&ascend));
    [hooks, tuples, recomputed, raised, arguments, events, cells]
}

#[test]
fn each_release_keeps_what_its_wheel_was_measured_to_keep() {
    // 2.7.2 has no non-reentrant recompute; its row says what the preset does.
    assert_eq!(behaviour("2.7.2"), [1, 0, 0, 1, 0, 0, 1]);
    assert_eq!(behaviour("2.8.0"), [1, 1, 0, 1, 3, 0, 1]);
    assert_eq!(behaviour("2.9.0"), [1, 1, 1, 1, 3, 0, 1]);
    assert_eq!(behaviour("2.10.0"), [1, 1, 1, 1, 3, 1, 1]);
}

#[test]
fn the_fixed_preset_keeps_nothing_but_one_of_what_it_reuses() {
    // One kept forward, one idle event: the first of ten calls made them.
    let runtime = runtime("fixed", Device::Cpu);
    let [hooks, tuples, recomputed, raised, arguments] = on_cpu(&runtime);
    assert_eq!([hooks, tuples, recomputed, raised, arguments], [0; 5]);
    (0..100).for_each(|_| forward(&runtime));
    assert_eq!(runtime.live(Kind::TopCell), 1);
    let fixed = self::runtime("fixed", Device::Ascend);
    (0..100).for_each(|_| collective(&fixed));
    assert_eq!(fixed.live(Kind::Event), 1);
}

#[test]
fn in_every_release_a_removed_handle_and_a_full_recompute_keep_nothing() {
    for version in Version::ALL {
        let policies = Policies {
            recompute_stop: RecomputeStop::AtTheEnd,
            ..Policies::mindspore(version)
        };
        let cpu = Runtime::new(policies, Device::Cpu);
        let [_, _, recomputed, ..] = on_cpu(&cpu);
        assert_eq!(recomputed, 0, "{version:?}");
        let hooks = kept(&cpu, Kind::HookEntry, || {
            grad_of(&cpu, |inputs| {
                let output = ops::mul(&inputs[0], &inputs[0])?;
                output.register_hook(|_| Ok(None)).remove();
                Ok(vec![output])
            });
        });
        assert_eq!(hooks, 0, "{version:?}");
    }
}
