//! Who has the handles of the backward pre-hooks: the fix, and fixes that fail.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod sharded;

use std::cell::Cell;
use std::rc::Rc;

use mockspore::census::{Kind, Tally};
use mockspore::hsdp::{Mesh, Options, Point, SchedulerState, Unit, UnitTable, fully_shard};
use mockspore::{
    BackwardPreHook, Device, Error, HookMap, Policies, RecomputeStop, Runtime, World, ops,
};
use sharded::{Training, WIDTH};

/// An embedding, two blocks, a root; the first block has two outputs.
fn table() -> UnitTable {
    UnitTable {
        units: vec![
            Unit::new("embedding").on_plain_inputs(),
            Unit::new("attention").with_outputs(2),
            Unit::new("mlp"),
            Unit::new("root").on_plain_inputs(),
        ],
        aux_loss_scalers: 0,
        chunk_losses: 0,
        reshard_after_forward: true,
        mesh: Mesh::Sharded,
        comm_fusion: false,
    }
}

const HOOKS: u64 = 5;

/// Everything cured but the map itself, so that a handle that stays is seen.
fn caller_fix(backward_pre_hook: BackwardPreHook) -> Policies {
    Policies {
        hook_map: HookMap::KeepsDead,
        backward_pre_hook,
        ..Policies::fixed()
    }
}

fn training(fix: BackwardPreHook) -> Training {
    Training::new(caller_fix(fix), 1, &table(), Options::default())
}

fn released() -> Training {
    training(BackwardPreHook::ReleasedWithBackward)
}

fn with_unused(fix: BackwardPreHook) -> Training {
    let options = Options {
        unused_outputs: 1,
        ..Options::default()
    };
    Training::new(caller_fix(fix), 1, &table(), options)
}

/// Entries that are left after each of three steps.
fn entries(training: &Training) -> [u64; 3] {
    [(); 3].map(|()| {
        training.step();
        training.left(0).0
    })
}

#[test]
fn dropped_handles_leave_every_hook_and_released_ones_none() {
    let [first, second, third] = entries(&training(BackwardPreHook::Dropped));
    assert_eq!([first, second, third], [HOOKS, 2 * HOOKS, 3 * HOOKS]);
    assert_eq!(entries(&released()), [0; 3]);
}

#[test]
fn removing_on_firing_keeps_the_hooks_of_outputs_that_nobody_uses() {
    assert_eq!(entries(&training(BackwardPreHook::RemovedOnFiring)), [0; 3]);
    let unused = with_unused(BackwardPreHook::RemovedOnFiring);
    assert_eq!(entries(&unused), [1, 2, 3]);
    let fixed = with_unused(BackwardPreHook::ReleasedWithBackward);
    assert_eq!(entries(&fixed), [0; 3]);
    // Nor does a hook fire on an output of a recomputed forward.
    let mut table = table();
    table.units[1].forwards = 2;
    let policies = caller_fix(BackwardPreHook::RemovedOnFiring);
    let recomputed = Training::new(policies, 1, &table, Options::default());
    assert_eq!(entries(&recomputed), [2, 4, 6]);
}

#[test]
fn removing_in_the_function_keeps_the_hooks_of_units_that_have_none() {
    let training = training(BackwardPreHook::RemovedInFunctionBackward);
    // The embedding and the root.
    assert_eq!(entries(&training), [2, 4, 6]);
    assert_eq!(training.runtimes[0].live(Kind::HookHandles), 2);
}

#[test]
fn clearing_at_every_root_takes_the_hooks_of_a_pending_micro_batch() {
    let run = |fix| {
        let training = training(fix);
        let first = training.forward(0, 0);
        let second = training.forward(0, 1);
        training.backward(first);
        let of_first = training.models[0].grads();
        training.backward(second);
        let calls = training.tally(0, Tally::HookCalls);
        let unready = training.tally(0, Tally::BackwardWithoutUnshard);
        (calls, unready, of_first == training.models[0].grads())
    };
    let fixed = run(BackwardPreHook::ReleasedWithBackward);
    assert_eq!(fixed, (2 * HOOKS, 0, false));
    // Two units run backward on parameters that nobody gathered, and no unit
    // reduces the second micro-batch's gradients.
    let cleared = run(BackwardPreHook::ClearedByAnyRoot);
    assert_eq!(cleared, (HOOKS, 2, true));
}

#[test]
fn a_forward_that_never_runs_backward_is_released_at_the_next_one() {
    let training = released();
    drop(training.forward(0, 0));
    assert_eq!(training.models[0].held_handles() as u64, HOOKS);
    for _ in 0..10 {
        drop(training.forward(0, 0));
        assert_eq!(training.left(0), (HOOKS, HOOKS as usize));
    }
    training.step();
    assert_eq!(training.left(0), (0, 0));
}

#[test]
fn without_the_grad_flag_nothing_is_registered() {
    let training = released();
    training.runtimes[0].set_grad_flag(false);
    drop(training.forward(0, 0));
    assert_eq!(training.counts(0)[..2], [0, 0]);
    assert_eq!(training.left(0), (0, 0));
    training.runtimes[0].set_grad_flag(true);
    training.step();
    assert_eq!(training.left(0), (0, 0));
}

