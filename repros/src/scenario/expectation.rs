//! What an arm must show, on the mock and on a real framework.

use std::collections::BTreeMap;

use mockspore::Device;
use mockspore_growth::{Shape, Verdict};
use serde::Deserialize;

/// What the mock must show, exactly.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MockExpectation {
    /// Verdict on the thread's net bytes.
    pub verdict: Verdict,
    /// Their shape; none where it depends on the knobs.
    pub shape: Option<Shape>,
    /// Allocated bytes of the blocks of fixed size that one call keeps.
    pub bytes_per_call: Option<f64>,
    /// Objects that one call keeps.
    #[serde(default)]
    pub keeps_per_call: BTreeMap<String, Count>,
    /// Objects that one step keeps.
    #[serde(default)]
    pub keeps_per_step: BTreeMap<String, Count>,
    /// Objects that the first step keeps, and no other.
    #[serde(default)]
    pub keeps_once: BTreeMap<String, Count>,
    /// Whether what a step keeps takes the place of what the last one kept.
    #[serde(default)]
    pub replaces: bool,
    /// Whether what it keeps is bounded by the scenario's cap.
    #[serde(default)]
    pub capped: bool,
    /// Slots that an array, by its kind, has to have within a step only.
    #[serde(default)]
    pub peaks: BTreeMap<String, Peak>,
    /// How often one call makes something happen that is no block.
    #[serde(default)]
    pub counts_per_call: BTreeMap<String, Count>,
    /// How often one step makes it happen besides.
    #[serde(default)]
    pub counts_per_step: BTreeMap<String, Count>,
    /// How often call `n` makes it happen `n` times over: n (n + 1) / 2 in all.
    #[serde(default)]
    pub counts_triangular: BTreeMap<String, u64>,
    /// How many calls at the start of a step do not, as the device is idle.
    #[serde(default)]
    pub first_of_step_does_not: BTreeMap<String, u64>,
}

/// How many: a number, or what a name stands for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Count {
    /// Always the same.
    Fixed(u64),
    /// The value of an integer knob, or one of the scenario's counts.
    Named(String),
    /// So many times that.
    Times {
        /// How many times.
        times: u64,
        /// The knob or count.
        of: String,
    },
}

impl Default for Count {
    fn default() -> Self {
        Self::Fixed(0)
    }
}

/// A count that follows from a choice.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByChoice {
    /// The choice knob.
    pub by: String,
    /// The count for each of its choices.
    pub of: BTreeMap<String, u64>,
}

/// What every arm makes happen, unless it says otherwise.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EveryArm {
    /// By one call.
    #[serde(default)]
    pub counts_per_call: BTreeMap<String, Count>,
    /// By one step, besides.
    #[serde(default)]
    pub counts_per_step: BTreeMap<String, Count>,
}

/// Slots in use within a step.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peak {
    /// For each call.
    #[serde(default)]
    pub per_call: Count,
    /// Besides.
    #[serde(default)]
    pub per_step: Count,
}

impl MockExpectation {
    /// All counts that it names.
    pub(super) fn counts(&self) -> impl Iterator<Item = &Count> {
        let maps = [
            &self.keeps_per_call,
            &self.keeps_per_step,
            &self.keeps_once,
            &self.counts_per_call,
            &self.counts_per_step,
        ];
        let peaks = self.peaks.values();
        let peaks = peaks.flat_map(|peak| [&peak.per_call, &peak.per_step]);
        maps.into_iter().flat_map(BTreeMap::values).chain(peaks)
    }
}

/// What a real framework must show, compared with the control.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RealExpectation {
    /// Whether it runs in every round, or once behind `--all-arms`.
    #[serde(default)]
    pub primary: bool,
    /// The verdict.
    pub verdict: Verdict,
    /// Range of the difference, in the metric's unit per call.
    pub per_call: [f64; 2],
    /// Releases that differ.
    #[serde(default)]
    pub releases: BTreeMap<String, ReleaseExpectation>,
    /// Devices other than CPU.
    #[serde(default)]
    pub on: BTreeMap<Device, DeviceExpectation>,
    /// Devices that lack what it needs.
    #[serde(default)]
    pub unsupported_on: Vec<Device>,
    /// Steps of a process, if they are the arm's own.
    pub plan: Option<RealArmPlan>,
    /// The falls of a saw-tooth, which each process must show.
    pub falls: Option<Falls>,
}

/// The falls of a saw-tooth.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Falls {
    /// Calls from one fall to the next.
    pub period: u64,
    /// Range of a fall, in the metric's unit.
    pub bytes: [f64; 2],
}

/// Steps of a process of one arm.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RealArmPlan {
    /// Steps before the first reading.
    pub warmup: u64,
    /// Steps after the first reading.
    pub steps: u64,
    /// Steps between readings.
    pub every: u64,
}

/// What one device shows.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceExpectation {
    /// The verdict.
    pub verdict: Verdict,
    /// Range of the difference, in the metric's unit per call.
    pub per_call: [f64; 2],
    /// Releases that differ.
    #[serde(default)]
    pub releases: BTreeMap<String, ReleaseExpectation>,
}

/// What one release shows.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseExpectation {
    /// The verdict.
    pub verdict: Verdict,
    /// Range of the difference, in the metric's unit per call.
    pub per_call: [f64; 2],
}

impl RealExpectation {
    /// Verdict and range for a release on a device.
    pub fn of(&self, version: &str, device: Device) -> (Verdict, [f64; 2]) {
        let of_release = |releases: &BTreeMap<String, ReleaseExpectation>| {
            let own = releases.get(version)?;
            Some((own.verdict, own.per_call))
        };
        match self.on.get(&device) {
            Some(own) => of_release(&own.releases).unwrap_or((own.verdict, own.per_call)),
            None => of_release(&self.releases).unwrap_or((self.verdict, self.per_call)),
        }
    }
}
