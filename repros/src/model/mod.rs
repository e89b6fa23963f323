//! What a run on the mock must read, computed from the declared expectation.
//!
//! Objects follow from the arm's declaration, bytes from `nallocx` of the
//! declared block sizes; only the tables of bucket counts and capacities are
//! shared with the runtime, and tests pin those to what libstdc++ does.

mod cap;

use std::collections::BTreeMap;

use mockspore::Device;
use mockspore::model::{bucket_count, capacity};
use mockspore_growth::probe::jemalloc::nallocx;

use crate::scenario::{Arm, Array, BlockSize, Count, Growth, Knobs, MockExpectation, Scenario};

/// The declared model of one arm with given knobs on a device.
#[derive(Debug)]
pub struct Model<'a> {
    scenario: &'a Scenario,
    mock: &'a MockExpectation,
    knobs: &'a Knobs,
}

impl<'a> Model<'a> {
    /// The model of `arm` under `knobs` on `device`.
    pub fn new(scenario: &'a Scenario, arm: &'a Arm, knobs: &'a Knobs, device: Device) -> Self {
        Self {
            scenario,
            mock: arm.expectation(device),
            knobs,
        }
    }

    /// Calls of one step, by all ranks together.
    pub fn calls(&self) -> u64 {
        self.knob(&self.scenario.calls_per_step) * self.ranks()
    }

    /// Runtimes that take part.
    pub fn ranks(&self) -> u64 {
        self.scenario
            .ranks
            .as_ref()
            .map_or(1, |knob| self.knob(knob))
    }

    /// Live objects of `kind` after `step` steps.
    pub fn objects(&self, kind: &str, step: u64) -> u64 {
        let held = self.scenario.held.get(kind).copied().unwrap_or_default();
        held + self.kept(kind, step)
    }

    /// How often something that is no block has happened after `step` steps.
    pub fn count(&self, counter: &str, step: u64) -> u64 {
        let every = &self.scenario.every_arm;
        let own = |own: &'a BTreeMap<String, Count>, every: &'a BTreeMap<String, Count>| {
            self.value(own.get(counter).or_else(|| every.get(counter)))
        };
        let by_call = own(&self.mock.counts_per_call, &every.counts_per_call) * self.calls();
        let by_step = own(&self.mock.counts_per_step, &every.counts_per_step) * self.ranks();
        let not = of(&self.mock.first_of_step_does_not, counter) * self.ranks();
        // Each rank's calls on their own.
        let calls = self.knob(&self.scenario.calls_per_step) * step;
        let triangular = of(&self.mock.counts_triangular, counter) * self.ranks();
        (by_call + by_step - not) * step + triangular * (calls * (calls + 1) / 2)
    }

    /// Whether a kind or counter grows without a cap.
    pub fn grows(&self, name: &str) -> bool {
        let keeps = self.per_step(name) > 0 && !self.mock.replaces;
        !self.is_capped(name) && (keeps || self.count(name, 1) > 0)
    }

    /// Bytes that the allocator spends on kept blocks of fixed size.
    pub fn block_bytes(&self, step: u64) -> u64 {
        self.blocks(step, |_, request| nallocx(request as usize))
    }

    /// Bytes that the allocator spends on the arrays.
    pub fn array_bytes(&self, step: u64) -> u64 {
        self.arrays(step, |request| nallocx(request as usize))
    }

    /// Bytes that the allocator spends on one kind, a block's or an array's.
    pub fn bytes_of(&self, kind: &str, step: u64) -> u64 {
        let blocks = self.blocks(step, |of, request| {
            if of == kind {
                nallocx(request as usize)
            } else {
                0
            }
        });
        let arrays = self.scenario.arrays.iter();
        let arrays = arrays.filter(|array| array.kind == kind).map(|array| {
            let request = self.array_request(array, step);
            self.ranks() * nallocx(request as usize)
        });
        blocks + arrays.sum::<u64>()
    }

    /// Bytes of glibc chunks that a real framework is predicted to keep after
    /// `step` steps: the same blocks and arrays, in the other allocator.
    pub fn glibc_bytes(&self, step: u64) -> u64 {
        let outside = |kind: &str| {
            self.scenario
                .outside_malloc
                .iter()
                .any(|other| other == kind)
        };
        let malloced = |kind: &str, request| {
            if outside(kind) {
                0
            } else {
                glibc_chunk(request)
            }
        };
        self.blocks(step, malloced) + self.arrays(step, glibc_chunk)
    }

