//! The first of the two books: how many modelled blocks of each kind are alive.
//!
//! ```text
//! Runtime ── hook_id_node_map_ ── HookEntry ─weak─▶ ControlBlock or LeafBlock
//!                └─ HookBuckets                         │ (while used)
//! Tensor ── meta ── shared ─▶ ControlBlock ─▶ OpNode ─▶ Edges ─shared─▶ …
//!   └─ Storage ◀── saved by ── BackwardFn ◀──┘  └─▶ HookList ─▶ HookFn
//! ```
//!
//! The second book is the allocator's. Both must agree to the byte:
//! `sum(count x nallocx(size))` over [`Census::for_each_size`] equals what the
//! thread has allocated and not freed since the Runtime was born.

use std::cell::{Cell, RefCell};

/// What a counted heap block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A node of `hook_id_node_map_`: next, key, fat weak pointer.
    HookEntry,
    /// The bucket array of `hook_id_node_map_`; it never shrinks.
    HookBuckets,
    /// The control block of an operator node; weak pointers outlive the node.
    ControlBlock,
    /// A leaf node and its control block in one piece (`make_shared`).
    LeafBlock,
    /// An operator node (`FuncBackwardNode`).
    OpNode,
    /// The next edges of an operator node.
    Edges,
    /// The backward function of a node with its saved values.
    BackwardFn,
    /// The array of hooks on a node.
    HookList,
    /// A hook: the callable that a node holds.
    HookFn,
    /// The ctx of a custom function.
    FunctionCtx,
    /// A `needs_input_grad` tuple: 40 bytes and 8 for each input.
    NeedsInputGrad,
    /// What a ctx saves for its backward.
    SavedTensors,
    /// A tensor with its autograd meta.
    Tensor,
    /// The values of a tensor, shared by views and saved copies.
    Storage,
}

impl Kind {
    /// All kinds, in declaration order.
    pub const ALL: [Self; 14] = [
        Self::HookEntry,
        Self::HookBuckets,
        Self::ControlBlock,
        Self::LeafBlock,
        Self::OpNode,
        Self::Edges,
        Self::BackwardFn,
        Self::HookList,
        Self::HookFn,
        Self::FunctionCtx,
        Self::NeedsInputGrad,
        Self::SavedTensors,
        Self::Tensor,
        Self::Storage,
    ];

    /// The name in results and scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Self::HookEntry => "hook_entry",
            Self::HookBuckets => "hook_buckets",
            Self::ControlBlock => "control_block",
            Self::LeafBlock => "leaf_block",
            Self::OpNode => "op_node",
            Self::Edges => "edges",
            Self::BackwardFn => "backward_fn",
            Self::HookList => "hook_list",
            Self::HookFn => "hook_fn",
            Self::FunctionCtx => "function_ctx",
            Self::NeedsInputGrad => "needs_input_grad",
            Self::SavedTensors => "saved_tensors",
            Self::Tensor => "tensor",
            Self::Storage => "storage",
        }
    }

    /// Who holds such a block, and what releases it.
    pub fn held_by(self) -> &'static str {
        match self {
            Self::HookEntry => "the runtime's hook_id_node_map_, until remove(id) or clear_res()",
            Self::HookBuckets => "the runtime's hook_id_node_map_, until the runtime dies",
            Self::ControlBlock => "its node's users, then the hook entries that point at it weakly",
            Self::LeafBlock => "its tensor and next edges, then the hook entries that pin it whole",
            Self::OpNode => "the tensor it made and the edges of later nodes",
            Self::Edges => "their node, until it dies (a backward does not release them)",
            Self::BackwardFn => "its node, until its first backward without keep_graph",
            Self::HookList | Self::HookFn => "the node it is registered on",
            Self::FunctionCtx => "the backward function of its node, until the first backward",
            Self::NeedsInputGrad => "its ctx; after the ctx's death nobody",
            Self::SavedTensors => "its ctx",
            Self::Tensor => "its caller",
            Self::Storage => "tensors and saved values",
        }
    }
}

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

/// Counts of live blocks by kind and by requested size in bytes.
#[derive(Debug)]
pub struct Census {
    kinds: [Cell<Counts>; Kind::ALL.len()],
    small: Box<[Cell<u64>]>,
    large: RefCell<Vec<(usize, u64)>>,
}

impl Census {
    pub(crate) fn new() -> Self {
        Self {
            kinds: Default::default(),
            small: vec![Cell::new(0); SMALL].into_boxed_slice(),
            large: RefCell::new(Vec::with_capacity(LARGE_ROOM)),
        }
    }

    /// Notes a block of `size` requested bytes; no block is made for 0 bytes.
    pub(crate) fn created(&self, kind: Kind, size: usize) {
        if size == 0 {
            return;
        }
        let cell = &self.kinds[kind as usize];
        let mut counts = cell.get();
        counts.created += 1;
        counts.live_bytes += size as u64;
        cell.set(counts);
        self.at_size(size, |live| live + 1);
    }

    /// Notes that a block of `size` requested bytes is freed.
    pub(crate) fn dropped(&self, kind: Kind, size: usize) {
        if size == 0 {
            return;
        }
        let cell = &self.kinds[kind as usize];
        let mut counts = cell.get();
        counts.dropped += 1;
        counts.live_bytes -= size as u64;
        cell.set(counts);
        self.at_size(size, |live| live - 1);
    }

    /// The counts of one kind.
    pub fn counts(&self, kind: Kind) -> Counts {
        self.kinds[kind as usize].get()
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

    fn at_size(&self, size: usize, change: impl Fn(u64) -> u64) {
        if let Some(live) = self.small.get(size) {
            live.set(change(live.get()));
            return;
        }
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
