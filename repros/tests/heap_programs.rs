//! Random programs: the census explains every byte after every operation.
//! One test drives proptest's runner, in its own process with its own allocator.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use jemallocator::Jemalloc;
use mockspore_growth::probe::jemalloc::Heap;
use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError, TestRunner};

#[allow(dead_code, reason = "its other users call the rest")]
#[path = "../../crates/mockspore/tests/program/mod.rs"]
mod program;

use program::{World, all_policies, programs};

mod common;

use common::attributed;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

#[test]
fn no_byte_is_unattributed_and_none_is_left_after_the_runtime() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../proptest-regressions/repros/heap_programs.txt"
    );
    let mut runner = TestRunner::new(Config {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file))),
        ..Config::with_cases(256)
    });
    let heap = Heap::open().unwrap();
    let outcome = runner.run(&programs(), |program| {
        for policies in all_policies() {
            let birth = heap.thread_net();
            let mut world = World::new(policies);
            let base = heap.thread_net();
            for &op in &program {
                world.apply(op);
                let net = heap.thread_net() - base;
                if net != attributed(std::slice::from_ref(&world.runtime)) {
                    let text = format!("{policies:?} {op:?}: {net} B net");
                    return Err(TestCaseError::fail(text));
                }
            }
            drop(world);
            if heap.thread_net() != birth {
                return Err(TestCaseError::fail(format!("{policies:?}: bytes are left")));
            }
        }
        Ok(())
    });
    outcome.unwrap();
}
