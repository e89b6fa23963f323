//! libstdc++'s `unordered_map` as blocks of memory.
//!
//! ```text
//! buckets (8 B each, one array) ─▶ node {next, key, V} ─▶ node ─▶ …
//! ```
//!
//! Modelled: one heap node per entry, bucket counts from the prime table, a
//! rehash when an insert would pass load factor 1, an array that erasing and
//! clearing never shrink, and the order of iteration for keys that keep a
//! place in it.
//!
//! libstdc++ threads one list through all nodes: a node for an empty bucket
//! goes to the list's head, one for an occupied bucket to the front of its
//! bucket's run. Here each bucket has its own chain, and a run's place is the
//! number it got when its bucket was filled: the highest number comes first.

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

/// A key: its hash, and the place of its bucket's run in the iteration.
pub(crate) trait Key: Eq {
    fn bucket_hash(&self) -> u64;

    /// The number of its run; a key of a map that is never iterated has none.
    fn run(&self) -> u64 {
        0
    }

    fn set_run(&mut self, _run: u64) {}
}

/// Integer keys hash to themselves.
impl Key for u64 {
    fn bucket_hash(&self) -> u64 {
        *self
    }
}

struct Node<K, V> {
    next: Option<Box<Self>>,
    key: K,
    value: V,
}

type Bucket<K, V> = Option<Box<Node<K, V>>>;

/// A map whose nodes and bucket array are counted in the census.
pub(crate) struct UnorderedMap<K, V> {
    buckets: Box<[Bucket<K, V>]>,
    len: usize,
    /// The number of the run that was begun last.
    last_run: u64,
    node_kind: Kind,
    array_kind: Kind,
}

impl<K: Key, V> UnorderedMap<K, V> {
    pub(crate) fn new(node_kind: Kind, array_kind: Kind) -> Self {
        Self {
            buckets: Box::default(),
            len: 0,
            last_run: 0,
            node_kind,
            array_kind,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        let chain = match self.len {
            0 => None,
            _ => self.buckets[self.bucket_of(key)].as_deref(),
        };
        let mut nodes = std::iter::successors(chain, |node| node.next.as_deref());
        nodes.any(|node| node.key == *key)
    }

    /// Adds an entry under a key that is not in the map.
    pub(crate) fn insert(&mut self, census: &Census, key: K, value: V) {
        if self.len == self.buckets.len() {
            self.rehash(census);
        }
        census.created(self.node_kind, size_of::<Node<K, V>>());
        let node = Box::new(Node {
            next: None,
            key,
            value,
        });
        self.link(node);
        self.len += 1;
    }

    /// Takes the entry of `key` out; its node is freed, the array stays.
    pub(crate) fn remove(&mut self, census: &Census, key: &K) -> Option<(K, V)> {
        if self.len == 0 {
            return None;
        }
        let at = self.bucket_of(key);
        let mut slot = &mut self.buckets[at];
        while slot.as_ref().is_some_and(|node| node.key != *key) {
            slot = &mut slot.as_mut()?.next;
        }
        let node = slot.take()?;
        *slot = node.next;
        Some(self.unlinked(census, node.key, node.value))
    }

    /// Takes any one entry out, until the map is empty.
    pub(crate) fn pop(&mut self, census: &Census, from_bucket: &mut usize) -> Option<(K, V)> {
        while *from_bucket < self.buckets.len() {
            if let Some(node) = self.buckets[*from_bucket].take() {
                self.buckets[*from_bucket] = node.next;
                return Some(self.unlinked(census, node.key, node.value));
            }
            *from_bucket += 1;
        }
        None
    }

    /// The keys in the order of iteration. The list is the caller's.
    pub(crate) fn keys(&self) -> Vec<&K> {
        let mut runs: Vec<&Node<K, V>> =
            self.buckets.iter().flatten().map(|node| &**node).collect();
        runs.sort_unstable_by_key(|first| std::cmp::Reverse(first.key.run()));
        let chain =
            |first| std::iter::successors(Some(first), |node: &&Node<K, V>| node.next.as_deref());
        runs.into_iter()
            .flat_map(chain)
            .map(|node| &node.key)
            .collect()
    }

    /// Frees the bucket array of a map that is going away.
    pub(crate) fn free_array(&mut self, census: &Census) {
        census.dropped(
            self.array_kind,
            size_of_val::<[Bucket<K, V>]>(&self.buckets),
        );
        self.buckets = Box::default();
    }

    fn unlinked(&mut self, census: &Census, key: K, value: V) -> (K, V) {
        self.len -= 1;
        census.dropped(self.node_kind, size_of::<Node<K, V>>());
        (key, value)
    }

    fn bucket_of(&self, key: &K) -> usize {
        (key.bucket_hash() % self.buckets.len() as u64) as usize
    }

    fn link(&mut self, mut node: Box<Node<K, V>>) {
        let at = self.bucket_of(&node.key);
        let run = if let Some(first) = &self.buckets[at] {
            first.key.run()
        } else {
            self.last_run += 1;
            self.last_run
        };
        node.key.set_run(run);
        node.next = self.buckets[at].take();
        self.buckets[at] = Some(node);
    }

    /// Relinks every node, in the order of iteration.
    fn rehash(&mut self, census: &Census) {
        let count = next_bucket_count(self.buckets.len());
        let fresh: Box<[Bucket<K, V>]> = std::iter::repeat_with(|| None).take(count).collect();
        census.created(self.array_kind, size_of_val::<[Bucket<K, V>]>(&fresh));
        let mut old = std::mem::replace(&mut self.buckets, fresh);
        let mut runs: Vec<Box<Node<K, V>>> = old.iter_mut().filter_map(Option::take).collect();
        runs.sort_by_key(|first| std::cmp::Reverse(first.key.run()));
        for mut chain in runs.into_iter().map(Some) {
            while let Some(mut node) = chain {
                chain = node.next.take();
                self.link(node);
            }
        }
        census.dropped(self.array_kind, size_of_val::<[Bucket<K, V>]>(&old));
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
mod tests;
