//! Collectives: values, handles, and how each policy ends an event.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use mockspore::census::{Kind, Tally};
use mockspore::{
    CommHandle, Device, Error, EventRelease, Policies, ReduceOp, Runtime, StreamId, Tensor,
    Version, World,
};

fn world(ranks: usize, device: Device, event_release: EventRelease) -> World {
    let policies = Policies {
        event_release,
        ..Policies::mindspore(Version::V2_10_0)
    };
    let ranks: Vec<Runtime> = (0..ranks).map(|_| Runtime::new(policies, device)).collect();
    World::new(&ranks)
}

/// One tensor of each rank: rank `r` has `r + 1, 10 (r + 1), ...`.
fn each(world: &World, values: usize) -> Vec<Tensor> {
    let of_rank = |(rank, runtime): (usize, &Runtime)| {
        let power = |index: usize| (rank as f32 + 1.0) * 10_f32.powi(index as i32);
        let data: Vec<f32> = (0..values).map(power).collect();
        runtime.tensor(&data, &[values]).unwrap()
    };
    world.ranks().iter().enumerate().map(of_rank).collect()
}

fn values(tensors: &[Tensor]) -> Vec<Vec<f32>> {
    tensors.iter().map(Tensor::to_vec).collect()
}

#[test]
fn collectives_move_the_right_values() {
    let world = world(2, Device::Ascend, EventRelease::NeverErased);
    for (op, expected) in [
        (ReduceOp::Sum, [3.0, 30.0]),
        (ReduceOp::Prod, [2.0, 200.0]),
        (ReduceOp::Max, [2.0, 20.0]),
        (ReduceOp::Min, [1.0, 10.0]),
    ] {
        let tensors = each(&world, 2);
        world.all_reduce(&tensors, op).unwrap();
        assert_eq!(values(&tensors), [expected.to_vec(), expected.to_vec()]);
    }
    let tensors = each(&world, 2);
    world.broadcast(&tensors, 1).unwrap();
    assert_eq!(values(&tensors), [[2.0, 20.0], [2.0, 20.0]]);

    let (inputs, outputs) = (each(&world, 2), each(&world, 4));
    world.all_gather_into_tensor(&outputs, &inputs).unwrap();
    assert_eq!(values(&outputs), [[1.0, 10.0, 2.0, 20.0]; 2]);
    world
        .reduce_scatter_tensor(&inputs, &outputs, ReduceOp::Sum)
        .unwrap();
    assert_eq!(values(&inputs), [[2.0, 20.0], [4.0, 40.0]]);

    let inputs = each(&world, 2);
    let mut lists = vec![Vec::new(); 2];
    for (list, rank) in lists.iter_mut().zip(world.ranks()) {
        list.extend((0..2).map(|_| rank.tensor(&[0.0; 2], &[2]).unwrap()));
    }
    world.all_gather(&lists, &inputs).unwrap();
    for list in &lists {
        assert_eq!(values(list), [[1.0, 10.0], [2.0, 20.0]]);
    }
}

#[test]
fn tensors_that_do_not_fit_the_world_are_refused() {
    let two = world(2, Device::Ascend, EventRelease::NeverErased);
    let tensors = each(&two, 2);
    let refused = |result: Result<Vec<CommHandle>, Error>| match result {
        Err(Error::RankTensors { ranks: 2 } | Error::NoRank { rank: 2 }) => {}
        other => panic!("{other:?}"),
    };
    refused(two.all_reduce(&tensors[..1], ReduceOp::Sum));
    let swapped = [tensors[1].clone(), tensors[0].clone()];
    refused(two.all_reduce(&swapped, ReduceOp::Sum));
    refused(two.broadcast(&tensors, 2));
    refused(two.all_gather_into_tensor(&tensors, &tensors));
    refused(two.all_gather(&[tensors.clone(), Vec::new()], &tensors));
}

#[test]
fn on_cpu_there_is_no_event_and_two_collectives_have_no_kernel() {
    let world = world(2, Device::Cpu, EventRelease::NeverErased);
    let tensors = each(&world, 2);
    let handles = world.all_reduce(&tensors, ReduceOp::Sum).unwrap();
    handles.iter().for_each(CommHandle::wait);
    drop(handles);
    assert_eq!(world.ranks()[0].live(Kind::Event), 0);
    assert_eq!(values(&tensors), [[3.0, 30.0], [3.0, 30.0]]);
    let error = world.all_gather_into_tensor(&tensors, &tensors);
    let message = error.unwrap_err().to_string();
    assert_eq!(
        message,
        "The kernel DistCommAllGatherIntoTensor unregistered."
    );
    let error = world.all_reduce_primitive(&tensors, ReduceOp::Max);
    assert!(matches!(error, Err(Error::ReduceOnCpu)));
}

