//! The cache of abstracts: bounded, and easily taken for a leak.
//!
//! ```text
//! Runtime ─▶ node_abs_cache_ ─▶ entry (64 B) ─▶ key text   "Tensor_…"
//!               └─ buckets          └─────────▶ abstract   512 B
//! ```
//!
//! Operators without a generated wrapper (`ops.norm`, `ops.AllReduce`) enter
//! each tensor they see and each they make, under its id, which never repeats.
//! Only after an *output* is the size looked at: above the threshold the first
//! half in the order of iteration goes. A grad and `clear_res` empty the map,
//! `run_backward` does not. Models `InferOperation`
//! (`ccsrc/pynative/forward/op_graph/do_infer.cc`). Not modelled:
//! `prim_abs_list_`, the abstracts of scalars.

use std::cell::{Cell, RefCell};
use std::mem::size_of;

use crate::census::{Census, Kind};
use crate::model::string_hash::string_hash;
use crate::model::unordered_map::{Key, UnorderedMap};
use crate::policy::{AbstractCache, Victims};
use crate::runtime::Core;
use crate::tensor::{Shape, Tensor};

/// When the cache drops entries, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbstractLimits {
    /// Entries above which it drops.
    pub threshold: usize,
    /// Entries that it drops at once.
    pub drops: usize,
}

impl Default for AbstractLimits {
    /// Those of every release.
    fn default() -> Self {
        Self {
            threshold: 10_000,
            drops: 5_000,
        }
    }
}

/// A `std::string` key with its cached hash.
struct TensorId {
    text: Box<str>,
    hash: u64,
    run: u64,
    /// A `std::string` has four words, this key's text has two and a run.
    _unmodelled: u64,
}

impl TensorId {
    fn new(id: u64) -> Self {
        let text: Box<str> = format!("Tensor_{id:016}").into();
        Self {
            hash: string_hash(&text),
            text,
            run: 0,
            _unmodelled: 0,
        }
    }
}

impl PartialEq for TensorId {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.text == other.text
    }
}

impl Eq for TensorId {}

impl Key for TensorId {
    fn bucket_hash(&self) -> u64 {
        self.hash
    }

    fn run(&self) -> u64 {
        self.run
    }

    fn set_run(&mut self, run: u64) {
        self.run = run;
    }
}

/// Requested bytes of an abstract with its shape and type.
const ABSTRACT_BYTES: usize = 512;

struct Abstract {
    _shape: Shape,
    _unmodelled: [u8; ABSTRACT_BYTES - size_of::<Shape>()],
}

impl AbstractPtr {
    fn new(shape: Shape) -> Self {
        let unmodelled = [0; ABSTRACT_BYTES - size_of::<Shape>()];
        Self(
            Box::new(Abstract {
                _shape: shape,
                _unmodelled: unmodelled,
            }),
            0,
        )
    }
}

/// A `shared_ptr<Abstract>`.
struct AbstractPtr(
    Box<Abstract>,
    #[allow(dead_code, reason = "the pointer's second word")] usize,
);

type Map = UnorderedMap<TensorId, AbstractPtr>;

/// `node_abs_cache_`.
pub(crate) struct NodeAbsCache {
    map: RefCell<Map>,
    pub(crate) limits: Cell<AbstractLimits>,
}

