//! Groups whose ranks call one after the other: values, mismatches, hangs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use mockspore::{Device, Error, Policies, ReduceOp, Runtime, Tensor, World};

fn world() -> (World, [Tensor; 2]) {
    let runtimes = [0, 1].map(|_| Runtime::new(Policies::fixed(), Device::Ascend));
    let tensor = |rank: usize| {
        runtimes[rank]
            .tensor(&[1.0 + rank as f32; 2], &[2])
            .unwrap()
    };
    (World::new(&runtimes), [tensor(0), tensor(1)])
}

#[test]
fn a_reduction_is_written_when_the_last_member_calls() {
    let (world, [first, second]) = world();
    let group = world.group(&[0, 1]).unwrap();
    drop(group.all_reduce(0, &first, ReduceOp::Sum).unwrap());
    assert_eq!(first.to_vec(), [1.0, 1.0]);
    let hang = group.hang();
    assert!(matches!(
        hang,
        Some(Error::WouldHang {
            rank: 1,
            call: 1,
            ..
        })
    ));
    drop(group.all_reduce(1, &second, ReduceOp::Sum).unwrap());
    assert_eq!(
        (first.to_vec(), second.to_vec()),
        (vec![3.0; 2], vec![3.0; 2])
    );
    assert!(group.hang().is_none());
}

#[test]
fn another_call_in_the_same_place_is_an_error_that_names_the_rank() {
    let (world, [first, second]) = world();
    let group = world.group(&[0, 1]).unwrap();
    drop(group.all_reduce(0, &first, ReduceOp::Sum).unwrap());
    let other = group.all_reduce(1, &second, ReduceOp::Max);
    assert!(matches!(
        other,
        Err(Error::CollectiveMismatch {
            rank: 1,
            call: 1,
            ..
        })
    ));
}

#[test]
fn ranks_that_take_two_groups_in_different_orders_wait_for_each_other() {
    let (world, [first, second]) = world();
    let groups = [0, 1].map(|_| world.group(&[0, 1]).unwrap());
    for (member, tensor) in [(0, &first), (1, &second)] {
        for index in [member, 1 - member] {
            drop(
                groups[index]
                    .all_reduce(member, tensor, ReduceOp::Sum)
                    .unwrap(),
            );
        }
    }
    assert!(groups.iter().all(|group| group.hang().is_some()));
    assert!(world.group(&[0, 2]).is_none());
}
