//! The rows of a result file: JSON lines with a stable key order.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::judge::{Shape, Slope, Verdict};

/// Version of the rows' schema.
pub const SCHEMA_VERSION: u32 = 1;

/// One row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Row {
    /// What ran.
    Run(Run),
    /// Deterministic readings after one step.
    Sample(Sample),
    /// Readings outside the promise of byte-identical runs.
    Observation(Sample),
    /// The judgement of one metric.
    Verdict(VerdictRow),
    /// The judgement of one arm against its control.
    Compare(Compare),
}

/// What ran, and with which settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The scenario.
    pub scenario: String,
    /// The arm.
    pub arm: String,
    /// The arm's role: control, defect, fix and so on.
    pub role: String,
    /// `mockspore` or `mindspore`.
    pub backend: String,
    /// The framework's version, or the one whose policies the mock has.
    pub version: String,
    /// This project's version.
    pub mockspore_version: String,
    /// `CPU` or `Ascend`.
    pub device: String,
    /// Seed of the values.
    pub seed: u64,
    /// Knobs as used.
    pub knobs: Map<String, Value>,
    /// Steps run.
    pub steps: u64,
}

/// Readings after one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The scenario.
    pub scenario: String,
    /// The arm.
    pub arm: String,
    /// `mockspore` or `mindspore`.
    pub backend: String,
    /// Steps done.
    pub step: u64,
    /// Point within the step.
    pub phase: String,
    /// Readings by metric.
    pub metrics: Map<String, Value>,
}

/// Objects and bytes that one call keeps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PerCall {
    /// Objects of the scenario's primary kind.
    pub objects: f64,
    /// Bytes of blocks of fixed size.
    pub bytes: f64,
    /// Bytes of arrays that grow by leaps.
    pub array_bytes: f64,
}

/// What a scenario without a slope shows, in place of a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// How long something is held, and how much of it.
    RetainedUntil(Map<String, Value>),
    /// How often something is registered, and what comes of it.
    RegisteredTimes(Map<String, Value>),
    /// What lies beyond the end of an area.
    OutOfBounds(Map<String, Value>),
}

impl Finding {
    /// Its name and its figures.
    pub fn parts(&self) -> (&'static str, &Map<String, Value>) {
        match self {
            Self::RetainedUntil(figures) => ("retained_until", figures),
            Self::RegisteredTimes(figures) => ("registered_times", figures),
            Self::OutOfBounds(figures) => ("out_of_bounds", figures),
        }
    }
}

/// The judgement of one metric of one arm: a verdict, or a finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerdictRow {
    /// The scenario.
    pub scenario: String,
    /// The arm.
    pub arm: String,
    /// `mockspore` or `mindspore`.
    pub backend: String,
    /// The metric.
    pub metric: String,
    /// The verdict on its series.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The finding, where there is no series.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<Finding>,
    /// The shape.
    pub shape: Option<Shape>,
    /// Slope per step.
    pub slope_per_step: Option<Slope>,
    /// What one call keeps.
    pub per_call: Option<PerCall>,
    /// The highest reading of a bounded series.
    pub bound: Option<f64>,
    /// Whether the series equals the declared model, reading by reading.
    pub model_matches: Option<bool>,
    /// The verdict that the scenario declares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Verdict>,
    /// The finding that the scenario declares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_finding: Option<Finding>,
    /// Whether verdict, shape, figures and model, or the finding, are as declared.
    pub as_expected: bool,
    /// What decided.
    pub evidence: Map<String, Value>,
}

/// The judgement of one arm against its control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compare {
    /// The scenario.
    pub scenario: String,
    /// The arm.
    pub arm: String,
    /// The control it is compared with.
    pub control: String,
    /// `mockspore` or `mindspore`.
    pub backend: String,
    /// The framework's version.
    pub version: String,
    /// `CPU` or `Ascend`.
    pub device: String,
    /// The metric.
    pub metric: String,
    /// Difference per call.
    pub difference_per_call: Option<Slope>,
    /// The verdict.
    pub verdict: Verdict,
    /// The verdict that the scenario declares.
    pub expected: Verdict,
    /// Whether verdict and figures are as declared.
    pub as_expected: bool,
    /// What decided.
    pub evidence: Map<String, Value>,
}

/// The row as one JSON line, `schema_version` first.
///
/// A figure that is no finite number becomes `null`, as JSON has none.
///
/// # Errors
/// Those of the JSON library; these rows cause none.
pub fn to_line(row: &Row) -> serde_json::Result<String> {
    let mut line = Map::new();
    line.insert("schema_version".to_owned(), SCHEMA_VERSION.into());
    if let Value::Object(fields) = serde_json::to_value(row)? {
        line.extend(fields);
    }
    serde_json::to_string(&line)
}

/// Reads a result file; blank lines are allowed.
///
/// # Errors
/// [`Error::Malformed`] with the file and line of the first bad row.
pub fn read(path: &Path) -> Result<Vec<Row>, Error> {
    let bad = |line, why, mend| Error::Malformed {
        path: path.to_owned(),
        line,
        why,
        mend,
    };
    let text = fs::read_to_string(path)
        .map_err(|error| bad(1, error.to_string(), "give a file of JSON lines"))?;
    let lines = (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty());
    let rows = lines.map(|(number, line)| {
        let fields: Value = serde_json::from_str(line).map_err(|error| {
            let mend = if error.is_eof() {
                "the line is cut off: run again, or delete it"
            } else {
                "each line must be one JSON object"
            };
            bad(number, error.to_string(), mend)
        })?;
        let version = fields.get("schema_version").and_then(Value::as_u64);
        if version != Some(u64::from(SCHEMA_VERSION)) {
            let why = format!("schema_version is not {SCHEMA_VERSION}");
            return Err(bad(number, why, "write it with this version of mockspore"));
        }
        serde_json::from_value(fields).map_err(|error| {
            bad(
                number,
                error.to_string(),
                "see the result format in README.md",
            )
        })
    });
    rows.collect()
}