#[test]
fn pending_micro_batches_keep_theirs_in_whatever_order_they_run_backward() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let training = released();
        let mut batches = [0, 1, 2].map(|number| Some(training.forward(0, number)));
        for (done, &next) in order.iter().enumerate() {
            assert_eq!(training.models[0].pending_forwards(), 3 - done);
            training.backward(batches[next].take().unwrap());
            let pending = HOOKS * (2 - done as u64);
            assert_eq!(training.left(0), (pending, pending as usize));
        }
        assert_eq!(training.tally(0, Tally::HookCalls), 3 * HOOKS);
        assert_eq!(training.tally(0, Tally::BackwardWithoutUnshard), 0);
    }
}

/// Raises when it has been told `at` times.
fn raising(at: usize) -> (Rc<Cell<usize>>, mockspore::hsdp::Observer) {
    let told = Rc::new(Cell::new(0));
    let count = Rc::clone(&told);
    let observer = move |unit: &str, point: Point| {
        count.set(count.get() + 1);
        let raises = count.get() == at;
        (!raises)
            .then_some(())
            .ok_or_else(|| Error::Raised(format!("{unit} at {point:?}").into()))
    };
    (told, Rc::new(observer))
}

#[test]
fn an_exception_at_any_point_leaves_nothing_behind_the_next_step() {
    let clean = released();
    clean.step();
    let expected = clean.models[0].grads();
    let (told, observer) = raising(usize::MAX);
    clean.models[0].set_observer(Some(observer));
    clean.step();
    // Four units, each: two points in the pass forward and the hook after it,
    // hooks, and functions; the root's final callback.
    let points = told.get();
    assert_eq!(points as u64, 3 * 4 + HOOKS + 2 + 1);
    for at in 1..=points {
        let training = released();
        training.step();
        let (_, observer) = raising(at);
        training.models[0].set_observer(Some(observer));
        let failed = training
            .try_forward(0, 0)
            .and_then(|batch| training.try_backward(batch));
        assert!(matches!(failed, Err(Error::Raised(_))), "point {at}");
        training.models[0].set_observer(None);
        // What a trainer does before it goes on: no gradient of the failed step
        // stays, and the flag that a failing backward clears is set again.
        training.models[0].zero_grad();
        training.runtimes[0].set_grad_flag(true);
        training.step();
        assert_eq!(training.left(0), (0, 0), "point {at}");
        assert_eq!(training.models[0].grads(), expected, "point {at}");
        assert_eq!(training.tally(0, Tally::BackwardWithoutUnshard), 0);
        let ended = |state| state == SchedulerState::Backward;
        assert!(training.models[0].states().into_iter().all(ended));
    }
}

#[test]
fn recomputed_units_register_twice_and_release_both() {
    let mut recomputed = table();
    // The attention within a block that the mlp ends.
    recomputed.units[1].forwards = 2;
    for stop in [RecomputeStop::AtTheEnd, RecomputeStop::Early] {
        let policies = Policies {
            recompute_stop: stop,
            ..caller_fix(BackwardPreHook::ReleasedWithBackward)
        };
        let training = Training::new(policies, 1, &recomputed, Options::default());
        let plain = released();
        for _ in 0..3 {
            training.step();
            plain.step();
            assert_eq!(training.left(0), (0, 0));
            assert_eq!(training.models[0].grads(), plain.models[0].grads());
        }
        let step = recomputed.step(3);
        let [hooks, applies, _] = training.counts(0);
        assert_eq!(hooks, step.hooks);
        assert_eq!(applies, step.post_backward_functions);
    }
}

#[test]
fn two_roots_release_their_own() {
    let policies = caller_fix(BackwardPreHook::ReleasedWithBackward);
    let runtime = Runtime::new(policies, Device::Ascend);
    let world = World::new(std::slice::from_ref(&runtime));
    let model = || {
        let models = fully_shard(&world, &table(), Options::default(), &mut || 1.0);
        models.unwrap().swap_remove(0)
    };
    let (policy, critic) = (model(), model());
    runtime.set_grad_flag(true);
    let input = runtime.tensor(&[1.0; WIDTH], &[WIDTH]).unwrap();
    for _ in 0..3 {
        let first = policy.forward(&input).unwrap();
        let second = critic.forward(&input).unwrap();
        runtime.run_backward(&[first], None, false).unwrap();
        let held = (policy.held_handles(), critic.held_handles());
        assert_eq!(held, (0, HOOKS as usize));
        runtime.run_backward(&[second], None, false).unwrap();
        // And both through one loss.
        let (first, second) = (policy.forward(&input), critic.forward(&input));
        let loss = ops::add(&first.unwrap(), &second.unwrap()).unwrap();
        runtime.run_backward(&[loss], None, false).unwrap();
        assert_eq!(runtime.live(Kind::HookEntry), 0);
    }
    assert_eq!(runtime.census().tally(Tally::HookCalls), 3 * 4 * HOOKS);
}

#[test]
fn a_backward_on_another_thread_keeps_its_states_there() {
    let training = released();
    let model = &training.models[0];
    for _ in 0..3 {
        let batch = training.forward(0, 0);
        model.set_thread(1);
        training.backward(batch);
        let ended = |state| state == SchedulerState::Backward;
        assert!(model.states().into_iter().all(ended));
        model.set_thread(0);
        let forward = |state| state == SchedulerState::Forward;
        assert!(model.states().into_iter().all(forward));
        assert_eq!(training.left(0), (0, 0));
    }
    assert_eq!(training.tally(0, Tally::HookCalls), 3 * HOOKS);
    assert_eq!(training.tally(0, Tally::BackwardWithoutUnshard), 0);
}