    fn blocks(&self, step: u64, spent: impl Fn(&str, u64) -> u64) -> u64 {
        let sizes = self.scenario.block_bytes.iter();
        let bytes =
            sizes.map(|(kind, size)| spent(kind, self.request(size)) * self.kept(kind, step));
        bytes.sum()
    }

    fn arrays(&self, step: u64, spent: impl Fn(u64) -> u64) -> u64 {
        let arrays = self.scenario.arrays.iter();
        arrays
            .map(|array| spent(self.array_request(array, step)) * self.ranks())
            .sum()
    }

    /// Requested bytes of one rank's array.
    fn array_request(&self, array: &Array, step: u64) -> u64 {
        if step == 0 {
            return 0;
        }
        let peak = self.mock.peaks.get(&array.kind);
        let per_call = self.value(peak.map(|peak| &peak.per_call));
        let per_step = self.value(peak.map(|peak| &peak.per_step));
        let kept = array
            .of
            .as_ref()
            .map_or(0, |kind| self.most_kept(kind, step));
        let calls = self.knob(&self.scenario.calls_per_step);
        let most = kept + per_call * calls + per_step;
        slots(array, most) * array.slot_bytes
    }

    /// Requested bytes of a block.
    fn request(&self, size: &BlockSize) -> u64 {
        match size {
            BlockSize::Fixed(bytes) => *bytes,
            BlockSize::PerKnob { header, each, knob } => header + each * self.knob(knob),
        }
    }

    /// Objects that `step` steps have kept, in all ranks.
    fn kept(&self, kind: &str, step: u64) -> u64 {
        if step == 0 {
            return 0;
        }
        let once = self.value(self.mock.keeps_once.get(kind));
        if let Some(cap) = self.of_cap(kind).filter(|_| self.mock.capped) {
            let (at_once, times) = self.at_once(kind);
            return self.ranks() * self.after_drops(cap, once, at_once, times * step);
        }
        let steps = if self.mock.replaces { 1 } else { step };
        once * self.ranks() + self.per_step(kind) * steps
    }

    /// Objects of one rank at the most so far.
    fn most_kept(&self, kind: &str, step: u64) -> u64 {
        let once = self.value(self.mock.keeps_once.get(kind));
        let made = once + self.per_step(kind) / self.ranks() * step;
        match self.of_cap(kind) {
            // The entries of one call come before the size is looked at.
            Some(cap) if self.mock.capped => {
                made.min(self.knob(&cap.threshold) + self.at_once(kind).0)
            }
            _ => made,
        }
    }

    /// Objects that one step makes and does not free itself, in all ranks.
    fn per_step(&self, kind: &str) -> u64 {
        if self
            .scenario
            .block_bytes
            .get(kind)
            .is_none_or(|size| self.request(size) == 0)
        {
            return 0;
        }
        let besides = self.value(self.mock.keeps_per_step.get(kind));
        self.calls() * self.per_call(kind) + self.ranks() * besides
    }

    /// Objects that one call makes and does not free itself.
    fn per_call(&self, kind: &str) -> u64 {
        self.value(self.mock.keeps_per_call.get(kind))
    }

    /// What a count stands for under the knobs; 0 for none.
    fn value(&self, count: Option<&Count>) -> u64 {
        match count {
            None => 0,
            Some(Count::Fixed(number)) => *number,
            Some(Count::Named(name)) => self.named(name),
            Some(Count::Times { times, of }) => times * self.named(of),
        }
    }

    fn named(&self, name: &str) -> u64 {
        let Some(count) = self.scenario.counts.get(name) else {
            return self.knob(name);
        };
        of(&count.of, self.knobs.choice(&count.by).unwrap_or_default())
    }

    fn knob(&self, name: &str) -> u64 {
        self.knobs.integer(name).unwrap_or_default()
    }
}

fn of(kept: &BTreeMap<String, u64>, name: &str) -> u64 {
    kept.get(name).copied().unwrap_or_default()
}

/// Slots of an array that has held `most` objects.
fn slots(array: &Array, most: u64) -> u64 {
    match array.growth {
        Growth::LibstdcxxUnorderedMap => bucket_count(most),
        Growth::Doubling => capacity(most),
    }
}

/// The chunk that glibc's malloc spends on a request: a word of header, rounded
/// up to two words. A mapped block's page rounding is left out.
fn glibc_chunk(request: u64) -> u64 {
    match request {
        0 => 0,
        _ => (request + 8).next_multiple_of(16).max(32),
    }
}
