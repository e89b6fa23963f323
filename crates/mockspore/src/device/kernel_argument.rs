//! Kernel arguments that are no tensors, and the pool blocks they are put in.
//!
//! ```text
//! Runtime ─▶ memory pool ─in use─▶ MemBuf (80 B) ─▶ MemBuf …
//!                                    ├─▶ list entry  56 B
//!                                    └─▶ pool block  512 B, the argument
//! ```
//!
//! Each axis, flag or dtype of a CPU operator is uploaded into a block of its
//! own, which nobody returns. Models
//! `DeviceAddressUtils::CopyNoneTensorDataToDevice` and
//! `DynamicMemPoolBestFit`. Not modelled: the pool's free list, arguments
//! larger than a block. On Ascend no block is lost.

use std::cell::RefCell;
use std::mem::size_of;

use crate::census::{Census, Kind};
use crate::policy::{Device, KernelArgument};
use crate::runtime::Core;

/// Bytes of a pool block, the pool's unit.
const BLOCK_BYTES: usize = 512;
/// Bytes of a block's entry in the pool's list.
const ENTRY_BYTES: usize = 56;
/// Bytes of the pool's record that the mock has no use for.
const UNMODELLED_RECORD_BYTES: usize = 56;

struct MemBuf {
    next: Option<Box<Self>>,
    entry: Box<[u8; ENTRY_BYTES]>,
    block: Box<[u8; BLOCK_BYTES]>,
    _unmodelled: [u8; UNMODELLED_RECORD_BYTES],
}

/// The pool's blocks in use.
#[derive(Default)]
pub(crate) struct MemoryPool {
    in_use: RefCell<Option<Box<MemBuf>>>,
}

impl MemoryPool {
    /// Uploads `count` arguments for one kernel.
    pub(crate) fn upload(&self, core: &Core, count: usize) {
        // Where the loss has not been seen, the block comes back at once.
        let returned = core.policies.kernel_argument == KernelArgument::Returned
            || core.device == Device::Ascend;
        for _ in 0..count {
            let mut record = Box::new(MemBuf {
                next: None,
                entry: Box::new([0; ENTRY_BYTES]),
                block: Box::new([0; BLOCK_BYTES]),
                _unmodelled: [0; UNMODELLED_RECORD_BYTES],
            });
            count_blocks(&record, |kind, size| core.census.created(kind, size));
            if returned {
                count_blocks(&record, |kind, size| core.census.dropped(kind, size));
                continue;
            }
            let mut in_use = self.in_use.borrow_mut();
            record.next = in_use.take();
            *in_use = Some(record);
        }
    }

    /// Frees every block of a pool that is going away.
    pub(crate) fn free(&self, census: &Census) {
        let mut next = self.in_use.take();
        while let Some(mut record) = next {
            count_blocks(&record, |kind, size| census.dropped(kind, size));
            next = record.next.take();
        }
    }
}

fn count_blocks(record: &MemBuf, note: impl Fn(Kind, usize)) {
    note(Kind::MemBuf, size_of::<MemBuf>());
    note(Kind::MemBufEntry, size_of_val(&*record.entry));
    note(Kind::PoolBlock, size_of_val(&*record.block));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pools_record_of_a_block_is_80_bytes() {
        assert_eq!(size_of::<MemBuf>(), 80);
    }
}
