//! Bytes of every arm, exactly. One test, its own process and allocator.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use jemallocator::Jemalloc;
use mockspore::Runtime;
use mockspore::census::Kind;
use mockspore_growth::probe::jemalloc::{Heap, nallocx};
use repros::mock::Setting;
use repros::registry::Entry;
use repros::runner::Request;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

const STEPS: u64 = 100;
const HOOKS: u64 = 182;
/// Hooks dropped in a run of `STEPS` steps.
const N: u64 = STEPS * HOOKS;

struct Kept {
    net: i64,
    entries: u64,
    control_blocks: u64,
    /// Net bytes after `clear_res`.
    cleared: i64,
}

/// Runs an arm; what it keeps, and that nothing is left when all is dropped.
fn run(arm: &str) -> Kept {
    let entry = Entry::find("hook_handle").unwrap();
    let scenario = entry.scenario(None).unwrap();
    let request = Request::arm(&scenario, scenario.arm(arm).unwrap(), &[]).unwrap();
    let heap = Heap::open().unwrap();
    let birth = heap.thread_net();
    let runtime = Runtime::new(request.policies, request.device);
    let setting = Setting::new(&runtime, &request.knobs, 1);
    let mut mock = entry.build(&setting).unwrap();
    let base = heap.thread_net();
    for _ in 0..STEPS {
        mock.step().unwrap();
    }
    let net = heap.thread_net() - base;
    let (entries, control_blocks) = (
        runtime.live(Kind::HookEntry),
        runtime.live(Kind::ControlBlock),
    );
    runtime.clear_res();
    let cleared = heap.thread_net() - base;
    assert_eq!(runtime.hook_entries(), 0);
    drop(mock);
    assert_eq!(
        runtime.census().live_total(),
        runtime.live(Kind::HookBuckets)
    );
    drop(setting);
    drop(runtime);
    assert_eq!(
        heap.thread_net(),
        birth,
        "{arm}: bytes are left after the Runtime is gone"
    );
    Kept {
        net,
        entries,
        control_blocks,
        cleared,
    }
}

fn check(arm: &str, entries: u64, control_blocks: u64, net: u64, array: u64) {
    let kept = run(arm);
    assert_eq!(
        (kept.entries, kept.control_blocks),
        (entries, control_blocks),
        "{arm}"
    );
    assert_eq!(kept.net, net as i64, "{arm}");
    assert_eq!(
        kept.cleared, array as i64,
        "{arm}: clear_res returns all but the bucket array"
    );
}

#[test]
fn every_arm_keeps_exactly_the_bytes_it_declares() {
    // 18,200 entries are past 10,273 buckets and within 20,753.
    let grown = nallocx(8 * 20_753);
    // 182 entries at once are within 257 buckets.
    let peak = nallocx(8 * 257);
    check("none", 0, 0, 0, 0);
    check("dropped", N, N, 64 * N + grown, grown);
    check("removed", 0, 0, peak, peak);
    check("removed_in_callback", 0, 0, peak, peak);
    check("erased_with_node", 0, 0, peak, peak);
    check(
        "one_tensor_dropped",
        N,
        STEPS,
        32 * N + 32 * STEPS + grown,
        grown,
    );
    check("leaf_dropped", N, 0, (32 + 256) * N + grown, grown);
    check("leaf_removed", 0, 0, peak, peak);
}