/// Ten collectives with `wait` applied to each; the runtime afterwards.
fn ten(event_release: EventRelease, wait: impl Fn(&CommHandle)) -> Runtime {
    let world = world(1, Device::Ascend, event_release);
    let tensors = each(&world, 2);
    for _ in 0..10 {
        for handle in world.all_reduce(&tensors, ReduceOp::Sum).unwrap() {
            wait(&handle);
        }
    }
    world.ranks()[0].clone()
}

fn hazards(runtime: &Runtime) -> [u64; 5] {
    [
        Tally::DestroyedBeforeWait,
        Tally::DestroyedBeforeCompletion,
        Tally::ReusedBeforeCompletion,
        Tally::DestroyedTwice,
        Tally::WaitedAfterDestroy,
    ]
    .map(|tally| runtime.census().tally(tally))
}

#[test]
fn a_handle_that_destroys_its_event_itself_leaves_the_registry_entry() {
    let runtime = ten(EventRelease::NeverErased, CommHandle::wait);
    runtime.synchronize();
    assert_eq!(
        (runtime.device_events(), runtime.live(Kind::Event)),
        (10, 10)
    );
    assert_eq!(
        runtime.census().counts(Kind::DeviceEvents).live_bytes,
        16 * 16
    );
}

#[test]
fn a_manager_that_is_asked_erases_at_once_which_is_safe_in_one_sense_only() {
    let runtime = ten(EventRelease::ErasedByManager, CommHandle::wait);
    assert_eq!((runtime.device_events(), runtime.live(Kind::Event)), (0, 0));
    assert_eq!(hazards(&runtime), [0, 10, 0, 0, 0]);
    let runtime = ten(EventRelease::ErasedByManager, |_| ());
    assert_eq!(hazards(&runtime), [10, 10, 0, 0, 0]);
}

#[test]
fn destroying_at_the_first_wait_breaks_a_second_stream() {
    let runtime = ten(EventRelease::OnWait, CommHandle::wait);
    assert_eq!(hazards(&runtime), [0, 10, 0, 0, 0]);
    let runtime = ten(EventRelease::OnWait, |handle| {
        handle.wait();
        handle.wait_on(StreamId::COPY);
    });
    assert_eq!(hazards(&runtime), [0, 10, 0, 0, 10]);
}

#[test]
fn events_that_end_when_their_work_is_done_are_safe_in_both_senses() {
    let fixes = [EventRelease::OnCompletion, EventRelease::Pooled { cap: 4 }];
    let waits: [fn(&CommHandle); 3] = [
        |_| (),
        CommHandle::wait,
        |handle| {
            handle.wait();
            handle.wait_on(StreamId::COPY);
        },
    ];
    for release in fixes {
        for wait in waits {
            let runtime = ten(release, wait);
            runtime.synchronize();
            assert_eq!(hazards(&runtime), [0; 5], "{release:?}");
            assert!(runtime.device_events() <= 4, "{release:?}");
        }
    }
}

#[test]
fn a_pool_that_does_not_ask_records_an_event_whose_work_still_runs() {
    let world = world(1, Device::Ascend, EventRelease::PooledUnchecked { cap: 4 }).with_ticks(100);
    let tensors = each(&world, 2);
    for _ in 0..10 {
        drop(world.all_reduce(&tensors, ReduceOp::Sum).unwrap());
    }
    assert_eq!(hazards(&world.ranks()[0]), [0, 0, 9, 0, 0]);
}

#[test]
fn a_second_wait_on_the_same_stream_is_skipped() {
    let world = world(1, Device::Ascend, EventRelease::OnWait);
    let tensors = each(&world, 2);
    let handles = world.all_reduce(&tensors, ReduceOp::Sum).unwrap();
    handles[0].wait();
    handles[0].wait();
    assert_eq!(hazards(&world.ranks()[0])[4], 0);
}

#[test]
fn dead_entries_make_every_later_search_longer() {
    let world = world(1, Device::Ascend, EventRelease::NeverErased);
    let (tensors, runtime) = (each(&world, 2), world.ranks()[0].clone());
    for _ in 0..100 {
        drop(world.all_reduce(&tensors, ReduceOp::Sum).unwrap());
        // An event of the caller's own, which the manager does erase.
        runtime.use_event();
    }
    // Each search passes the dead entries before it: 2 + 3 + ... + 101.
    assert_eq!(
        runtime.census().tally(Tally::RegistryScanned),
        100 * 103 / 2
    );
    assert_eq!(runtime.device_events(), 100);
}

#[test]
fn a_shutdown_destroys_dead_events_a_second_time() {
    let runtime = ten(EventRelease::NeverErased, CommHandle::wait);
    runtime.synchronize();
    runtime.destroy_all_events();
    assert_eq!(runtime.census().tally(Tally::DestroyedTwice), 10);
    assert_eq!((runtime.device_events(), runtime.live(Kind::Event)), (0, 0));
    let runtime = ten(EventRelease::Pooled { cap: 4 }, CommHandle::wait);
    runtime.synchronize();
    runtime.destroy_all_events();
    assert_eq!(hazards(&runtime), [0; 5]);
    assert_eq!(runtime.live(Kind::Event), 0);
}
