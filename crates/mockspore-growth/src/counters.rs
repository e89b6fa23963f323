//! The book that a runtime keeps of its own objects.

/// Exact counts of live objects, read without allocating.
pub trait Counters {
    /// Live objects of one kind; `None` if there is no such kind.
    fn live(&self, kind: &str) -> Option<u64>;

    /// Requested bytes of the live objects of one kind.
    fn live_bytes(&self, kind: &str) -> Option<u64>;

    /// Calls `visit(requested size in bytes, live blocks)` for every size.
    fn for_each_size(&self, visit: &mut dyn FnMut(usize, u64));
}
