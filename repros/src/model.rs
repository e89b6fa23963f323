//! What a run on the mock must read, computed from the declared expectation.
//!
//! Objects follow from the arm's declaration, bytes from `nallocx` of the
//! declared block sizes; only the table of bucket counts is shared with the
//! runtime, and a test pins that to what libstdc++ was seen to do.

use mockspore::model::bucket_count;
use mockspore_growth::probe::jemalloc::nallocx;

use crate::scenario::{Arm, BlockSize, Growth, Knobs, Scenario};

/// The declared model of one arm with given knobs.
#[derive(Debug)]
pub struct Model<'a> {
    scenario: &'a Scenario,
    arm: &'a Arm,
    knobs: &'a Knobs,
}

impl<'a> Model<'a> {
    /// The model of `arm` under `knobs`.
    pub fn new(scenario: &'a Scenario, arm: &'a Arm, knobs: &'a Knobs) -> Self {
        Self {
            scenario,
            arm,
            knobs,
        }
    }

    /// Calls of one step.
    pub fn calls(&self) -> u64 {
        let calls = self.knobs.integer(&self.scenario.calls_per_step);
        calls.unwrap_or_default()
    }

    /// Live objects of `kind` after `step` steps.
    pub fn objects(&self, kind: &str, step: u64) -> u64 {
        self.held(kind) + self.kept(kind) * step
    }

    /// Whether `kind` grows.
    pub fn grows(&self, kind: &str) -> bool {
        self.kept(kind) > 0
    }

    /// Bytes that the allocator spends on kept blocks of fixed size.
    pub fn block_bytes(&self, step: u64) -> u64 {
        let sizes = self.scenario.block_bytes.iter();
        sizes
            .map(|(kind, size)| nallocx(self.request(size) as usize) * self.kept(kind) * step)
            .sum()
    }

    /// Bytes that the allocator spends on the array.
    pub fn array_bytes(&self, step: u64) -> u64 {
        nallocx(self.array_request(step) as usize)
    }

    /// Requested bytes of the array.
    fn array_request(&self, step: u64) -> u64 {
        let Some(array) = &self.scenario.array else {
            return 0;
        };
        if step == 0 {
            return 0;
        }
        let peak = self.kept(&array.of) * step + self.arm.mock.peak_per_call * self.calls();
        let slots = match array.growth {
            Growth::LibstdcxxUnorderedMap => bucket_count(peak),
        };
        slots * array.slot_bytes
    }

    /// Bytes of glibc chunks that a real framework is predicted to keep after
    /// `step` steps: the same blocks and array, in the other allocator.
    pub fn glibc_bytes(&self, step: u64) -> u64 {
        let sizes = self.scenario.block_bytes.iter();
        let blocks =
            sizes.map(|(kind, size)| glibc_chunk(self.request(size)) * self.kept(kind) * step);
        blocks.sum::<u64>() + glibc_chunk(self.array_request(step))
    }

    /// Requested bytes of a block.
    fn request(&self, size: &BlockSize) -> u64 {
        match size {
            BlockSize::Fixed(bytes) => *bytes,
            BlockSize::PerKnob { header, each, knob } => {
                header + each * self.knobs.integer(knob).unwrap_or_default()
            }
        }
    }

    fn held(&self, kind: &str) -> u64 {
        self.scenario.held.get(kind).copied().unwrap_or_default()
    }

    /// Objects that one step keeps.
    fn kept(&self, kind: &str) -> u64 {
        let mock = &self.arm.mock;
        let of = |kept: &std::collections::BTreeMap<String, u64>| kept.get(kind).copied();
        self.calls() * of(&mock.keeps_per_call).unwrap_or_default()
            + of(&mock.keeps_per_step).unwrap_or_default()
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
