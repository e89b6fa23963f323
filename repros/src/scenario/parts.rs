//! The parts of `scenario.json`.

use std::collections::BTreeMap;

use mockspore::Device;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::scenario::{MockExpectation, RealExpectation};

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

/// A report's arms with one cause after the other taken away, to be printed
/// beside what the mock keeps in a step of one rank, by cause.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ladder {
    /// The causes, in the order in which the rungs take them away.
    pub causes: Vec<Cause>,
    /// From everything to what is left: as many as causes.
    pub rungs: Vec<Rung>,
}

/// A cause and what it keeps.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    /// Its name.
    pub name: String,
    /// The kinds of its blocks and arrays.
    pub kinds: Vec<String>,
}

/// One arm of a ladder.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rung {
    /// The arm.
    pub arm: String,
    /// What the report measured, in KiB a step.
    pub reported_kib: f64,
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

impl Arm {
    /// What the mock must show on `device`.
    pub fn expectation(&self, device: Device) -> &MockExpectation {
        self.on.get(&device).unwrap_or(&self.mock)
    }
}
