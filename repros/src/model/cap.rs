//! What the scenario's cap makes of a run.

use mockspore_growth::probe::jemalloc::nallocx;

use crate::model::{Model, slots};
use crate::scenario::Cap;

impl Model<'_> {
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

    /// Entries that one rank makes by call or else by step, and how many times
    /// a step it does.
    pub(super) fn at_once(&self, kind: &str) -> (u64, u64) {
        match self.per_call(kind) {
            0 => (self.value(self.mock.keeps_per_step.get(kind)), 1),
            by_call => (by_call, self.knob(&self.scenario.calls_per_step)),
        }
    }

    /// Entries of one rank after `calls` calls: each time there are more than
    /// the threshold, some go, and `once` more come back with the next call.
    pub(super) fn after_drops(&self, cap: &Cap, once: u64, per_call: u64, calls: u64) -> u64 {
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

    pub(super) fn of_cap(&self, kind: &str) -> Option<&Cap> {
        let cap = self.scenario.cap.as_ref();
        cap.filter(|cap| cap.kinds.iter().any(|capped| capped == kind))
    }
}
