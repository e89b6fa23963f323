//! Random programs: the census explains every byte after every operation.
//! One test drives proptest's runner, in its own process with its own allocator.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use jemallocator::Jemalloc;
use mockspore::Runtime;
use mockspore_growth::probe::jemalloc::{Heap, nallocx};
use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError, TestRunner};

#[allow(dead_code, reason = "its other users call the rest")]
#[path = "../../crates/mockspore/tests/program/mod.rs"]
mod program;

use program::{World, all_policies, programs};

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn attributed(runtime: &Runtime) -> i64 {
    let mut bytes = 0;
    runtime
        .census()
        .for_each_size(|size, live| bytes += (nallocx(size) * live) as i64);
    bytes
}

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
                if net != attributed(&world.runtime) {
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
