//! Scenarios without a slope: judged by phase, by result and by bounds.
//!
//! An arm is run once and shows a [`Finding`]; every figure of it is declared.

mod runner;
mod scenario;

use std::path::Path;

use mockspore::Policies;
use mockspore_growth::report::Finding;
use serde_json::{Map, Value};

use crate::error::Error;
use crate::scenario::{Knobs, file};

pub use runner::{Request, run};
pub use scenario::{Arm, Scenario};

/// What one run of an arm has shown.
#[derive(Debug, Clone)]
pub struct Observed {
    /// What it comes to.
    pub finding: Finding,
    /// Readings by phase, in order.
    pub phases: Vec<(String, Map<String, Value>)>,
    /// What decided, besides the phases.
    pub evidence: Map<String, Value>,
    /// Who holds what at the end, a line each.
    pub holders: Vec<String>,
}

impl Observed {
    /// A finding alone.
    pub fn of(finding: Finding) -> Self {
        Self {
            finding,
            phases: Vec::new(),
            evidence: Map::new(),
            holders: Vec::new(),
        }
    }
}

/// The object of a JSON literal, empty if it is none.
pub(crate) fn figures(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(figures) => figures,
        _ => Map::new(),
    }
}

/// What an arm is run with.
#[derive(Debug)]
pub struct Setting<'a> {
    /// The arm's policies.
    pub policies: Policies,
    /// Its knobs.
    pub knobs: &'a Knobs,
    /// Seed of the values.
    pub seed: u64,
}

impl Setting<'_> {
    /// The value of an integer knob, 0 if there is none.
    pub fn integer(&self, name: &str) -> u64 {
        self.knobs.integer(name).unwrap_or_default()
    }

    /// The value of a choice knob, empty if there is none.
    pub fn choice(&self, name: &str) -> &str {
        self.knobs.choice(name).unwrap_or_default()
    }
}

type Observe = fn(&Setting<'_>) -> Result<Observed, mockspore::Error>;

/// A scenario of this kind that can run on the mock.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The one name: of folder, module, script, file and report.
    pub name: &'static str,
    json: &'static str,
    observe: Observe,
}

macro_rules! entry {
    ($name:ident) => {
        Entry {
            name: stringify!($name),
            json: include_str!(concat!("../../", stringify!($name), "/scenario.json")),
            observe: crate::$name::observe,
        }
    };
}

/// All of them, in the order they are listed and run.
pub const FINDINGS: [Entry; 3] = [
    entry!(moe_monitor_register),
    entry!(ep_combine_handle),
    entry!(mega_moe_core_bound),
];

impl Entry {
    /// The entry of `name`, if it is one of these.
    pub fn find(name: &str) -> Option<Self> {
        FINDINGS.into_iter().find(|entry| entry.name == name)
    }

    /// Runs an arm.
    ///
    /// # Errors
    /// What the mock raises that the arm does not expect.
    pub fn observe(self, setting: &Setting<'_>) -> Result<Observed, mockspore::Error> {
        (self.observe)(setting)
    }

    /// Its `scenario.json`: the built-in one, or `<dir>/<name>/scenario.json`.
    ///
    /// # Errors
    /// [`Error::Scenario`] with file and line.
    pub fn scenario(self, dir: Option<&Path>) -> Result<Scenario, Error> {
        let (path, text) = file::read(self.name, dir, self.json)?;
        Scenario::parse(self.name, path, &text)
    }
}