impl NodeAbsCache {
    pub(crate) fn new() -> Self {
        Self {
            map: RefCell::new(Map::new(Kind::AbstractEntry, Kind::AbstractBuckets)),
            limits: Cell::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.map.borrow().len()
    }

    /// Enters what an operator without a generated wrapper sees and makes.
    pub(crate) fn enter(&self, core: &Core, inputs: &[&Tensor], output: &Tensor) {
        for input in inputs {
            self.insert(&core.census, input);
        }
        self.insert(&core.census, output);
        let over = self.len() > self.limits.get().threshold;
        if over && core.policies.abstract_cache == AbstractCache::Bounded {
            self.drop_first(&core.census, core.policies.victims);
        }
    }

    pub(crate) fn clear(&self, census: &Census) {
        let mut map = self.map.borrow_mut();
        let mut from = 0;
        while let Some((key, value)) = map.pop(census, &mut from) {
            forget_blocks(census, &key, &value);
        }
    }

    pub(crate) fn free(&self, census: &Census) {
        self.clear(census);
        self.map.borrow_mut().free_array(census);
    }

    fn insert(&self, census: &Census, tensor: &Tensor) {
        let key = TensorId::new(tensor.id());
        let mut map = self.map.borrow_mut();
        if map.contains(&key) {
            return;
        }
        let value = AbstractPtr::new(tensor.shape());
        census.created(Kind::AbstractKey, key.text.len());
        census.created(Kind::Abstract, size_of_val(&*value.0));
        map.insert(census, key, value);
    }

    fn drop_first(&self, census: &Census, victims: Victims) {
        let mut map = self.map.borrow_mut();
        let mut keys: Vec<Box<str>> = map.keys().into_iter().map(|key| key.text.clone()).collect();
        match victims {
            Victims::IterationOrder => {}
            // Ids count up, with leading zeros.
            Victims::OldestFirst => keys.sort_unstable(),
            Victims::NewestFirst => keys.sort_unstable_by(|a, b| b.cmp(a)),
        }
        keys.truncate(self.limits.get().drops);
        for text in keys {
            let hash = string_hash(&text);
            let key = TensorId {
                text,
                hash,
                run: 0,
                _unmodelled: 0,
            };
            if let Some((key, value)) = map.remove(census, &key) {
                forget_blocks(census, &key, &value);
            }
        }
    }
}

fn forget_blocks(census: &Census, key: &TensorId, value: &AbstractPtr) {
    census.dropped(Kind::AbstractKey, key.text.len());
    census.dropped(Kind::Abstract, size_of_val(&*value.0));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an order amounts to: FNV over the ids.
    fn digest(ids: &[u64]) -> u64 {
        let fold = |hash: u64, id: &u64| (hash ^ id).wrapping_mul(1_099_511_628_211);
        ids.iter().fold(1_469_598_103_934_665_603, fold)
    }

    fn first(map: &mut Map, census: &Census, count: usize) -> Vec<u64> {
        let keys = map.keys().into_iter().take(count);
        let ids: Vec<u64> = keys.map(|key| key.text[7..].parse().unwrap_or(0)).collect();
        for &id in &ids {
            let _ = map.remove(census, &TensorId::new(id));
        }
        ids
    }

    /// The digests are those of a C++ program with g++ 12: it inserts the keys
    /// "Tensor_%016d" for 1 to 10,001 into an `unordered_map<string, int>`,
    /// erases the first 5,000 that it iterates, inserts up to 15,001 and again
    /// erases 5,000, folding the erased ids as `digest` does.
    #[test]
    fn the_victims_are_those_that_libstdcxx_iterates_first() {
        let census = Census::new();
        let mut map = Map::new(Kind::AbstractEntry, Kind::AbstractBuckets);
        let value = || AbstractPtr::new(Shape::scalar());
        (1..=10_001).for_each(|id| map.insert(&census, TensorId::new(id), value()));
        let victims = first(&mut map, &census, 5000);
        // Neither the oldest nor purely the newest.
        assert_eq!(victims.iter().filter(|&&id| id > 5001).count(), 3585);
        assert_eq!(digest(&victims), 7_584_986_741_058_465_176);
        (10_002..=15_001).for_each(|id| map.insert(&census, TensorId::new(id), value()));
        let victims = first(&mut map, &census, 5000);
        assert_eq!(digest(&victims), 15_747_598_659_427_639_933);
        assert_eq!(map.len(), 5001);
    }

    #[test]
    fn blocks_have_the_sizes_of_the_real_ones() {
        let census = Census::new();
        let mut map = Map::new(Kind::AbstractEntry, Kind::AbstractBuckets);
        map.insert(&census, TensorId::new(1), AbstractPtr::new(Shape::scalar()));
        assert_eq!(census.counts(Kind::AbstractEntry).live_bytes, 64);
        assert_eq!(size_of::<Abstract>(), 512);
    }
}
