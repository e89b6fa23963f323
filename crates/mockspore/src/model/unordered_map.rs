//! libstdc++'s `unordered_map<uint64, V>` as blocks of memory.
//!
//! ```text
//! buckets (8 B each, one array) ─▶ node {next, key, V} ─▶ node ─▶ …
//! ```
//!
//! Modelled: one heap node per entry, bucket counts from the prime table, a
//! rehash when an insert would pass load factor 1, an array that erasing and
//! clearing never shrink. Integer keys hash to themselves.
//! Not modelled: the single list through all nodes, which nobody iterates here.

use std::mem::size_of;

use crate::census::{Census, Kind};

/// Bucket counts that one insert at a time walks through.
const PRIMES: [usize; 28] = [
    13,
    29,
    59,
    127,
    257,
    541,
    1109,
    2357,
    5087,
    10_273,
    20_753,
    42_043,
    85_229,
    172_933,
    351_061,
    712_697,
    1_447_153,
    2_938_679,
    5_967_347,
    12_117_689,
    24_607_243,
    49_969_847,
    101_473_717,
    206_062_531,
    418_451_333,
    849_749_479,
    1_725_587_117,
    3_504_151_727,
];

struct Node<V> {
    next: Option<Box<Self>>,
    key: u64,
    value: V,
}

type Bucket<V> = Option<Box<Node<V>>>;

/// A map whose nodes and bucket array are counted in the census.
pub(crate) struct UnorderedMap<V> {
    buckets: Box<[Bucket<V>]>,
    len: usize,
    node_kind: Kind,
    array_kind: Kind,
}

impl<V> UnorderedMap<V> {
    pub(crate) fn new(node_kind: Kind, array_kind: Kind) -> Self {
        Self {
            buckets: Box::default(),
            len: 0,
            node_kind,
            array_kind,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds an entry under a key that is not in the map.
    pub(crate) fn insert(&mut self, census: &Census, key: u64, value: V) {
        if self.len == self.buckets.len() {
            self.rehash(census);
        }
        census.created(self.node_kind, size_of::<Node<V>>());
        let node = Box::new(Node {
            next: None,
            key,
            value,
        });
        self.link(node);
        self.len += 1;
    }

    /// Takes the entry of `key` out; its node is freed, the array stays.
    pub(crate) fn remove(&mut self, census: &Census, key: u64) -> Option<V> {
        if self.len == 0 {
            return None;
        }
        let at = self.bucket_of(key);
        let mut slot = &mut self.buckets[at];
        while slot.as_ref().is_some_and(|node| node.key != key) {
            slot = &mut slot.as_mut()?.next;
        }
        let node = slot.take()?;
        *slot = node.next;
        self.len -= 1;
        census.dropped(self.node_kind, size_of::<Node<V>>());
        Some(node.value)
    }

    /// Takes any one entry out, until the map is empty.
    pub(crate) fn pop(&mut self, census: &Census, from_bucket: &mut usize) -> Option<V> {
        while *from_bucket < self.buckets.len() {
            if let Some(key) = self.buckets[*from_bucket].as_ref().map(|node| node.key) {
                return self.remove(census, key);
            }
            *from_bucket += 1;
        }
        None
    }

    /// Frees the bucket array of a map that is going away.
    pub(crate) fn free_array(&mut self, census: &Census) {
        census.dropped(self.array_kind, size_of_val::<[Bucket<V>]>(&self.buckets));
        self.buckets = Box::default();
    }

    fn bucket_of(&self, key: u64) -> usize {
        (key % self.buckets.len() as u64) as usize
    }

    fn link(&mut self, mut node: Box<Node<V>>) {
        let at = self.bucket_of(node.key);
        node.next = self.buckets[at].take();
        self.buckets[at] = Some(node);
    }

    fn rehash(&mut self, census: &Census) {
        let count = next_bucket_count(self.buckets.len());
        let fresh: Box<[Bucket<V>]> = std::iter::repeat_with(|| None).take(count).collect();
        census.created(self.array_kind, size_of_val::<[Bucket<V>]>(&fresh));
        let mut old = std::mem::replace(&mut self.buckets, fresh);
        for bucket in &mut old {
            let mut chain = bucket.take();
            while let Some(mut node) = chain {
                chain = node.next.take();
                self.link(node);
            }
        }
        census.dropped(self.array_kind, size_of_val::<[Bucket<V>]>(&old));
    }
}

/// Buckets of a map that has held at most `entries` at once and was filled by
/// single inserts; 0 before the first.
pub fn bucket_count(entries: u64) -> u64 {
    let mut buckets = 0;
    while buckets < entries as usize {
        buckets = next_bucket_count(buckets);
    }
    buckets as u64
}

/// The bucket count that follows `current`.
fn next_bucket_count(current: usize) -> usize {
    PRIMES
        .into_iter()
        .find(|&prime| prime > current)
        .unwrap_or(current * 2 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> (UnorderedMap<[u64; 2]>, Census) {
        let map = UnorderedMap::new(Kind::HookEntry, Kind::HookBuckets);
        (map, Census::new())
    }

    #[test]
    fn buckets_grow_at_the_inserts_that_libstdcxx_grows_at() {
        let (mut map, census) = map();
        let mut seen = Vec::new();
        for key in 1..=172_934 {
            let before = map.buckets.len();
            map.insert(&census, key, [0; 2]);
            if key.is_power_of_two() {
                assert_eq!(map.buckets.len() as u64, bucket_count(key));
            }
            if map.buckets.len() != before {
                seen.push((key, map.buckets.len()));
            }
        }
        let expected = [
            (1, 13),
            (14, 29),
            (30, 59),
            (60, 127),
            (128, 257),
            (258, 541),
            (542, 1109),
            (1110, 2357),
            (2358, 5087),
            (5088, 10_273),
            (10_274, 20_753),
            (20_754, 42_043),
            (42_044, 85_229),
            (85_230, 172_933),
            (172_934, 351_061),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn erasing_returns_nodes_and_keeps_the_array() {
        let (mut map, census) = map();
        for key in 1..=100 {
            map.insert(&census, key, [key; 2]);
        }
        for key in (1..=100).rev() {
            assert_eq!(map.remove(&census, key), Some([key; 2]));
            assert_eq!(map.remove(&census, key), None);
        }
        assert_eq!(map.len(), 0);
        assert_eq!(census.live(Kind::HookEntry), 0);
        assert_eq!(census.counts(Kind::HookBuckets).live_bytes, 8 * 127);
    }

    #[test]
    fn a_node_has_the_real_size() {
        assert_eq!(size_of::<Node<[u64; 2]>>(), 32);
        assert_eq!(size_of::<Bucket<[u64; 2]>>(), 8);
    }

    #[test]
    fn popping_empties_the_map() {
        let (mut map, census) = map();
        for key in [3, 16, 29, 7] {
            map.insert(&census, key, [key; 2]);
        }
        let mut from = 0;
        let mut keys = Vec::new();
        while let Some([key, _]) = map.pop(&census, &mut from) {
            keys.push(key);
        }
        keys.sort_unstable();
        assert_eq!(keys, [3, 7, 16, 29]);
        assert_eq!(map.len(), 0);
    }
}
