//! Hooks, rule by rule as the real framework has them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use common::{keep, leaf, runtime, with_map};
use mockspore::census::Kind;
use mockspore::{Error, HookMap, ops};

#[test]
fn a_dropped_handle_of_an_operator_output_keeps_an_entry_and_a_control_block() {
    let runtime = runtime();
    let x = leaf(&runtime, &[1.0]);
    let y = ops::mul(&x, &x).unwrap();
    drop(keep(&y));
    drop(y);
    assert_eq!(runtime.live(Kind::HookEntry), 1);
    assert_eq!(runtime.live(Kind::ControlBlock), 1);
    assert_eq!(runtime.live(Kind::OpNode), 0);
    assert_eq!(
        runtime.live(Kind::HookFn),
        0,
        "the callable dies with the node"
    );
}

#[test]
fn a_map_that_erases_with_the_node_keeps_nothing() {
    let runtime = with_map(HookMap::ErasesWithNode);
    let x = leaf(&runtime, &[1.0]);
    let y = ops::mul(&x, &x).unwrap();
    drop(keep(&y));
    assert_eq!(runtime.hook_entries(), 1);
    drop(y);
    assert_eq!(runtime.hook_entries(), 0);
    assert_eq!(runtime.live(Kind::ControlBlock), 0);
}

#[test]
fn removing_works_after_the_tensor_died_and_twice_is_silent() {
    let runtime = runtime();
    let x = leaf(&runtime, &[1.0]);
    let y = ops::mul(&x, &x).unwrap();
    let handle = keep(&y);
    drop(y);
    handle.remove();
    handle.remove();
    assert_eq!(runtime.hook_entries(), 0);
    assert_eq!(runtime.live(Kind::ControlBlock), 0);
}

#[test]
fn many_hooks_on_one_tensor_pin_one_control_block_until_the_last_is_removed() {
    let runtime = runtime();
    let x = leaf(&runtime, &[1.0]);
    let y = ops::mul(&x, &x).unwrap();
    let handles: Vec<_> = (0..5).map(|_| keep(&y)).collect();
    drop(y);
    assert_eq!(runtime.live(Kind::HookEntry), 5);
    for handle in &handles {
        assert_eq!(runtime.live(Kind::ControlBlock), 1);
        handle.remove();
    }
    assert_eq!(runtime.live(Kind::ControlBlock), 0);
}

#[test]
fn a_dropped_handle_of_a_leaf_pins_the_whole_leaf() {
    let runtime = runtime();
    let z = runtime.tensor(&[1.0], &[1]).unwrap();
    assert!(!z.requires_grad());
    drop(keep(&z));
    assert!(
        z.requires_grad(),
        "registering makes it a leaf that requires grad"
    );
    drop(z);
    assert_eq!(runtime.live(Kind::LeafBlock), 1);
    assert_eq!(runtime.live(Kind::HookFn), 0);
    runtime.clear_res();
    assert_eq!(runtime.live(Kind::LeafBlock), 0);
}

#[test]
fn ids_are_never_reused() {
    let runtime = runtime();
    let x = leaf(&runtime, &[1.0]);
    let first = keep(&x);
    first.remove();
    runtime.clear_res();
    assert_eq!((first.id(), keep(&x).id()), (1, 2));
}

#[test]
fn hooks_run_in_registration_order_and_a_tensor_replaces_the_gradient() {
    let runtime = runtime();
    let x = leaf(&runtime, &[1.0, 2.0]);
    let w = runtime.tensor(&[3.0, 4.0], &[2]).unwrap();
    let order = Rc::new(RefCell::new(Vec::new()));
    let y = ops::mul(&x, &w).unwrap();
    for name in ["doubles", "keeps"] {
        let order = Rc::clone(&order);
        y.register_hook(move |grad| {
            order.borrow_mut().push((name, grad.to_vec()));
            if name == "doubles" {
                ops::add(grad, grad).map(Some)
            } else {
                Ok(None)
            }
        });
    }
    runtime.run_backward(&[y], None, false).unwrap();
    let expected = [("doubles", vec![1.0, 1.0]), ("keeps", vec![2.0, 2.0])];
    assert_eq!(*order.borrow(), expected);
    assert_eq!(x.grad().unwrap().to_vec(), [6.0, 8.0]);
}

#[test]
fn a_hook_registered_while_hooks_run_still_runs() {
    let runtime = runtime();
    let x = leaf(&runtime, &[1.0]);
    let y = ops::mul(&x, &x).unwrap();
    let seen = Rc::new(Cell::new(0));
    let (inner, tensor) = (Rc::clone(&seen), Rc::new(RefCell::new(Some(y.clone()))));
    let late = Rc::clone(&tensor);
    y.register_hook(move |_| {
        let inner = Rc::clone(&inner);
        // Taken, so that the hook does not keep its own node alive.
        if let Some(tensor) = late.borrow_mut().take() {
            tensor.register_hook(move |_| {
                inner.set(inner.get() + 1);
                Ok(None)
            });
        }
        Ok(None)
    });
    runtime.run_backward(&[y], None, false).unwrap();
    assert_eq!(seen.get(), 1);
}

#[test]
fn a_hook_on_a_live_leaf_runs_in_every_later_backward() {
    let runtime = runtime();
    let x = leaf(&runtime, &[1.0]);
    let calls = Rc::new(Cell::new(0));
    let steps = 10;
    for _ in 0..steps {
        let counter = Rc::clone(&calls);
        x.register_hook(move |_| {
            counter.set(counter.get() + 1);
            Ok(None)
        });
        let y = ops::mul(&x, &x).unwrap();
        runtime.run_backward(&[y], None, false).unwrap();
    }
    assert_eq!(calls.get(), steps * (steps + 1) / 2);
}

#[test]
fn clear_res_empties_the_map_and_leaves_hooks_that_no_handle_removes() {
    let runtime = runtime();
    let x = leaf(&runtime, &[1.0]);
    let calls = Rc::new(Cell::new(0));
    let counter = Rc::clone(&calls);
    let handle = x.register_hook(move |_| {
        counter.set(counter.get() + 1);
        Ok(None)
    });
    runtime.clear_res();
    assert!(!runtime.grad_flag(), "clear_res resets the grad flag");
    runtime.set_grad_flag(true);
    handle.remove();
    let y = ops::mul(&x, &x).unwrap();
    runtime.run_backward(&[y], None, false).unwrap();
    assert_eq!(
        (runtime.hook_entries(), x.hook_count(), calls.get()),
        (0, 1, 1)
    );
}

#[test]
fn a_hook_that_raises_clears_the_map() {
    let runtime = runtime();
    let x = leaf(&runtime, &[1.0]);
    for _ in 0..3 {
        keep(&ops::mul(&x, &x).unwrap());
    }
    let y = ops::mul(&x, &x).unwrap();
    y.register_hook(|_| Err(Error::Raised("boom".into())));
    let error = runtime.run_backward(&[y], None, false).unwrap_err();
    assert_eq!(error.to_string(), "boom");
    assert_eq!(runtime.hook_entries(), 0);
}
