//! The first of the two books: how many modelled blocks of each kind are alive.
//!
//! ```text
//! Runtime ── hook_id_node_map_ ── HookEntry ─weak─▶ ControlBlock or LeafBlock
//!                └─ HookBuckets                         │ (while used)
//! Tensor ── meta ── shared ─▶ ControlBlock ─▶ OpNode ─▶ Edges ─shared─▶ …
//!   └─ Storage ◀── saved by ── BackwardFn ◀──┘  └─▶ HookList ─▶ HookFn
//! Runtime ── node_abs_cache_ ── AbstractEntry ─▶ AbstractKey, Abstract
//! Runtime ── ready_run_top_cell_ ── TopCell ─▶ TopCellOutputs ─▶ Tensor …
//! Runtime ── memory pool ── MemBuf ─▶ MemBufEntry, PoolBlock
//! Runtime ── resource manager ── DeviceEvents ─▶ Event ◀── CommHandle
//! ```
//!
//! The second book is the allocator's. Both must agree to the byte:
//! `sum(count x nallocx(size))` over [`Census::for_each_size`] equals what the
//! thread has allocated and not freed since the Runtime was born.

mod kind;
mod tally;

use std::cell::{Cell, RefCell};

pub use kind::Kind;
pub use tally::Tally;

/// Blocks of one kind since the Runtime's birth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Blocks made.
    pub created: u64,
    /// Blocks freed.
    pub dropped: u64,
    /// Requested bytes of the blocks alive.
    pub live_bytes: u64,
}

impl Counts {
    /// Blocks alive.
    pub fn live(self) -> u64 {
        self.created - self.dropped
    }
}

/// Sizes below this are counted in a direct-indexed table.
const SMALL: usize = 1024;
/// Room for so many distinct large sizes before the table itself would grow.
const LARGE_ROOM: usize = 256;

/// [`Counts`] in the making.
#[derive(Debug, Default)]
struct KindCells {
    created: Cell<u64>,
    dropped: Cell<u64>,
    live_bytes: Cell<u64>,
}

impl KindCells {
    fn read(&self) -> Counts {
        Counts {
            created: self.created.get(),
            dropped: self.dropped.get(),
            live_bytes: self.live_bytes.get(),
        }
    }
}

fn bump(count: &Cell<u64>, by: u64) {
    count.set(count.get() + by);
}

/// Counts of live blocks by kind and by requested size in bytes.
#[derive(Debug)]
pub struct Census {
    kinds: [KindCells; Kind::ALL.len()],
    tallies: [Cell<u64>; Tally::ALL.len()],
    small: [Cell<u64>; SMALL],
    large: RefCell<Vec<(usize, u64)>>,
}

impl Census {
    pub(crate) fn new() -> Self {
        Self {
            kinds: std::array::from_fn(|_| KindCells::default()),
            tallies: Default::default(),
            small: [const { Cell::new(0) }; SMALL],
            large: RefCell::new(Vec::with_capacity(LARGE_ROOM)),
        }
    }

    /// Notes a block of `size` requested bytes; no block is made for 0 bytes.
    #[inline]
    pub(crate) fn created(&self, kind: Kind, size: usize) {
        if size == 0 {
            return;
        }
        let counts = &self.kinds[kind as usize];
        bump(&counts.created, 1);
        bump(&counts.live_bytes, size as u64);
        match self.small.get(size) {
            Some(live) => bump(live, 1),
            None => self.at_large_size(size, |live| live + 1),
        }
    }

    /// Notes that a block of `size` requested bytes is freed.
    #[inline]
    pub(crate) fn dropped(&self, kind: Kind, size: usize) {
        if size == 0 {
            return;
        }
        let counts = &self.kinds[kind as usize];
        bump(&counts.dropped, 1);
        counts.live_bytes.set(counts.live_bytes.get() - size as u64);
        match self.small.get(size) {
            Some(live) => live.set(live.get() - 1),
            None => self.at_large_size(size, |live| live - 1),
        }
    }

    /// Notes that something happened `times` times.
    pub(crate) fn happened(&self, tally: Tally, times: u64) {
        bump(&self.tallies[tally as usize], times);
    }

    /// How often something happened.
    pub fn tally(&self, tally: Tally) -> u64 {
        self.tallies[tally as usize].get()
    }

    /// The counts of one kind.
    pub fn counts(&self, kind: Kind) -> Counts {
        self.kinds[kind as usize].read()
    }

    /// Blocks of one kind that are alive.
    pub fn live(&self, kind: Kind) -> u64 {
        self.counts(kind).live()
    }

    /// Blocks of all kinds that are alive.
    pub fn live_total(&self) -> u64 {
        Kind::ALL.iter().map(|&kind| self.live(kind)).sum()
    }

    /// Calls `visit(requested size, live blocks)` for each size that is alive.
    /// Allocates nothing.
    pub fn for_each_size(&self, mut visit: impl FnMut(usize, u64)) {
        for (size, live) in self.small.iter().enumerate() {
            if live.get() > 0 {
                visit(size, live.get());
            }
        }
        for &(size, live) in self.large.borrow().iter() {
            visit(size, live);
        }
    }

    #[cold]
    fn at_large_size(&self, size: usize, change: impl Fn(u64) -> u64) {
        let mut large = self.large.borrow_mut();
        match large.iter().position(|&(known, _)| known == size) {
            Some(at) => {
                large[at].1 = change(large[at].1);
                if large[at].1 == 0 {
                    large.swap_remove(at);
                }
            }
            None => large.push((size, change(0))),
        }
    }
}
