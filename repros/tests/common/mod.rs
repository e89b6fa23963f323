//! What the byte tests share.

use mockspore::Runtime;
use mockspore_growth::Counters;
use mockspore_growth::probe::jemalloc::nallocx;
use repros::CensusCounters;

/// Bytes that the allocator spends on the blocks that the censuses count.
pub(crate) fn attributed(runtimes: &[Runtime]) -> i64 {
    let mut bytes = 0;
    CensusCounters(runtimes)
        .for_each_size(&mut |size, live| bytes += (nallocx(size) * live) as i64);
    bytes
}
