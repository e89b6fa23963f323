//! How the script is run on a real framework.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

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
    /// Knobs that are set there, unless the user sets them.
    #[serde(default)]
    set: BTreeMap<String, Value>,
    /// Knobs that are set besides where the script runs on the mock, whose other
    /// ranks are replicas that take part in collectives only.
    #[serde(default)]
    set_on_mock: BTreeMap<String, Value>,
    /// Environment variables of the processes.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
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
    /// The knob that each arm's range is for one of, if it is.
    pub per_call_times: Option<String>,
    /// Whether the mock's blocks predict the metric's bytes; not where the mock
    /// has other block sizes than the framework.
    #[serde(default = "yes")]
    pub predicts: bool,
    /// The reports' own shape of the loop, with its confounder.
    pub report_baseline: Option<ReportBaseline>,
}

impl RealPlan {
    /// The knobs that are set there, as a command line has them.
    pub fn set(&self) -> Vec<(String, String)> {
        self.set.iter().map(assignment).collect()
    }

    /// The same with what is set where the script runs on the mock.
    pub fn set_on_mock(&self) -> Vec<(String, String)> {
        self.set_on_mock.iter().map(assignment).collect()
    }
}

fn assignment((name, value): (&String, &Value)) -> (String, String) {
    let text = value.as_str().map(str::to_owned);
    (name.clone(), text.unwrap_or_else(|| value.to_string()))
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

fn yes() -> bool {
    true
}
