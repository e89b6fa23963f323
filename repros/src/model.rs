//! What a run on the mock must read, computed from the declared expectation.
//!
//! Objects follow from the arm's declaration, bytes from `nallocx` of the
//! declared block sizes; only the tables of bucket counts and capacities are
//! shared with the runtime, and tests pin those to what libstdc++ does.

use std::collections::BTreeMap;

use mockspore::Device;
use mockspore::model::{bucket_count, capacity};
use mockspore_growth::probe::jemalloc::nallocx;

use crate::scenario::{
    Arm, Array, BlockSize, Cap, Count, Growth, Knobs, MockExpectation, Scenario,
};

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

    /// Whether the scenario's cap bounds `kind` in this arm.
    pub fn is_capped(&self, kind: &str) -> bool {
        self.mock.capped && self.of_cap(kind).is_some()
    }

    /// Why a run of `steps` steps does not cover the cap, if it does not: it
    /// must fill it once and then go through two periods.
    pub fn cap_uncovered(&self, steps: u64) -> Option<String> {
        let cap = self.scenario.cap.as_ref()?;
        let entry = cap.kinds.first()?;
        let per_step = self.per_step(entry) / self.ranks();
        let (threshold, drops) = (self.knob(&cap.threshold), self.knob(&cap.drops));
        let (made, needed) = (per_step * steps, threshold + 2 * drops);
        (per_step > 0 && made <= needed).then(|| {
            format!(
                "a cap of {threshold} entries that drops {drops} is covered by more than {needed} \
                 entries, and {made} were made: {} more steps would decide",
                (needed + 1 - made).div_ceil(per_step)
            )
        })
    }

    /// The most objects of `kind` that keep within the cap; `None` if the arm
    /// makes none that it bounds.
    pub fn cap_objects(&self, kind: &str) -> Option<u64> {
        let cap = self.of_cap(kind).filter(|_| self.per_step(kind) > 0)?;
        Some(self.ranks() * self.knob(&cap.threshold))
    }

    /// The most bytes that keep within the cap after `step` steps, with what
    /// else the arm keeps and is bounded; `None` if it makes no entries.
    pub fn cap_bytes(&self, step: u64) -> Option<u64> {
        let kinds = &self.scenario.cap.as_ref()?.kinds;
        let blocks = kinds.iter().map(|kind| {
            let size = self.scenario.block_bytes.get(kind)?;
            Some(nallocx(self.request(size) as usize) * self.cap_objects(kind)?)
        });
        let blocks: u64 = blocks.sum::<Option<u64>>()?;
        // Arrays at the size that one call's entries above the threshold need.
        let arrays = self.scenario.arrays.iter();
        let arrays = arrays.filter(|array| array.of.as_ref().is_some_and(|of| kinds.contains(of)));
        let arrays = arrays.map(|array| {
            let of = array.of.as_deref().unwrap_or_default();
            let most = self.cap_objects(of).unwrap_or_default() / self.ranks();
            let slots = slots(array, most + self.at_once(of).0);
            self.ranks() * nallocx((slots * array.slot_bytes) as usize)
        });
        let besides = self.blocks(step, |kind, request| {
            let other = self.of_cap(kind).is_none() && !self.grows(kind);
            if other { nallocx(request as usize) } else { 0 }
        });
        let others = self.scenario.arrays.iter().filter(|array| {
            let of = array.of.as_deref();
            !of.is_some_and(|of| self.of_cap(of).is_some() || self.grows(of))
        });
        let others = others.map(|array| nallocx(self.array_request(array, step) as usize));
        let others = others.sum::<u64>() * self.ranks();
        Some(blocks + arrays.sum::<u64>() + besides + others)
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
            if of == kind { nallocx(request as usize) } else { 0 }
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

    /// Entries that one rank makes by call or else by step, and how many times
    /// a step it does.
    fn at_once(&self, kind: &str) -> (u64, u64) {
        match self.per_call(kind) {
            0 => (self.value(self.mock.keeps_per_step.get(kind)), 1),
            by_call => (by_call, self.knob(&self.scenario.calls_per_step)),
        }
    }

    /// Entries of one rank after `calls` calls: each time there are more than
    /// the threshold, some go, and `once` more come back with the next call.
    fn after_drops(&self, cap: &Cap, once: u64, per_call: u64, calls: u64) -> u64 {
        let (threshold, drops) = (self.knob(&cap.threshold), self.knob(&cap.drops));
        let (mut size, mut left) = (0_u64, calls);
        while left > 0 {
            let room = threshold.saturating_sub(size + once);
            let until_over = room / per_call.max(1) + 1;
            let made = once + per_call * until_over.min(left);
            size += made;
            if until_over <= left && size > threshold {
                size = size.saturating_sub(drops);
            }
            left -= until_over.min(left);
        }
        size
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

    fn of_cap(&self, kind: &str) -> Option<&Cap> {
        let cap = self.scenario.cap.as_ref();
        cap.filter(|cap| cap.kinds.iter().any(|capped| capped == kind))
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
