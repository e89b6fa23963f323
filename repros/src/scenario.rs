//! `scenario.json`: the single truth of a scenario for Rust and Python.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mockspore::{Device, Policies, Version};
use mockspore_growth::{Shape, Verdict};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::Error;

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
    pub block_bytes: BTreeMap<String, u64>,
    /// Objects that every arm holds from the base reading on.
    #[serde(default)]
    pub held: BTreeMap<String, u64>,
    /// The array that grows with a kind.
    pub array: Option<Array>,
    /// Steps and readings on the mock.
    pub plan: Plan,
    /// How the script is run on a real framework.
    pub real: RealPlan,
    /// The arms, in the order they are run.
    pub arms: Vec<Arm>,
    /// Release to the arm whose expectation it must meet.
    pub releases: BTreeMap<String, String>,
}

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

/// An array that holds a slot for each object of a kind.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Array {
    /// The kind of the array's block.
    pub kind: String,
    /// The kind whose count it grows with.
    pub of: String,
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
    /// The metric that decides.
    pub metric: String,
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
    /// A difference this small is none.
    pub tolerance_bytes_per_call: f64,
    /// An interval wider than this shows nothing.
    pub max_interval_bytes_per_call: f64,
    /// The reports' own shape of the loop, with its confounder.
    pub report_baseline: Option<ReportBaseline>,
}

/// How the reports' own loop is run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportBaseline {
    /// Knobs set.
    pub set: BTreeMap<String, u64>,
    /// Steps before the first reading.
    pub warmup: u64,
    /// Steps after the first reading.
    pub steps: u64,
    /// Steps between readings.
    pub every: u64,
    /// Processes per arm.
    pub rounds: u64,
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
    /// What the mock must show.
    pub mock: MockExpectation,
    /// What a real framework must show; absent where it has no such arm.
    pub real: Option<RealExpectation>,
}

fn cpu() -> Device {
    Device::Cpu
}

/// What the mock must show, exactly.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MockExpectation {
    /// Verdict on the thread's net bytes.
    pub verdict: Verdict,
    /// Shape of the thread's net bytes.
    pub shape: Shape,
    /// Requested bytes in blocks of fixed size that one call keeps.
    pub bytes_per_call: Option<f64>,
    /// Objects that one call keeps.
    #[serde(default)]
    pub keeps_per_call: BTreeMap<String, u64>,
    /// Objects that one step keeps.
    #[serde(default)]
    pub keeps_per_step: BTreeMap<String, u64>,
    /// Objects of the array's kind that a call holds within a step only.
    #[serde(default)]
    pub peak_per_call: u64,
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
    /// Bytes per call.
    pub bytes_per_call: [f64; 2],
}

/// Knob values as a run uses them.
#[derive(Debug, Clone, PartialEq)]
pub struct Knobs(Map<String, Value>);

impl Knobs {
    /// An integer knob.
    pub fn integer(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_u64()
    }

    /// A choice knob.
    pub fn choice(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// All values, for the result row.
    pub fn to_map(&self) -> Map<String, Value> {
        self.0.clone()
    }
}

impl Scenario {
    /// Reads and checks a file's text.
    ///
    /// # Errors
    /// [`Error::Scenario`] with the file, the line and the mend.
    pub fn parse(name: &str, path: PathBuf, text: &str) -> Result<Self, Error> {
        let parsed: Result<Self, _> = serde_json::from_str(text);
        let scenario = parsed.map_err(|error| Error::Scenario {
            path: path.clone(),
            line: error.line().max(1),
            why: if error.is_eof() {
                format!("{error}; the file is cut off: restore it")
            } else {
                error.to_string()
            },
        })?;
        scenario.check(name).map_err(|(needle, why)| Error::Scenario {
            path,
            line: line_of(text, &needle),
            why,
        })?;
        Ok(scenario)
    }

    /// The arm of `name`.
    ///
    /// # Errors
    /// [`Error::Unknown`] with the near match.
    pub fn arm(&self, name: &str) -> Result<&Arm, Error> {
        let found = self.arms.iter().find(|arm| arm.name == name);
        found.ok_or_else(|| Error::unknown("arm", name, self.arms.iter().map(|arm| &*arm.name)))
    }

