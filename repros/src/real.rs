//! Judges what the processes of a real framework wrote.

use mockspore::Device;
use mockspore_growth::compare::difference;
use mockspore_growth::protocol::THREAD_NET;
use mockspore_growth::report::{Compare, Run};
use mockspore_growth::{Error as GrowthError, Slope, Verdict};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::model::Model;
pub use crate::process::{Process, Window};
use crate::scenario::{Arm, RealExpectation, Scenario};

/// Compares an arm with its control on the scenario's metric: round by round,
/// or window by window where there is but one round.
///
/// # Errors
/// [`Error::Measurement`] if readings are missing.
pub fn compare(
    scenario: &Scenario,
    arm: &Arm,
    expectation: &RealExpectation,
    processes: &[Process],
    controls: Option<&[Process]>,
    window: Window,
) -> Result<Compare, Error> {
    let metric = deciding_metric(scenario, processes)?;
    let tolerance = scenario.real.tolerance_per_call;
    let by_round = processes.len() > 1;
    let figures = |all: &[Process]| -> Result<Vec<f64>, Error> {
        match all {
            many if by_round => many
                .iter()
                .map(|process| process.per_call(metric))
                .collect(),
            [only, ..] => only.per_call_by_window(metric),
            [] => Ok(Vec::new()),
        }
    };
    let missing = || GrowthError::BrokenGrid(format!("{}: fewer than 2 readings", arm.name));
    let own = figures(processes)?;
    // The control itself is compared with no growth at all.
    let control = controls.map_or_else(|| Ok(vec![0.0; own.len()]), figures)?;
    let found = difference(&own, &control, tolerance).ok_or_else(missing)?;
    let slope = found.per_call;
    let run = processes
        .first()
        .map(|process| process.run.clone())
        .ok_or_else(missing)?;
    let device = device_of(&run)?;
    // A declared cap that the run does not cover leaves it open what is to come.
    let model = processes
        .first()
        .map(|one| Model::new(scenario, arm, one.knobs(), device));
    let uncovered = model.and_then(|model| model.cap_uncovered(window.to));
    let verdict = if uncovered.is_some() {
        Verdict::Inconclusive
    } else {
        found.verdict
    };
    let (expected, range) = expectation.of(&run.version, device);
    let times = scenario.real.per_call_times.as_ref();
    let times = times
        .zip(processes.first())
        .and_then(|(knob, one)| one.knobs().integer(knob));
    let [low, high] = range.map(|end| end * times.unwrap_or(1) as f64);
    let falls = expectation.falls.map(|falls| {
        let shown = processes.iter().map(|one| one.shows(metric, falls));
        shown.collect::<Result<Vec<bool>, Error>>()
    });
    let falls = falls.transpose()?;
    let in_range = (low..=high).contains(&slope.value);
    // One round cannot narrow an interval over windows that a rehash widens.
    let narrow = !by_round || slope.hi - slope.lo < scenario.real.max_interval_per_call;
    let mut evidence = Map::new();
    let pairs = if by_round { "rounds" } else { "windows" };
    evidence.insert("paired_by".to_owned(), pairs.into());
    evidence.insert("expected_range".to_owned(), vec![low, high].into());
    evidence.insert("in_range".to_owned(), in_range.into());
    evidence.insert("narrow_enough".to_owned(), narrow.into());
    let falls_as_declared = falls
        .clone()
        .map(|shown| ("falls_as_declared".to_owned(), shown.into()));
    evidence.extend(falls_as_declared);
    if let (Some(declared), Some(first)) = (expectation.falls, processes.first()) {
        let found = first.falls(metric, declared.bytes[0])?;
        let found = found.into_iter().map(|(calls, size)| vec![calls, size]);
        evidence.insert("falls".to_owned(), found.collect::<Vec<_>>().into());
    }
    evidence.extend(uncovered.map(|why| ("cap".to_owned(), why.into())));
    let counted = counters(scenario, arm, window, processes, &mut evidence)?;
    Ok(Compare {
        scenario: scenario.name.clone(),
        arm: arm.name.clone(),
        control: scenario.real.control.clone(),
        backend: run.backend,
        version: run.version,
        device: run.device,
        metric: metric.to_owned(),
        difference_per_call: Some(slope),
        verdict,
        expected,
        as_expected: in_range
            && narrow
            && counted
            && verdict == expected
            && falls.is_none_or(|shown| shown.into_iter().all(|shown| shown)),
        evidence,
    })
}

