//! Custom functions: the ctx, its fields, and the tuple that stays.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::rc::Rc;

use mockspore::census::Kind;
use mockspore::{
    CtxClear, Device, Error, Function, FunctionCtx, Policies, Runtime, Tensor, Version, apply, ops,
};

/// What the user's function does beside doubling its first input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum User {
    Nothing,
    ClearsInForward,
    ClearsInBackward,
    SavesInput,
    KeepsOutput,
    ReturnsTooFew,
    TwoOutputs,
    TwoOutputsUnmaterialized,
    MarksConstant,
}

impl Function for User {
    fn forward(&self, ctx: &FunctionCtx, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
        let output = ops::add(&inputs[0], &inputs[0])?;
        match self {
            Self::ClearsInForward => ctx.clear_needs_input_grad(),
            Self::SavesInput => ctx.save_for_backward(&[inputs[0].clone(), output.clone()]),
            Self::KeepsOutput => ctx.set_attribute(&output),
            Self::TwoOutputs => return Ok(vec![output, inputs[0].clone()]),
            Self::TwoOutputsUnmaterialized => {
                ctx.set_materialize_grads(false);
                return Ok(vec![output, inputs[0].clone()]);
            }
            Self::MarksConstant => ctx.mark_non_differentiable(std::slice::from_ref(&output)),
            _ => {}
        }
        Ok(vec![output])
    }

    fn backward(
        &self,
        ctx: &FunctionCtx,
        grads: &[Option<Tensor>],
    ) -> Result<Vec<Option<Tensor>>, Error> {
        let grad = grads[0].clone();
        match self {
            Self::ClearsInBackward => ctx.clear_needs_input_grad(),
            Self::SavesInput => {
                let [input, output] = &ctx.saved_tensors()[..] else {
                    return Err(Error::Raised("two tensors were saved".into()));
                };
                assert_eq!((input.to_vec(), output.to_vec()), (vec![3.0], vec![6.0]));
            }
            Self::ReturnsTooFew => return Ok(Vec::new()),
            Self::TwoOutputs => assert_eq!(grads[1].as_ref().unwrap().to_vec(), [0.0]),
            Self::TwoOutputsUnmaterialized => assert!(grads[1].is_none()),
            _ => {}
        }
        let twice = grad.map(|grad| ops::add(&grad, &grad)).transpose()?;
        Ok(vec![twice])
    }
}

fn runtime(ctx_clear: CtxClear) -> Runtime {
    let policies = Policies {
        ctx_clear,
        ..Policies::mindspore(Version::V2_10_0)
    };
    let runtime = Runtime::new(policies, Device::Cpu);
    runtime.set_grad_flag(true);
    runtime
}

/// Applies once with a backward; the input's gradient.
fn once(runtime: &Runtime, user: User) -> Result<Vec<f32>, Error> {
    let x = runtime.tensor(&[3.0], &[1])?;
    x.requires_grad_();
    let function: Rc<dyn Function> = Rc::new(user);
    let outputs = apply(runtime, &function, std::slice::from_ref(&x))?;
    runtime.run_backward(&outputs[..1], None, false)?;
    Ok(x.grad().map_or_else(Vec::new, |grad| grad.to_vec()))
}

fn tuples_after_ten(ctx_clear: CtxClear, user: User) -> u64 {
    let runtime = runtime(ctx_clear);
    for _ in 0..10 {
        assert_eq!(once(&runtime, user).unwrap(), [2.0]);
    }
    assert_eq!(
        runtime.live(Kind::FunctionCtx),
        0,
        "the ctx itself is released"
    );
    assert_eq!(runtime.live(Kind::SavedTensors), 0);
    runtime.live(Kind::NeedsInputGrad)
}

#[test]
fn each_apply_leaves_a_tuple_unless_it_is_cleared_somewhere() {
    let defect = CtxClear::NamesSavedTensorsTwice;
    for (ctx_clear, user, left) in [
        (defect, User::Nothing, 10),
        (defect, User::SavesInput, 10),
        (defect, User::ClearsInBackward, 0),
        (defect, User::ClearsInForward, 0),
        (CtxClear::ClearsEachField, User::Nothing, 0),
    ] {
        assert_eq!(
            tuples_after_ten(ctx_clear, user),
            left,
            "{ctx_clear:?} {user:?}"
        );
    }
}

