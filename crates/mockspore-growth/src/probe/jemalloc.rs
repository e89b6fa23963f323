//! jemalloc: this thread's exact net bytes, and the process-wide statistics.
//!
//! The thread counters are exact under any options. `stats.*` is exact only
//! after the thread cache is flushed and the epoch advanced.
#![allow(unsafe_code, reason = "mallctl and nallocx are C calls")]

use std::ffi::CStr;
use std::fmt;
use std::hint::black_box;
use std::ptr;

use jemalloc_ctl::thread::{ThreadLocal, allocatedp, deallocatedp};
use jemalloc_ctl::{epoch, stats};

use crate::error::Error;

/// Bytes that the self-test allocates.
const SELF_TEST_BYTES: usize = 4096;

/// Reads jemalloc, which must be this process's global allocator.
pub struct Heap {
    allocated: ThreadLocal<u64>,
    deallocated: ThreadLocal<u64>,
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Heap {{ thread_net: {} }}", self.thread_net())
    }
}

/// The process-wide statistics in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Bytes in live allocations.
    pub allocated: u64,
    /// Bytes in pages with live allocations.
    pub active: u64,
    /// Bytes of physical memory that the allocator holds.
    pub resident: u64,
}

impl Heap {
    /// Opens the probe and tests it: an allocation must move the counter.
    ///
    /// # Errors
    /// [`Error::Unreadable`] if the counters cannot be read, or if jemalloc is
    /// not the global allocator of this program.
    pub fn open() -> Result<Self, Error> {
        let heap = Self {
            allocated: allocatedp::read().map_err(unreadable("thread.allocatedp"))?,
            deallocated: deallocatedp::read().map_err(unreadable("thread.deallocatedp"))?,
        };
        let before = heap.thread_net();
        let block = black_box(Box::new([0_u8; SELF_TEST_BYTES]));
        let moved = heap.thread_net() - before;
        drop(block);
        if moved < SELF_TEST_BYTES as i64 {
            return Err(Error::Unreadable {
                probe: "jemalloc",
                why: format!(
                    "an allocation of {SELF_TEST_BYTES} bytes moved the thread counter by {moved}: \
                     jemalloc is not the global allocator here"
                ),
            });
        }
        Ok(heap)
    }

    /// Bytes this thread has allocated and nobody has freed on it.
    pub fn thread_net(&self) -> i64 {
        self.allocated.get().wrapping_sub(self.deallocated.get()) as i64
    }

    /// Bytes this thread has ever allocated.
    pub fn allocated(&self) -> u64 {
        self.allocated.get()
    }

    /// The statistics, after flushing this thread's cache and, so that
    /// `resident` means live pages, purging what is unused.
    ///
    /// # Errors
    /// [`Error::Unreadable`] if a control cannot be used.
    pub fn stats(&self) -> Result<Stats, Error> {
        call(c"thread.tcache.flush")?;
        // 4096 is MALLCTL_ARENAS_ALL.
        call(c"arena.4096.purge")?;
        epoch::advance().map_err(unreadable("epoch"))?;
        let bytes = |read: Result<usize, _>, name| read.map(|b| b as u64).map_err(unreadable(name));
        Ok(Stats {
            allocated: bytes(stats::allocated::read(), "stats.allocated")?,
            active: bytes(stats::active::read(), "stats.active")?,
            resident: bytes(stats::resident::read(), "stats.resident")?,
        })
    }
}

/// The bytes that jemalloc spends on a request of `size` bytes.
pub fn nallocx(size: usize) -> u64 {
    if size == 0 {
        return 0;
    }
    // SAFETY: a pure computation; size 0, which is undefined, is refused above.
    let bytes = unsafe { tikv_jemalloc_sys::nallocx(size, 0) };
    bytes as u64
}

/// A control that is called for its effect. A thread cache that is switched
/// off answers EFAULT to a flush, which is as good as flushed.
fn call(name: &'static CStr) -> Result<(), Error> {
    // SAFETY: the name is nul-terminated; no value is read or written.
    let code = unsafe {
        tikv_jemalloc_sys::mallctl(
            name.as_ptr(),
            ptr::null_mut(),
            ptr::null_mut(),
            ptr::null_mut(),
            0,
        )
    };
    if code == 0 || code == libc::EFAULT {
        return Ok(());
    }
    Err(Error::Unreadable {
        probe: "jemalloc",
        why: format!("{} returned {code}", name.to_string_lossy()),
    })
}

fn unreadable(probe: &'static str) -> impl Fn(jemalloc_ctl::Error) -> Error {
    move |error| Error::Unreadable {
        probe,
        why: error.to_string(),
    }
}
