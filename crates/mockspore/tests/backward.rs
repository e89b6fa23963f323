//! The two backward paths, rule by rule as the real framework has them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, reason = "its other users call the rest")]
mod common;

use std::cell::RefCell;
use std::rc::Rc;

use common::{keep, leaf, runtime};
use mockspore::census::Kind;
use mockspore::{Error, Tensor, ops};

#[test]
fn a_backward_releases_saved_values_and_keeps_edges_and_hooks() {
    let runtime = runtime();
    let x = leaf(&runtime, &[2.0]);
    let y = ops::mul(&x, &x).unwrap();
    let handle = keep(&y);
    runtime
        .run_backward(std::slice::from_ref(&y), None, false)
        .unwrap();
    assert_eq!(runtime.live(Kind::BackwardFn), 0);
    assert_eq!((runtime.live(Kind::Edges), y.hook_count()), (1, 1));
    let twice = runtime.run_backward(&[y], None, false);
    assert!(matches!(twice, Err(Error::BackwardTwice)));
    handle.remove();
}

#[test]
fn a_kept_graph_runs_again_and_leaves_accumulate() {
    let runtime = runtime();
    let x = leaf(&runtime, &[2.0]);
    let y = ops::mul(&x, &x).unwrap();
    for _ in 0..2 {
        runtime
            .run_backward(std::slice::from_ref(&y), None, true)
            .unwrap();
    }
    assert_eq!(x.grad().unwrap().to_vec(), [8.0]);
}

#[test]
fn grad_returns_gradients_and_accumulates_nothing() {
    let runtime = runtime();
    runtime.set_grad_flag(false);
    let inputs = [3.0, 5.0].map(|value| runtime.tensor(&[value], &[1]).unwrap());
    let forward = |inputs: &[Tensor]| Ok(vec![ops::mul(&inputs[0], &inputs[0])?]);
    let (outputs, grads) = runtime.grad(forward, &inputs, &[0, 1], None).unwrap();
    assert_eq!(outputs[0].to_vec(), [9.0]);
    assert_eq!(
        (grads[0].to_vec(), grads[1].to_vec()),
        (vec![6.0], vec![0.0])
    );
    assert!(inputs[0].grad().is_none());
    assert!(
        inputs[0].requires_grad(),
        "an input stays a leaf, as upstream"
    );
    assert!(!runtime.grad_flag());
}

#[test]
fn arguments_of_a_backward_that_do_not_fit_are_errors() {
    let runtime = runtime();
    let x = leaf(&runtime, &[1.0, 2.0]);
    let plain = runtime.tensor(&[1.0], &[1]).unwrap();
    let identity = |inputs: &[Tensor]| Ok(inputs.to_vec());
    let inputs = [x.clone()];
    let sens = |tensors: &[Tensor]| {
        runtime
            .grad(identity, &inputs, &[0], Some(tensors))
            .unwrap_err()
    };
    assert!(matches!(
        sens(std::slice::from_ref(&plain)),
        Error::SensShape { .. }
    ));
    assert!(matches!(
        sens(&[]),
        Error::SensCount {
            outputs: 1,
            given: 0
        }
    ));
    let position = runtime.grad(identity, &inputs, &[1], None);
    assert!(matches!(
        position,
        Err(Error::GradPosition {
            position: 1,
            inputs: 1
        })
    ));
    assert!(matches!(
        runtime.run_backward(&[plain], None, false),
        Err(Error::NoGrad)
    ));
}

#[test]
fn final_callbacks_run_once_in_order_after_the_last_hook() {
    let runtime = runtime();
    let x = leaf(&runtime, &[1.0]);
    let log = Rc::new(RefCell::new(Vec::new()));
    let y = ops::mul(&x, &x).unwrap();
    for name in ["first", "second"] {
        let (runtime, log) = (runtime.clone(), Rc::clone(&log));
        y.register_hook(move |_| {
            let log = Rc::clone(&log);
            runtime.queue_backward_final_callback(move || {
                log.borrow_mut().push(name);
                Ok(())
            })?;
            Ok(None)
        });
    }
    let last = Rc::clone(&log);
    let on_leaf = x.register_hook(move |_| {
        last.borrow_mut().push("leaf hook");
        Ok(None)
    });
    runtime.run_backward(&[y], None, false).unwrap();
    assert_eq!(*log.borrow(), ["leaf hook", "first", "second"]);
    on_leaf.remove();
    runtime
        .run_backward(&[ops::mul(&x, &x).unwrap()], None, false)
        .unwrap();
    assert_eq!(
        log.borrow().len(),
        3,
        "a callback must be queued again each time"
    );
    let outside = runtime.queue_backward_final_callback(|| Ok(()));
    assert!(matches!(outside, Err(Error::CallbackOutsideBackward)));
}

#[test]
fn a_backward_inside_a_hook_over_the_same_nodes_is_independent() {
    let runtime = runtime();
    let x = leaf(&runtime, &[2.0]);
    let shared = ops::mul(&x, &x).unwrap();
    let y = ops::mul(&shared, &shared).unwrap();
    let (inner, root) = (runtime.clone(), shared.clone());
    let handle = y.register_hook(move |_| {
        inner.run_backward(std::slice::from_ref(&root), None, true)?;
        Ok(None)
    });
    runtime.run_backward(&[y], None, true).unwrap();
    // 2x of the inner pass and 4x^3 of the outer one.
    assert_eq!(x.grad().unwrap().to_vec(), [4.0 + 32.0]);
    handle.remove();
}

#[test]
fn a_very_long_chain_dies_without_recursion() {
    let runtime = runtime();
    let x = leaf(&runtime, &[1.0]);
    let mut y = x.clone();
    for _ in 0..200_000 {
        y = ops::add(&y, &x).unwrap();
    }
    drop(y);
    assert_eq!(runtime.live(Kind::OpNode), 0);
}

#[test]
fn a_gradient_of_another_shape_from_a_hook_is_an_error() {
    let runtime = runtime();
    let x = leaf(&runtime, &[1.0, 2.0]);
    let y = ops::add(&x, &x).unwrap();
    let scalar = runtime.tensor(&[1.0], &[]).unwrap();
    y.register_hook(move |_| Ok(Some(scalar.clone())));
    let outcome = runtime.run_backward(&[y], None, false);
    assert!(
        matches!(outcome, Err(Error::HookShape { .. })),
        "{outcome:?}"
    );
}

#[test]
fn tensors_of_another_runtime_are_refused() {
    let (own, other) = (runtime(), runtime());
    let foreign = leaf(&other, &[1.0]);
    let square = |inputs: &[Tensor]| Ok(vec![ops::mul(&inputs[0], &inputs[0])?]);
    let inputs = [foreign.clone()];
    assert!(matches!(
        own.grad(square, &inputs, &[0], None),
        Err(Error::OtherRuntime)
    ));
    let y = ops::mul(&foreign, &foreign).unwrap();
    assert!(matches!(
        own.run_backward(&[y], None, false),
        Err(Error::OtherRuntime)
    ));
}
