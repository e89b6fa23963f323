//! Random programs over functions, recompute, caches, arguments and forwards:
//! the census explains every byte. One test, its own process and allocator.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use jemallocator::Jemalloc;
use mockspore::{OutputOwner, Policies};
use mockspore_growth::probe::jemalloc::{Heap, nallocx};
use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError, TestRunner};

#[allow(dead_code, reason = "its other users call the rest")]
#[path = "../../crates/mockspore/tests/lifetimes/mod.rs"]
mod lifetimes;

use lifetimes::{World, all_policies, programs};

mod common;

use common::attributed;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Whether what is lost holds the runtime: an abandoned tensor does.
fn outlives(policies: &Policies, world: &World) -> bool {
    policies.output_owner == OutputOwner::RawPointer && world.account.abandoned > 0
}

#[test]
fn no_byte_is_unattributed_and_what_is_lost_is_all_that_is_left() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../proptest-regressions/repros/heap_lifetimes.txt"
    );
    let mut runner = TestRunner::new(Config {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file))),
        ..Config::with_cases(128)
    });
    let heap = Heap::open().unwrap();
    let outcome = runner.run(&programs(), |program| {
        for policies in all_policies() {
            let birth = heap.thread_net();
            let mut world = World::new(policies);
            // What the caller holds besides the runtime is there from the start.
            let own = heap.thread_net() - birth - attributed(std::slice::from_ref(&world.runtime));
            for &op in &program {
                world.apply(op);
                let unattributed = heap.thread_net()
                    - birth
                    - own
                    - attributed(std::slice::from_ref(&world.runtime));
                if unattributed != 0 {
                    let text = format!("{policies:?} {op:?}: {unattributed} B");
                    return Err(TestCaseError::fail(text));
                }
            }
            world.runtime.clear_res();
            if outlives(&policies, &world) {
                continue;
            }
            let lost: u64 = world.lost.iter().map(|&size| nallocx(size)).sum();
            drop(world);
            let left = heap.thread_net() - birth;
            if left != lost as i64 {
                let text = format!("{policies:?}: {left} B are left, not {lost}");
                return Err(TestCaseError::fail(text));
            }
        }
        Ok(())
    });
    outcome.unwrap();
}
