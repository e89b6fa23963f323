//! Random collectives: the census explains every byte of both ranks, and none
//! is left after them. One test, its own process and allocator.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use jemallocator::Jemalloc;
use mockspore_growth::probe::jemalloc::{Heap, nallocx};
use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError, TestRunner};

#[allow(dead_code, reason = "its other users call the rest")]
#[path = "../../crates/mockspore/tests/collectives/mod.rs"]
mod collectives;

use collectives::{ALL, Bench, programs};

mod common;

use common::attributed;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

#[test]
fn no_byte_of_a_rank_is_unattributed_and_none_is_left_after_them() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../proptest-regressions/repros/heap_collectives.txt"
    );
    let mut runner = TestRunner::new(Config {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file))),
        ..Config::with_cases(128)
    });
    let heap = Heap::open().unwrap();
    let outcome = runner.run(&programs(), |program| {
        for release in ALL {
            let birth = heap.thread_net();
            let mut bench = Bench::new(release);
            let own = heap.thread_net() - birth - attributed(bench.ranks());
            for &op in &program {
                bench.apply(op);
                // The caller's list of handles, one for each collective.
                let lists = bench.live() as i64 * nallocx(Bench::handle_list_bytes()) as i64;
                let unattributed =
                    heap.thread_net() - birth - own - lists - attributed(bench.ranks());
                if unattributed != 0 {
                    let text = format!("{release:?} {op:?}: {unattributed} B");
                    return Err(TestCaseError::fail(text));
                }
            }
            drop(bench);
            if heap.thread_net() != birth {
                return Err(TestCaseError::fail(format!("{release:?}: bytes are left")));
            }
        }
        Ok(())
    });
    outcome.unwrap();
}
