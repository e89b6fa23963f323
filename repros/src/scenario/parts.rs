//! The parts of `scenario.json`.

use std::collections::BTreeMap;

use mockspore::Device;
use mockspore_growth::{Shape, Verdict};
use serde::Deserialize;
use serde_json::{Map, Value};

/// A figure of a report.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reported {
    /// The arm it belongs to.
    pub arm: String,
    /// What was measured.
    pub what: String,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: String,
}

/// Requested bytes of a block.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum BlockSize {
    /// The same for every block.
    Fixed(u64),
    /// A header, and so many bytes for each of a knob's count.
    PerKnob {
        /// Bytes of the header.
        header: u64,
        /// Bytes of each.
        each: u64,
        /// The knob that counts them.
        knob: String,
    },
}

/// An array that holds a slot for each object of a kind.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Array {
    /// The kind of the array's block.
    pub kind: String,
    /// The kind whose count it grows with; none if only a step's peak counts.
    pub of: Option<String>,
    /// Bytes of a slot.
    pub slot_bytes: u64,
    /// How it grows.
    pub growth: Growth,
}

/// How an array grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Growth {
    /// By libstdc++'s primes, never back.
    LibstdcxxUnorderedMap,
    /// By doubling from 1, never back.
    Doubling,
}

/// A bound that the runtime itself keeps: above `threshold` entries it drops
/// `drops` of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cap {
    /// The kinds of an entry's blocks, the entry itself first.
    pub kinds: Vec<String>,
    /// The knob with the number of entries above which it drops.
    pub threshold: String,
    /// The knob with the number of entries that it drops.
    pub drops: String,
}

/// Steps and readings.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Steps of a run.
    pub steps: u64,
    /// Readings of a run.
    pub samples: u64,
}

/// How the script is run on a real framework, and what decides there.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RealPlan {
    /// The metrics that can decide; the first that was read does.
    pub metrics: Vec<String>,
    /// What the metrics count.
    pub unit: Unit,
    /// The metric in which the Python module of the mock must be exact.
    pub mock_metric: String,
    /// Steps before the first reading.
    pub warmup: u64,
    /// Steps after the first reading.
    pub steps: u64,
    /// Steps between readings.
    pub every: u64,
    /// Processes per arm.
    pub rounds: u64,
    /// The arm that the others are compared with.
    pub control: String,
    /// A difference this small is none, in the metric's unit per call.
    pub tolerance_per_call: f64,
    /// An interval wider than this shows nothing.
    pub max_interval_per_call: f64,
    /// Whether the mock's blocks predict the metric's bytes; not where the mock
    /// has other block sizes than the framework.
    #[serde(default = "yes")]
    pub predicts: bool,
    /// The reports' own shape of the loop, with its confounder.
    pub report_baseline: Option<ReportBaseline>,
}

/// What a metric counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bytes of the C library's malloc.
    MallocBytes,
    /// Objects of the scenario's primary kind.
    Objects,
}

/// How the reports' own loop is run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportBaseline {
    /// The arms that the loop has.
    pub arms: Vec<String>,
    /// Knobs that the loop fixes.
    pub set: BTreeMap<String, u64>,
    /// Steps before the first reading.
    pub warmup: u64,
    /// Steps after the first reading.
    pub steps: u64,
    /// Steps between readings.
    pub every: u64,
    /// Processes per arm.
    pub rounds: u64,
    /// The scenario and arm that explain the loop's own growth.
    pub explained_by: Option<[String; 2]>,
}

/// What an arm is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the glossary of the design")]
pub enum Role {
    Control,
    Defect,
    Workaround,
    Fix,
    WrongFix,
    PositiveControl,
    ShortWindow,
    /// Looks like a defect and is none.
    Bounded,
    Counterfactual,
}

impl Role {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Defect => "defect",
            Self::Workaround => "workaround",
            Self::Fix => "fix",
            Self::WrongFix => "wrong_fix",
            Self::PositiveControl => "positive_control",
            Self::ShortWindow => "short_window",
            Self::Bounded => "bounded",
            Self::Counterfactual => "counterfactual",
        }
    }
}

/// One arm: what is set, and what must come of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// What it does, in a line.
    pub about: String,
    /// The device it is declared for.
    #[serde(default = "cpu")]
    pub device: Device,
    /// Policies that differ from release 2.10.0.
    #[serde(default)]
    pub policies: Map<String, Value>,
    /// Knobs that differ from their defaults.
    #[serde(default)]
    pub knobs: Map<String, Value>,
    /// Steps and readings, if they are the arm's own.
    pub plan: Option<Plan>,
    /// What the mock must show.
    pub mock: MockExpectation,
    /// What it must show on another device than the arm's own.
    #[serde(default)]
    pub on: BTreeMap<Device, MockExpectation>,
    /// What a real framework must show; absent where it has no such arm.
    pub real: Option<RealExpectation>,
}

fn cpu() -> Device {
    Device::Cpu
}

fn yes() -> bool {
    true
}

impl Arm {
    /// What the mock must show on `device`.
    pub fn expectation(&self, device: Device) -> &MockExpectation {
        self.on.get(&device).unwrap_or(&self.mock)
    }
}

/// What the mock must show, exactly.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MockExpectation {
    /// Verdict on the thread's net bytes.
    pub verdict: Verdict,
    /// Shape of the thread's net bytes.
    pub shape: Shape,
    /// Allocated bytes of the blocks of fixed size that one call keeps.
    pub bytes_per_call: Option<f64>,
    /// Objects that one call keeps.
    #[serde(default)]
    pub keeps_per_call: BTreeMap<String, u64>,
    /// Objects that one step keeps.
    #[serde(default)]
    pub keeps_per_step: BTreeMap<String, u64>,
    /// Objects that the first step keeps, and no other.
    #[serde(default)]
    pub keeps_once: BTreeMap<String, u64>,
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
    pub counts_per_call: BTreeMap<String, u64>,
    /// How many calls at the start of a step do not, as the device is idle.
    #[serde(default)]
    pub first_of_step_does_not: BTreeMap<String, u64>,
}

/// Slots in use within a step.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peak {
    /// For each call.
    #[serde(default)]
    pub per_call: u64,
    /// Besides.
    #[serde(default)]
    pub per_step: u64,
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
    /// Verdict and range for a release.
    pub fn of(&self, version: &str) -> (Verdict, [f64; 2]) {
        let own = self.releases.get(version);
        own.map_or((self.verdict, self.per_call), |own| {
            (own.verdict, own.per_call)
        })
    }
}