#[test]
fn without_a_backward_only_the_forward_or_the_type_can_clear() {
    for (ctx_clear, user, left) in [
        (CtxClear::NamesSavedTensorsTwice, User::ClearsInBackward, 1),
        (CtxClear::NamesSavedTensorsTwice, User::ClearsInForward, 0),
        (CtxClear::ClearsEachField, User::ClearsInBackward, 0),
    ] {
        let runtime = runtime(ctx_clear);
        runtime.set_grad_flag(false);
        let x = runtime.tensor(&[3.0], &[1]).unwrap();
        let function: Rc<dyn Function> = Rc::new(user);
        drop(apply(&runtime, &function, &[x]).unwrap());
        assert_eq!(runtime.live(Kind::FunctionCtx), 0);
        assert_eq!(
            runtime.live(Kind::NeedsInputGrad),
            left,
            "{ctx_clear:?} {user:?}"
        );
    }
}

#[test]
fn a_tuple_has_40_bytes_and_8_for_each_input() {
    let runtime = runtime(CtxClear::NamesSavedTensorsTwice);
    let inputs = [1.0, 2.0].map(|value| runtime.tensor(&[value], &[1]).unwrap());
    let function: Rc<dyn Function> = Rc::new(User::Nothing);
    drop(apply(&runtime, &function, &inputs).unwrap());
    assert_eq!(
        runtime.census().counts(Kind::NeedsInputGrad).live_bytes,
        40 + 2 * 8
    );
}

#[test]
fn an_output_kept_on_the_ctx_is_a_cycle_until_a_backward() {
    let runtime = runtime(CtxClear::ClearsEachField);
    once(&runtime, User::KeepsOutput).unwrap();
    assert_eq!(
        runtime.live(Kind::FunctionCtx),
        0,
        "the backward releases it"
    );
    let x = runtime.tensor(&[3.0], &[1]).unwrap();
    x.requires_grad_();
    let function: Rc<dyn Function> = Rc::new(User::KeepsOutput);
    drop(apply(&runtime, &function, &[x]).unwrap());
    assert_eq!(runtime.live(Kind::FunctionCtx), 1, "nothing collects it");
}

#[test]
fn a_gradient_that_did_not_arrive_is_zeros_unless_switched_off() {
    let runtime = runtime(CtxClear::ClearsEachField);
    assert_eq!(once(&runtime, User::TwoOutputs).unwrap(), [2.0]);
    assert_eq!(
        once(&runtime, User::TwoOutputsUnmaterialized).unwrap(),
        [2.0]
    );
}

#[test]
fn a_non_differentiable_output_requires_no_gradient() {
    let runtime = runtime(CtxClear::ClearsEachField);
    let outcome = once(&runtime, User::MarksConstant);
    assert!(matches!(outcome, Err(Error::NoGrad)), "{outcome:?}");
}

#[test]
fn a_backward_with_another_number_of_gradients_is_an_error() {
    let runtime = runtime(CtxClear::ClearsEachField);
    let outcome = once(&runtime, User::ReturnsTooFew);
    assert!(
        matches!(
            outcome,
            Err(Error::GradCount {
                inputs: 1,
                returned: 0
            })
        ),
        "{outcome:?}"
    );
}

#[test]
fn the_presets_follow_the_releases() {
    let clears = |version| Policies::mindspore(version).ctx_clear;
    assert_eq!(clears(Version::V2_7_2), CtxClear::ClearsEachField);
    for version in [Version::V2_8_0, Version::V2_9_0, Version::V2_10_0] {
        assert_eq!(clears(version), CtxClear::NamesSavedTensorsTwice);
    }
    assert_eq!(Policies::fixed().ctx_clear, CtxClear::ClearsEachField);
}
