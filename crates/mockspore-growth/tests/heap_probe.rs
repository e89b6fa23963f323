//! The jemalloc probe is exact and allocates nothing itself.

use std::hint::black_box;

use jemallocator::Jemalloc;
use mockspore_growth::Counters;
use mockspore_growth::probe::jemalloc::{Heap, nallocx};
use mockspore_growth::probe::process;
use mockspore_growth::protocol::{Grid, Recorder, THREAD_NET, UNATTRIBUTED};

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// One arena and no background thread: with them `stats.*` is exact after a
/// flush of the thread cache. A reference to bytes has the pointer's shape.
#[allow(unsafe_code, reason = "jemalloc reads its options from this symbol")]
#[unsafe(export_name = "_rjem_malloc_conf")]
static MALLOC_CONF: &[u8; 34] = b"narenas:1,background_thread:false\0";

#[allow(clippy::vec_box, reason = "each block is to be seen on its own")]
struct Boxes(Vec<Box<[u8; 64]>>);

impl Counters for Boxes {
    fn live(&self, kind: &str) -> Option<u64> {
        (kind == "box").then_some(self.0.len() as u64)
    }

    fn live_bytes(&self, kind: &str) -> Option<u64> {
        self.live(kind).map(|live| 64 * live)
    }

    fn for_each_size(&self, visit: &mut dyn FnMut(usize, u64)) {
        visit(64, self.0.len() as u64);
    }
}

#[test]
fn every_byte_is_seen_and_none_is_the_probes_own() {
    let heap = Heap::open().expect("jemalloc is the allocator here");
    let before = heap.thread_net();
    let boxes: Vec<Box<[u8; 64]>> = (0..1000).map(|_| Box::new([0; 64])).collect();
    assert_eq!(
        heap.thread_net() - before,
        64_000 + nallocx(8 * 1000) as i64
    );
    let stats = heap.stats().expect("statistics are built in");
    assert!(stats.active >= stats.allocated && stats.resident >= stats.active);
    drop(black_box(boxes));
    assert_eq!(heap.thread_net(), before);
    let after = heap.stats().expect("statistics are built in");
    assert_eq!(
        stats.allocated - after.allocated,
        64_000 + nallocx(8 * 1000)
    );

    // Reading this process from /proc allocates nothing, not even for a moment.
    let gross = heap.allocated();
    let memory = process::own().expect("this is Linux");
    assert!(memory.rss >= memory.anon && memory.anon > 0);
    assert_eq!(heap.allocated(), gross);

    // Nor does a recorder, once it is made; what is not counted is told apart.
    let mut held = Boxes(Vec::with_capacity(100));
    let mut uncounted: Vec<Box<[u8; 48]>> = Vec::with_capacity(100);
    let mut recorder = Recorder::new(
        vec!["box".to_owned()],
        Some(Heap::open().expect("as before")),
        Grid::new(10, 10),
    );
    recorder.base(&held);
    for step in 1..=10 {
        held.0.push(Box::new([0; 64]));
        uncounted.push(Box::new([0; 48]));
        let gross = heap.allocated();
        recorder.after(step, &held).expect("the counter exists");
        assert_eq!(heap.allocated(), gross);
    }
    let series = recorder.into_series().expect("the grid is whole");
    let last = |metric: &str| {
        series
            .iter()
            .find(|one| one.metric() == metric)
            .and_then(|one| one.values().last().copied())
    };
    assert_eq!(last("objects.box"), Some(10.0));
    assert_eq!(last(THREAD_NET), Some(1120.0));
    assert_eq!(last(UNATTRIBUTED), Some(480.0));
    drop(black_box(uncounted));
}
