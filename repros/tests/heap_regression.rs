//! Step 1,000 of a whole training step, to the byte. One test, its own process
//! and allocator.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use jemallocator::Jemalloc;
use mockspore::{Device, Policies, Runtime, Version};
use mockspore_growth::probe::jemalloc::Heap;
use repros::mock::Setting;
use repros::registry::Entry;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// The thread's net bytes after 100 and after 1,000 steps of two ranks.
fn net_bytes(policies: Policies) -> [i64; 2] {
    let heap = Heap::open().unwrap();
    let entry = Entry::find("hsdp_step").unwrap();
    let scenario = entry.scenario(None).unwrap();
    let knobs = scenario.knobs(&scenario.arms[0], &[]).unwrap();
    let runtime = Runtime::new(policies, Device::Ascend);
    let setting = Setting::new(&runtime, &knobs, 1).with_ranks(2);
    let mut mock = entry.build(&setting).unwrap();
    let mut after = |steps| {
        for _ in 0..steps {
            mock.step().unwrap();
        }
        heap.thread_net()
    };
    [after(100), after(900)]
}

#[test]
fn a_thousand_fixed_steps_end_with_the_bytes_of_a_hundred() {
    let [early, late] = net_bytes(Policies::fixed());
    assert_eq!(early, late);
    let [early, late] = net_bytes(Policies::mindspore(Version::V2_10_0));
    assert!(late > early);
}
