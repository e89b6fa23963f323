//! `std::vector` as a block of memory: capacities 1, 2, 4, 8, …, never back.

use std::cell::RefCell;
use std::mem::size_of;

use crate::census::{Census, Kind};

/// A vector whose array is counted in the census. What it holds is taken out by
/// the owner, and the array freed with [`CountedVec::free`].
pub(crate) struct CountedVec<T> {
    items: RefCell<Vec<T>>,
    kind: Kind,
}

impl<T> CountedVec<T> {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            items: RefCell::new(Vec::new()),
            kind,
        }
    }

    pub(crate) fn push(&self, census: &Census, item: T) {
        let mut items = self.items.borrow_mut();
        let old = items.capacity();
        if items.len() == old {
            // Exact: the modelled array doubles, and a Vec starts with four.
            let room = old.max(1);
            items.reserve_exact(room);
            census.created(self.kind, items.capacity() * size_of::<T>());
            census.dropped(self.kind, old * size_of::<T>());
        }
        items.push(item);
    }

    pub(crate) fn len(&self) -> usize {
        self.items.borrow().len()
    }

    /// The place of the first item that `is`, searched from the front.
    pub(crate) fn position(&self, is: impl FnMut(&T) -> bool) -> Option<usize> {
        self.items.borrow().iter().position(is)
    }

    /// Takes the item at `place` out; those behind it move up.
    pub(crate) fn remove(&self, place: usize) -> T {
        self.items.borrow_mut().remove(place)
    }

    /// Frees the array of a vector that is going away, with what it holds.
    pub(crate) fn free(&self, census: &Census) {
        let items = self.items.take();
        census.dropped(self.kind, items.capacity() * size_of::<T>());
        drop(items);
    }
}

/// Slots of a vector that has held at most `items` at once.
pub fn capacity(items: u64) -> u64 {
    match items {
        0 => 0,
        _ => items.next_power_of_two(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_array_doubles_and_never_shrinks() {
        let census = Census::new();
        let vector = CountedVec::new(Kind::DeviceEvents);
        for items in 1..=100_u64 {
            vector.push(&census, [items; 2]);
            let bytes = census.counts(Kind::DeviceEvents).live_bytes;
            assert_eq!(bytes, 16 * capacity(items));
        }
        while vector.len() > 0 {
            vector.remove(0);
        }
        assert_eq!(census.counts(Kind::DeviceEvents).live_bytes, 16 * 128);
        vector.free(&census);
        assert_eq!(census.live(Kind::DeviceEvents), 0);
    }
}
