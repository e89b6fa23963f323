//! `scenario.json` of a scenario that is judged by its finding.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mockspore::Policies;
use mockspore_growth::report::Finding;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::Error;
use crate::scenario::file::{self, Complaint};
use crate::scenario::{Knobs, Role, policies_over};

/// Version of the file's schema.
const SCHEMA_VERSION: u32 = 1;

/// How the file says that it is one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum JudgedBy {
    Finding,
}

/// A scenario as its file declares it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    schema_version: u32,
    #[serde(rename = "judged_by")]
    _judged_by: JudgedBy,
    /// The one name.
    pub name: String,
    /// What it shows, in a line.
    pub title: String,
    /// The upstream files it models.
    pub sources: Vec<String>,
    /// What the report says, and what was found to be so.
    pub reported: Vec<Reported>,
    /// What arms set, with defaults.
    pub knobs: BTreeMap<String, Knob>,
    /// The arms, in the order they are run.
    pub arms: Vec<Arm>,
    /// Release to the arm whose finding it must show.
    pub releases: BTreeMap<String, String>,
}

/// A statement of the report beside ours.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reported {
    /// What the report says.
    pub says: String,
    /// What the mock and the real library show.
    pub found: String,
}

/// What an arm may set.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Knob {
    /// What it is.
    pub about: String,
    /// Its value where an arm sets none.
    pub default: Value,
    /// Of a number: the least.
    pub min: Option<u64>,
    /// Of a number: the most.
    pub max: Option<u64>,
    /// Of a choice: all there are.
    #[serde(default)]
    pub choices: Vec<String>,
}

impl Knob {
    /// Whether it can have that value; if not, what it may be.
    fn takes(&self, value: &Value) -> Result<(), String> {
        if let (Some(min), Some(max)) = (self.min, self.max) {
            let number = value.as_u64();
            let fits = number.is_some_and(|number| (min..=max).contains(&number));
            let why = || format!("it is a whole number from {min} to {max}, not {value}");
            return fits.then_some(()).ok_or_else(why);
        }
        let known = self.choices.iter().any(|choice| value == choice);
        let why = || format!("it is one of {}, not {value}", self.choices.join(", "));
        known.then_some(()).ok_or_else(why)
    }
}

/// One arm: what is set, and the finding that must come of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// What it does, in a line.
    pub about: String,
    /// Policies that differ from release 2.10.0 and its callers.
    #[serde(default)]
    pub policies: Map<String, Value>,
    /// Knobs that differ from their defaults.
    #[serde(default)]
    pub knobs: Map<String, Value>,
    /// What the mock must show, figure by figure.
    pub finding: Finding,
    /// What a real library must show, by its name.
    #[serde(default)]
    pub real: BTreeMap<String, Real>,
}

/// What an arm shows on a real library.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Real {
    /// Figures of the mock's finding that are the same there.
    #[serde(default)]
    pub same: Vec<String>,
    /// Figures of the library's own.
    #[serde(default)]
    pub figures: Map<String, Value>,
}

impl Scenario {
    /// Reads and checks a file's text.
    ///
    /// # Errors
    /// [`Error::Scenario`] with the file, the line and the mend.
    pub fn parse(name: &str, path: PathBuf, text: &str) -> Result<Self, Error> {
        file::parse(path, text, |scenario: &Self| scenario.check(name))
    }

    fn check(&self, name: &str) -> Result<(), Complaint> {
        let require = |holds: bool, needle: &str, why: String| {
            holds.then_some(()).ok_or_else(|| (needle.to_owned(), why))
        };
        let version = format!("schema_version must be {SCHEMA_VERSION}");
        let known = self.schema_version == SCHEMA_VERSION;
        require(known, "schema_version", version)?;
        let own = format!("the name must be its folder's, '{name}'");
        require(self.name == name, "name", own)?;
        for (name, knob) in &self.knobs {
            let of_default = |why| (name.clone(), format!("the default of {name}: {why}"));
            knob.takes(&knob.default).map_err(of_default)?;
        }
        for arm in &self.arms {
            let twice = self.arms.iter().filter(|other| other.name == arm.name);
            let why = format!("two arms have the name '{}'", arm.name);
            require(twice.count() == 1, &arm.name, why)?;
            for (name, value) in &arm.knobs {
                let why = format!("arm '{}' sets '{name}', which knobs lacks", arm.name);
                let knob = self.knobs.get(name).ok_or((arm.name.clone(), why))?;
                let of_arm = |why| {
                    (
                        arm.name.clone(),
                        format!("arm '{}', {name}: {why}", arm.name),
                    )
                };
                knob.takes(value).map_err(of_arm)?;
            }
            let (_, figures) = arm.finding.parts();
            for figure in arm.real.values().flat_map(|real| &real.same) {
                let why = format!("arm '{}': its finding has no '{figure}'", arm.name);
                require(figures.contains_key(figure), figure, why)?;
            }
            let policies = self.policies(arm);
            policies.map_err(|why| (arm.name.clone(), format!("arm '{}': {why}", arm.name)))?;
        }
        let offered = self.releases.values();
        offered.into_iter().try_for_each(|wanted| {
            let found = self.arm(wanted).map(drop);
            found.map_err(|error| (wanted.clone(), error.to_string()))
        })
    }

    /// The arm of `name`.
    ///
    /// # Errors
    /// [`Error::Unknown`] with the near match.
    pub fn arm(&self, name: &str) -> Result<&Arm, Error> {
        let found = self.arms.iter().find(|arm| arm.name == name);
        found.ok_or_else(|| Error::unknown("arm", name, self.arms.iter().map(|arm| &*arm.name)))
    }

    /// An arm's knobs: defaults, then its own.
    pub fn knobs(&self, arm: &Arm) -> Knobs {
        let defaults = self.knobs.iter();
        let defaults = defaults.map(|(name, knob)| (name.clone(), knob.default.clone()));
        let mut values: Map<String, Value> = defaults.collect();
        values.extend(arm.knobs.clone());
        Knobs::from_row(&values)
    }

    /// An arm's policies over those of release 2.10.0 and its callers.
    ///
    /// # Errors
    /// The name of a policy or value that does not exist.
    pub fn policies(&self, arm: &Arm) -> Result<Policies, String> {
        policies_over(&arm.policies)
    }
}
