//! The regression cases that the report asks for, on the mock: what a step
//! leaves must not depend on how many were before it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod sharded;

use std::rc::Rc;

use mockspore::census::Kind;
use mockspore::hsdp::{Options, UnitTable};
use mockspore::{
    Device, Error, EventRelease, Function, FunctionCtx, NeedsInputGrad, Policies, ReduceOp,
    Runtime, Tensor, Version, World, apply,
};
use sharded::Training;

/// Live blocks of every kind.
fn live(runtime: &Runtime) -> Vec<u64> {
    Kind::ALL.iter().map(|&kind| runtime.live(kind)).collect()
}

fn defective() -> Policies {
    Policies::mindspore(Version::V2_10_0)
}

#[test]
fn step_1000_of_a_whole_training_step_is_as_step_100() {
    let run = |policies| {
        let table = UnitTable::seed301();
        let training = Training::new(policies, 2, &table, Options::default());
        let mut at = Vec::new();
        for step in 1..=1000 {
            training.step();
            if step == 100 || step == 1000 {
                at.push(training.runtimes.iter().map(live).collect::<Vec<_>>());
            }
        }
        at
    };
    let fixed = run(Policies::fixed());
    assert_eq!(fixed[0], fixed[1]);
    let reported = run(defective());
    assert_ne!(reported[0], reported[1]);
}

struct Pass(NeedsInputGrad);

impl Function for Pass {
    fn forward(&self, _: &FunctionCtx, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
        Ok(inputs.to_vec())
    }

    fn backward(
        &self,
        ctx: &FunctionCtx,
        grads: &[Option<Tensor>],
    ) -> Result<Vec<Option<Tensor>>, Error> {
        if self.0 == NeedsInputGrad::ClearedInBackward {
            ctx.clear_needs_input_grad();
        }
        Ok(grads.to_vec())
    }
}

#[test]
fn repeated_applies_and_backwards_leave_nothing_once_the_field_is_cleared() {
    let tuples = |clear| {
        let runtime = Runtime::new(defective(), Device::Cpu);
        let function: Rc<dyn Function> = Rc::new(Pass(clear));
        let input = runtime.tensor(&[1.0; 4], &[4]).unwrap();
        let mut at = Vec::new();
        for step in 1..=1000 {
            let forward = |inputs: &[Tensor]| apply(&runtime, &function, inputs);
            let inputs = std::slice::from_ref(&input);
            drop(runtime.grad(forward, inputs, &[0], None).unwrap());
            if step == 100 || step == 1000 {
                at.push(runtime.live(Kind::NeedsInputGrad));
            }
        }
        at
    };
    assert_eq!(tuples(NeedsInputGrad::ClearedInBackward), [0, 0]);
    assert_eq!(tuples(NeedsInputGrad::Kept), [100, 1000]);
}

#[test]
fn ten_thousand_collectives_leave_as_many_events_as_one_hundred() {
    let events = |event_release, waits: bool| {
        let policies = Policies {
            event_release,
            ..defective()
        };
        let runtimes = [0, 1].map(|_| Runtime::new(policies, Device::Ascend));
        let world = World::new(&runtimes);
        let tensors = runtimes
            .each_ref()
            .map(|runtime| runtime.tensor(&[1.0; 4], &[4]).unwrap());
        let mut at = Vec::new();
        for call in 1..=10_000 {
            let handles = world.all_reduce(&tensors, ReduceOp::Max).unwrap();
            if waits {
                handles.iter().for_each(mockspore::CommHandle::wait);
            }
            drop(handles);
            if call == 100 || call == 10_000 {
                runtimes.iter().for_each(Runtime::synchronize);
                at.push(runtimes.each_ref().map(|runtime| runtime.live(Kind::Event)));
            }
        }
        at
    };
    for waits in [true, false] {
        let pooled = events(EventRelease::Pooled { cap: 64 }, waits);
        assert_eq!(pooled[0], pooled[1]);
        let reported = events(EventRelease::NeverErased, waits);
        assert_eq!(reported, [[100, 100], [10_000, 10_000]]);
    }
}
