//! `scenario.json`: the single truth of a scenario for Rust and Python.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mockspore::{Policies, Version};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::Error;

mod check;
mod expectation;
pub(crate) mod file;
mod knobs;
mod parts;
mod real_plan;

pub use expectation::{
    ByChoice, Count, DeviceExpectation, EveryArm, Falls, MockExpectation, Peak, RealArmPlan,
    RealExpectation, ReleaseExpectation,
};
pub use knobs::Knobs;
pub use parts::{Arm, Array, BlockSize, Cap, Cause, Growth, Ladder, Plan, Reported, Role, Rung};
pub use real_plan::{RealPlan, ReportBaseline, Unit};

/// Stands for an arm where a release lacks what the scenario needs.
pub const NOT_OFFERED: &str = "not_offered";

/// Version of the file's schema.
const SCHEMA_VERSION: u32 = 1;

/// A scenario as its file declares it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    schema_version: u32,
    /// The one name.
    pub name: String,
    /// What it shows, in a line.
    pub title: String,
    /// The upstream files it models.
    pub sources: Vec<String>,
    /// Figures of the reports, to be printed beside ours.
    pub reported: Vec<Reported>,
    /// What can be set.
    pub knobs: Map<String, Value>,
    /// The knob that says how many calls one step makes.
    pub calls_per_step: String,
    /// The kind whose objects are counted per call.
    pub primary: String,
    /// Requested bytes of the kinds that an arm may keep.
    pub block_bytes: BTreeMap<String, BlockSize>,
    /// Objects that every arm holds from the base reading on.
    #[serde(default)]
    pub held: BTreeMap<String, u64>,
    /// The knob that says how many ranks take part, each with a runtime of its
    /// own; one without it.
    pub ranks: Option<String>,
    /// Counts that follow from a choice, by name.
    #[serde(default)]
    pub counts: BTreeMap<String, ByChoice>,
    /// What every arm makes happen, unless it says otherwise.
    #[serde(default)]
    pub every_arm: EveryArm,
    /// The arrays that grow.
    #[serde(default)]
    pub arrays: Vec<Array>,
    /// The bound that the runtime itself keeps.
    pub cap: Option<Cap>,
    /// Metrics that count what is no block: hazards of the device.
    #[serde(default)]
    pub counters: Vec<String>,
    /// Kinds whose blocks are not malloc's on the real framework.
    #[serde(default)]
    pub outside_malloc: Vec<String>,
    /// Arms that are compared step by step with a report's.
    pub ladder: Option<Ladder>,
    /// Steps and readings on the mock.
    pub plan: Plan,
    /// How the script is run on a real framework.
    pub real: RealPlan,
    /// The arms, in the order they are run.
    pub arms: Vec<Arm>,
    /// Release to the arm whose expectation it must meet, or [`NOT_OFFERED`].
    pub releases: BTreeMap<String, String>,
}

impl Scenario {
    /// Reads and checks a file's text.
    ///
    /// # Errors
    /// [`Error::Scenario`] with the file, the line and the mend.
    pub fn parse(name: &str, path: PathBuf, text: &str) -> Result<Self, Error> {
        file::parse(path, text, |scenario: &Self| scenario.check(name))
    }

    /// The arm of `name`.
    ///
    /// # Errors
    /// [`Error::Unknown`] with the near match.
    pub fn arm(&self, name: &str) -> Result<&Arm, Error> {
        let found = self.arms.iter().find(|arm| arm.name == name);
        found.ok_or_else(|| Error::unknown("arm", name, self.arms.iter().map(|arm| &*arm.name)))
    }

    /// An arm's policies over those of release 2.10.0.
    ///
    /// # Errors
    /// The name of a policy or value that does not exist.
    pub fn policies(&self, arm: &Arm) -> Result<Policies, String> {
        policies_over(&arm.policies)
    }
}

/// Policies over those of release 2.10.0 and its callers.
///
/// # Errors
/// The name of a policy or value that does not exist.
pub(crate) fn policies_over(own: &Map<String, Value>) -> Result<Policies, String> {
    let base = Policies::mindspore(Version::V2_10_0);
    let mut all = serde_json::to_value(base).map_err(|error| error.to_string())?;
    if let Some(fields) = all.as_object_mut() {
        fields.extend(own.clone());
    }
    serde_json::from_value(all).map_err(|error| error.to_string())
}
