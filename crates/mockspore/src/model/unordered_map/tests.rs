//! The modelled map against what libstdc++ was seen to do.

use super::*;

fn map() -> (UnorderedMap<u64, [u64; 2]>, Census) {
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
        assert_eq!(map.remove(&census, &key), Some((key, [key; 2])));
        assert_eq!(map.remove(&census, &key), None);
    }
    assert_eq!(map.len(), 0);
    assert_eq!(census.live(Kind::HookEntry), 0);
    assert_eq!(census.counts(Kind::HookBuckets).live_bytes, 8 * 127);
}

#[test]
fn a_node_has_the_real_size() {
    assert_eq!(size_of::<Node<u64, [u64; 2]>>(), 32);
    assert_eq!(size_of::<Bucket<u64, [u64; 2]>>(), 8);
}

#[test]
fn popping_empties_the_map() {
    let (mut map, census) = map();
    for key in [3, 16, 29, 7] {
        map.insert(&census, key, [key; 2]);
    }
    let mut from = 0;
    let mut keys = Vec::new();
    while let Some((key, _)) = map.pop(&census, &mut from) {
        keys.push(key);
    }
    keys.sort_unstable();
    assert_eq!(keys, [3, 7, 16, 29]);
    assert_eq!(map.len(), 0);
}

/// An integer that keeps its place in the iteration.
struct Ordered(u64, u64);

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Ordered {}

impl Key for Ordered {
    fn bucket_hash(&self) -> u64 {
        self.0
    }

    fn run(&self) -> u64 {
        self.1
    }

    fn set_run(&mut self, run: u64) {
        self.1 = run;
    }
}

#[test]
fn keys_are_iterated_in_the_order_of_libstdcxx() {
    let census = Census::new();
    let mut map = UnorderedMap::new(Kind::AbstractEntry, Kind::AbstractBuckets);
    for key in 1..=20 {
        map.insert(&census, Ordered(key, 0), ());
    }
    let order = |map: &UnorderedMap<Ordered, ()>| -> Vec<u64> {
        map.keys().into_iter().map(|key| key.0).collect()
    };
    let head = [20, 19, 18, 17, 16, 15, 14];
    let expected: Vec<u64> = head.into_iter().chain(1..=13).collect();
    assert_eq!(order(&map), expected);
    // 29 buckets: 30 and 31 join the runs of 1 and 2, at their fronts.
    for key in [30, 31] {
        map.insert(&census, Ordered(key, 0), ());
    }
    let _ = map.remove(&census, &Ordered(5, 0));
    let runs = [30, 1, 31, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13];
    let expected: Vec<u64> = head.into_iter().chain(runs).collect();
    assert_eq!(order(&map), expected);
}
