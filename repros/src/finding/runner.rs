//! Runs one arm and compares its finding with the declared one.

use mockspore::{Policies, Version};
use mockspore_growth::report::{Finding, Row, Run, Sample, VerdictRow};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::finding::{Arm, Entry, Observed, Scenario, Setting};

/// What one run is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// The arm's name in results.
    pub name: String,
    /// The release in results.
    pub version: String,
    /// The policies.
    pub policies: Policies,
    /// Seed of the values.
    pub seed: u64,
}

impl Request {
    /// The arm as declared.
    ///
    /// # Errors
    /// [`Error::Scenario`] for a policy that does not exist.
    pub fn arm(scenario: &Scenario, arm: &Arm) -> Result<Self, Error> {
        let policies = scenario.policies(arm).map_err(|why| Error::Scenario {
            path: "scenario.json".into(),
            line: 1,
            why,
        })?;
        Ok(Self {
            name: arm.name.clone(),
            version: Version::V2_10_0.number().to_owned(),
            policies,
            seed: 1,
        })
    }
}

/// Runs `request`; its rows, and what was observed. The finding must be that
/// of `arm`.
///
/// # Errors
/// [`Error::Runtime`] if the mock raises what the arm does not expect.
pub fn run(
    entry: Entry,
    scenario: &Scenario,
    arm: &Arm,
    request: &Request,
) -> Result<(Vec<Row>, Observed), Error> {
    let knobs = scenario.knobs(arm);
    let setting = Setting {
        policies: request.policies,
        knobs: &knobs,
        seed: request.seed,
    };
    let observed = entry.observe(&setting)?;
    let mut rows = vec![Row::Run(Run {
        scenario: scenario.name.clone(),
        arm: request.name.clone(),
        role: arm.role.name().to_owned(),
        backend: "mockspore".to_owned(),
        version: request.version.clone(),
        mockspore_version: env!("CARGO_PKG_VERSION").to_owned(),
        device: "CPU".to_owned(),
        seed: request.seed,
        knobs: knobs.to_map(),
        steps: 1,
    })];
    rows.extend(observed.phases.iter().map(|(phase, metrics)| {
        Row::Sample(Sample {
            scenario: scenario.name.clone(),
            arm: request.name.clone(),
            backend: "mockspore".to_owned(),
            step: 1,
            phase: phase.clone(),
            metrics: metrics.clone(),
        })
    }));
    rows.push(Row::Verdict(verdict(scenario, arm, request, &observed)));
    Ok((rows, observed))
}

fn verdict(scenario: &Scenario, arm: &Arm, request: &Request, observed: &Observed) -> VerdictRow {
    let mut evidence = observed.evidence.clone();
    let differs = differences(&arm.finding, &observed.finding);
    let as_expected = arm.finding == observed.finding;
    if !as_expected {
        evidence.insert("differs".to_owned(), differs.into());
    }
    VerdictRow {
        scenario: scenario.name.clone(),
        arm: request.name.clone(),
        backend: "mockspore".to_owned(),
        metric: "finding".to_owned(),
        verdict: None,
        finding: Some(observed.finding.clone()),
        shape: None,
        slope_per_step: None,
        per_call: None,
        bound: None,
        model_matches: None,
        expected: None,
        expected_finding: Some(arm.finding.clone()),
        as_expected,
        evidence,
    }
}

/// The figures that are not as declared, by name.
fn differences(declared: &Finding, found: &Finding) -> Map<String, Value> {
    let ((_, declared), (_, found)) = (declared.parts(), found.parts());
    let names = declared.keys().chain(found.keys());
    let differ = names.filter(|name| declared.get(*name) != found.get(*name));
    let pair = |name: &String| {
        let of = |figures: &Map<String, Value>| figures.get(name).cloned().unwrap_or_default();
        (name.clone(), vec![of(declared), of(found)].into())
    };
    differ.map(pair).collect()
}