    /// An arm's knobs: defaults, then the arm's own, then `set`.
    ///
    /// # Errors
    /// [`Error::Unknown`] or [`Error::Knob`] for a knob or value that is not to be had.
    pub fn knobs(&self, arm: &Arm, set: &[(String, String)]) -> Result<Knobs, Error> {
        let mut values = Map::new();
        for (name, knob) in &self.knobs {
            let default = knob.get("default").cloned().unwrap_or_default();
            values.insert(name.clone(), default);
        }
        for (name, value) in &arm.knobs {
            values.insert(name.clone(), self.knob_value(name, value.clone())?);
        }
        for (name, text) in set {
            let value = match text.parse::<u64>() {
                Ok(number) => number.into(),
                Err(_) => Value::from(text.as_str()),
            };
            let value = self.knob_value(name, value)?;
            values.insert(name.clone(), value);
        }
        Ok(Knobs(values))
    }

    /// An arm's policies over those of release 2.10.0.
    ///
    /// # Errors
    /// The name of a policy or value that does not exist.
    pub fn policies(&self, arm: &Arm) -> Result<Policies, String> {
        let base = Policies::mindspore(Version::V2_10_0);
        let mut all = serde_json::to_value(base).map_err(|error| error.to_string())?;
        if let Some(fields) = all.as_object_mut() {
            fields.extend(arm.policies.clone());
        }
        serde_json::from_value(all).map_err(|error| error.to_string())
    }

    fn knob_value(&self, name: &str, value: Value) -> Result<Value, Error> {
        let knob = self.knobs.get(name);
        let knob = knob.ok_or_else(|| Error::unknown("knob", name, self.knobs.keys().map(|k| &**k)))?;
        let choices = knob.get("choices").and_then(Value::as_array);
        let (fits, allowed) = if let Some(choices) = choices {
            let names: Vec<&str> = choices.iter().filter_map(Value::as_str).collect();
            (choices.contains(&value), format!("it is one of {}", names.join(", ")))
        } else {
            let limit = |key| knob.get(key).and_then(Value::as_u64).unwrap_or_default();
            let (min, max) = (limit("min"), limit("max"));
            let fits = value.as_u64().is_some_and(|number| (min..=max).contains(&number));
            (fits, format!("it is a whole number from {min} to {max}"))
        };
        if fits {
            return Ok(value);
        }
        Err(Error::Knob {
            knob: name.to_owned(),
            value: value.as_str().map_or_else(|| value.to_string(), str::to_owned),
            allowed,
        })
    }

    /// What serde cannot see: the needle to look for in the text, and why.
    fn check(&self, name: &str) -> Result<(), (String, String)> {
        let fail = |needle: &str, why: String| Err((needle.to_owned(), why));
        if self.schema_version != SCHEMA_VERSION {
            return fail("schema_version", format!("schema_version must be {SCHEMA_VERSION}"));
        }
        if self.name != name {
            return fail("name", format!("the name must be its folder's, '{name}'"));
        }
        if self.plan.steps == 0 || self.plan.samples == 0 {
            return fail("plan", "steps and samples must be at least 1".to_owned());
        }
        if self.real.every == 0 || !self.real.steps.is_multiple_of(self.real.every) {
            return fail("every", "steps must be a multiple of every".to_owned());
        }
        let calls = self.knobs.get(&self.calls_per_step).and_then(|knob| knob.get("max"));
        if calls.is_none() {
            return fail("calls_per_step", "it must name an integer knob".to_owned());
        }
        for (knob, spec) in &self.knobs {
            let default = spec.get("default").cloned().unwrap_or_default();
            if let Err(error) = self.knob_value(knob, default) {
                return fail(knob, error.to_string());
            }
        }
        for arm in &self.arms {
            self.check_arm(arm)?;
        }
        for wanted in [&self.real.control].into_iter().chain(self.releases.values()) {
            if let Err(error) = self.arm(wanted) {
                return fail(wanted, error.to_string());
            }
        }
        Ok(())
    }

    fn check_arm(&self, arm: &Arm) -> Result<(), (String, String)> {
        if let Err(error) = self.knobs(arm, &[]) {
            return Err((arm.name.clone(), format!("arm '{}': {error}", arm.name)));
        }
        if let Err(error) = self.policies(arm) {
            return Err((arm.name.clone(), format!("arm '{}': {error}", arm.name)));
        }
        let kept = arm.mock.keeps_per_call.keys().chain(arm.mock.keeps_per_step.keys());
        for kind in kept {
            if !self.block_bytes.contains_key(kind) {
                let why = format!("arm '{}' keeps '{kind}', which block_bytes lacks", arm.name);
                return Err((kind.clone(), why));
            }
        }
        Ok(())
    }
}

fn line_of(text: &str, needle: &str) -> usize {
    let quoted = format!("\"{needle}\"");
    let at = text.find(&quoted).unwrap_or_default();
    text[..at].lines().count().max(1)
}