/// The first of the scenario's metrics that every process has read.
fn deciding_metric<'a>(scenario: &'a Scenario, processes: &[Process]) -> Result<&'a str, Error> {
    let metrics = &scenario.real.metrics;
    let read = |metric: &&String| processes.iter().all(|one| one.has(metric));
    let found = metrics.iter().find(|metric| read(metric));
    found.map(String::as_str).ok_or_else(|| {
        GrowthError::BrokenGrid(format!("none of {} was read", metrics.join(", "))).into()
    })
}

/// Judges the same script on the Python module of the mock, where the growth of
/// the thread's net bytes must be exactly the declared one.
///
/// # Errors
/// [`Error::Measurement`] if readings are missing.
pub fn compare_mock(
    scenario: &Scenario,
    arm: &Arm,
    window: Window,
    processes: &[Process],
) -> Result<Compare, Error> {
    let process = processes.first();
    let process = process.ok_or_else(|| GrowthError::BrokenGrid("no process".to_owned()))?;
    let metric = &*scenario.real.mock_metric;
    let measured = process.per_call(metric)?;
    let device = device_of(&process.run)?;
    let model = Model::new(scenario, arm, process.knobs(), device);
    let expectation = arm.expectation(device);
    let at = |step| match metric {
        THREAD_NET => model.block_bytes(step) + model.array_bytes(step),
        _ => model.objects(&scenario.primary, step),
    };
    let calls = (window.to - window.from) * process.calls_per_step();
    let declared = (at(window.to) - at(window.from)) as f64 / calls as f64;
    let mut evidence = Map::new();
    evidence.insert("declared".to_owned(), declared.into());
    let counted = counters(scenario, arm, window, processes, &mut evidence)?;
    let verdict = if model.cap_uncovered(window.to).is_some() {
        Verdict::Inconclusive
    } else if measured > scenario.real.tolerance_per_call {
        Verdict::Growth
    } else {
        Verdict::Plateau
    };
    Ok(Compare {
        scenario: scenario.name.clone(),
        arm: arm.name.clone(),
        control: scenario.real.control.clone(),
        backend: process.run.backend.clone(),
        version: process.run.version.clone(),
        device: process.run.device.clone(),
        metric: metric.to_owned(),
        difference_per_call: Some(Slope {
            value: measured,
            lo: measured,
            hi: measured,
        }),
        verdict,
        expected: expectation.verdict,
        as_expected: (measured - declared).abs() < 1e-9
            && counted
            && verdict == expectation.verdict,
        evidence,
    })
}

/// Whether every process has counted what the model says; what the first one
/// counted in a step is evidence.
fn counters(
    scenario: &Scenario,
    arm: &Arm,
    window: Window,
    processes: &[Process],
    evidence: &mut Map<String, Value>,
) -> Result<bool, Error> {
    let mut all = true;
    for (round, process) in processes.iter().enumerate() {
        let model = Model::new(scenario, arm, process.knobs(), device_of(&process.run)?);
        let counted = process.counted(scenario, &model, window)?;
        // Whole numbers: an unread one is NaN and equals nothing.
        let equal = |found: f64, expected: f64| found.total_cmp(&expected).is_eq();
        let steps = (window.to - window.from) as f64;
        for (metric, found, expected) in counted {
            all &= equal(found, expected);
            if round == 0 || !equal(found, expected) {
                let per_step = vec![found / steps, expected / steps];
                evidence.insert(metric, per_step.into());
            }
        }
    }
    Ok(all)
}

/// The device that a process says it ran on.
fn device_of(run: &Run) -> Result<Device, Error> {
    Device::named(&run.device).ok_or_else(|| {
        let why = format!("the run row names an unknown device '{}'", run.device);
        GrowthError::BrokenGrid(why).into()
    })
}

/// The row of an arm whose measurement is unusable.
pub fn invalid(scenario: &Scenario, arm: &Arm, backend: &str, device: &str, why: &str) -> Compare {
    let mut evidence = Map::new();
    evidence.insert("why".to_owned(), why.into());
    Compare {
        scenario: scenario.name.clone(),
        arm: arm.name.clone(),
        control: scenario.real.control.clone(),
        backend: backend.to_owned(),
        version: String::new(),
        device: device.to_owned(),
        metric: scenario.real.metrics.join(" or "),
        difference_per_call: None,
        verdict: Verdict::Invalid,
        expected: match (&arm.real, Device::named(device)) {
            (Some(real), Some(device)) => real.of("", device).0,
            _ => Verdict::Invalid,
        },
        as_expected: false,
        evidence,
    }
}
