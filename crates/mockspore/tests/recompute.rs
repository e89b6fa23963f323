//! Recompute: the same gradients, and what an early stop leaves behind.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::cell::Cell;
use std::rc::Rc;

use mockspore::census::Kind;
use mockspore::{
    Block, Device, Error, OutputOwner, Policies, RecomputeStop, Runtime, Tensor, Version, ops,
    recompute,
};

fn runtime(output_owner: OutputOwner) -> Runtime {
    let policies = Policies {
        output_owner,
        ..Policies::mindspore(Version::V2_10_0)
    };
    Runtime::new(policies, Device::Cpu)
}

/// Four operators; the last saves nothing, the ones before save one value each.
fn block(runtime: &Runtime, runs: &Rc<Cell<u32>>) -> Rc<dyn Block> {
    let weight = runtime.tensor(&[0.5, -2.0, 3.0, 0.25], &[2, 2]).unwrap();
    let runs = Rc::clone(runs);
    Rc::new(move |inputs: &[Tensor]| {
        runs.set(runs.get() + 1);
        let product = ops::matmul(&ops::mul(&inputs[0], &weight)?, &weight)?;
        let active = ops::relu(&product)?;
        Ok(vec![ops::add(&active, &inputs[0])?])
    })
}

struct Outcome {
    gradient: Vec<f32>,
    tensors: u64,
    runs: u32,
}

fn outcome(runtime: &Runtime, layers: usize, stop: Option<RecomputeStop>) -> Outcome {
    let runs = Rc::new(Cell::new(0));
    let block = block(runtime, &runs);
    let input = runtime.tensor(&[1.0, 2.0, -1.0, 0.5], &[2, 2]).unwrap();
    let sens = [runtime.tensor(&[1.0, 0.5, 2.0, -1.0], &[2, 2]).unwrap()];
    let forward = |inputs: &[Tensor]| {
        let mut outputs = inputs.to_vec();
        for _ in 0..layers {
            outputs = match stop {
                Some(stop) => recompute(runtime, &block, &outputs, stop)?,
                None => block.forward(&outputs)?,
            };
        }
        Ok(outputs)
    };
    let before = runtime.live(Kind::Tensor);
    let (outputs, grads) = runtime.grad(forward, &[input], &[0], Some(&sens)).unwrap();
    let gradient = grads[0].to_vec();
    drop((outputs, grads));
    assert_eq!(runtime.live(Kind::PlaceHolder), 0);
    assert_eq!(runtime.live(Kind::RecomputeFrame), 0);
    Outcome {
        gradient,
        // The input went too.
        tensors: runtime.live(Kind::Tensor) + 1 - before,
        runs: runs.get(),
    }
}

#[test]
fn a_recomputed_block_runs_once_more_and_gives_the_same_gradient() {
    let plain = outcome(&runtime(OutputOwner::Owned), 3, None);
    assert_eq!((plain.runs, plain.tensors), (3, 0));
    for stop in [RecomputeStop::Early, RecomputeStop::AtTheEnd] {
        let again = outcome(&runtime(OutputOwner::Owned), 3, Some(stop));
        assert_eq!(again.gradient, plain.gradient, "{stop:?}");
        assert_eq!((again.runs, again.tensors), (6, 0), "{stop:?}");
    }
}

#[test]
fn an_early_stop_leaves_one_tensor_for_each_call() {
    for layers in [1, 12] {
        let early = outcome(
            &runtime(OutputOwner::RawPointer),
            layers,
            Some(RecomputeStop::Early),
        );
        assert_eq!(early.tensors, layers as u64);
        let end = outcome(
            &runtime(OutputOwner::RawPointer),
            layers,
            Some(RecomputeStop::AtTheEnd),
        );
        assert_eq!(end.tensors, 0);
        assert_eq!(end.gradient, early.gradient);
    }
}

#[test]
fn a_block_that_fails_or_does_something_else_the_second_time_is_an_error() {
    let runtime = runtime(OutputOwner::RawPointer);
    let (x, other) = (
        runtime.tensor(&[1.0, 2.0], &[2]).unwrap(),
        runtime.tensor(&[0.0; 3], &[3]).unwrap(),
    );
    let weight = runtime.tensor(&[3.0, 4.0], &[2]).unwrap();
    let sens = [runtime.tensor(&[1.0, 1.0], &[2]).unwrap()];
    let second = |second_does: fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor, Error>| {
        let runs = Cell::new(0);
        let (weight, other) = (weight.clone(), other.clone());
        let block: Rc<dyn Block> = Rc::new(move |inputs: &[Tensor]| {
            runs.set(runs.get() + 1);
            let output = match runs.get() {
                1 => ops::mul(&inputs[0], &weight)?,
                _ => second_does(&inputs[0], &weight, &other)?,
            };
            Ok(vec![output])
        });
        let forward = |inputs: &[Tensor]| recompute(&runtime, &block, inputs, RecomputeStop::Early);
        let inputs = std::slice::from_ref(&x);
        let result = runtime.grad(forward, inputs, &[0], Some(&sens));
        result.map(|(_, grads)| grads[0].to_vec())
    };
    assert_eq!(
        second(|x, weight, _| ops::mul(x, weight)).unwrap(),
        [3.0, 4.0]
    );
    let raised = second(|x, _, other| ops::add(x, other));
    assert!(matches!(raised, Err(Error::Broadcast { .. })), "{raised:?}");
    let different = second(|x, weight, _| ops::add(x, weight));
    assert!(
        matches!(different, Err(Error::NotRecomputed)),
        "{different:?}"
    );
}
