//! Judges what the processes of a real framework wrote.

use std::collections::BTreeMap;

use mockspore::Device;
use mockspore_growth::compare::difference;
use mockspore_growth::protocol::THREAD_NET;
use mockspore_growth::report::{Compare, Row, Run};
use mockspore_growth::{Error as GrowthError, Series, Slope, Verdict};
use serde_json::Map;

use crate::error::Error;
use crate::model::Model;
use crate::scenario::{Arm, Knobs, RealExpectation, Scenario};

/// The steps between which a process reads, from the Runtime's birth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Steps before the first reading.
    pub from: u64,
    /// Steps before the last reading.
    pub to: u64,
    /// Steps between two readings.
    pub every: u64,
}

impl Window {
    /// The steps at which a process reads, counted from its first reading.
    fn grid(self) -> impl Iterator<Item = u64> {
        (0..=self.to - self.from).step_by(self.every.max(1) as usize)
    }
}

/// The readings of one process: one arm in one round.
#[derive(Debug)]
pub struct Process {
    /// What ran.
    pub run: Run,
    series: BTreeMap<String, Series>,
    knobs: Knobs,
    calls_per_step: u64,
}

impl Process {
    /// Collects the rows that one process wrote when asked for `arm`.
    ///
    /// # Errors
    /// [`Error::Measurement`] if rows are missing, lie off the grid that was
    /// asked for, or belong to another arm.
    pub fn new(
        scenario: &Scenario,
        arm: &Arm,
        window: Window,
        rows: Vec<Row>,
    ) -> Result<Self, Error> {
        let mut run = None;
        let mut readings: BTreeMap<String, (Vec<u64>, Vec<f64>)> = BTreeMap::new();
        for row in rows {
            match row {
                Row::Run(row) => run = Some(row),
                Row::Sample(sample) => {
                    for (metric, value) in sample.metrics {
                        let (steps, values) = readings.entry(metric).or_default();
                        steps.push(sample.step);
                        values.push(value.as_f64().unwrap_or(f64::NAN));
                    }
                }
                _ => {}
            }
        }
        let broken = |why: &str| GrowthError::BrokenGrid(why.to_owned());
        let run = run.ok_or_else(|| broken("the process wrote no run row"))?;
        if (&*run.scenario, &*run.arm) != (&*scenario.name, &*arm.name) {
            let why = format!(
                "asked for {}/{}, it ran {}/{}",
                scenario.name, arm.name, run.scenario, run.arm
            );
            return Err(broken(&why).into());
        }
        let off_grid = |(_, (steps, _)): &(&String, &(Vec<u64>, Vec<f64>))| {
            !steps.iter().copied().eq(window.grid())
        };
        if let Some((metric, (steps, _))) = readings.iter().find(off_grid) {
            let why = format!("{metric}: read at steps {steps:?}, not on the grid asked for");
            return Err(broken(&why).into());
        }
        let knobs = Knobs::from_row(&run.knobs);
        let own = knobs.integer(&scenario.calls_per_step);
        // On the mock all ranks are in one process, on the framework each is its own.
        let ranks = match (&scenario.ranks, run.backend == "mockspore") {
            (Some(knob), true) => knobs.integer(knob),
            _ => Some(1),
        };
        let calls_per_step = own.zip(ranks).map(|(calls, ranks)| calls * ranks);
        let calls_per_step =
            calls_per_step.ok_or_else(|| broken("the run row lacks the calls per step"))?;
        let series = readings.into_iter().map(|(metric, (steps, values))| {
            Ok((metric.clone(), Series::new(metric, steps, values)?))
        });
        Ok(Self {
            run,
            knobs,
            series: series.collect::<Result<_, GrowthError>>()?,
            calls_per_step,
        })
    }

    /// Growth of a metric per call over the whole run.
    ///
    /// # Errors
    /// [`Error::Measurement`] if the metric is missing.
    pub fn per_call(&self, metric: &str) -> Result<f64, Error> {
        let slope = self.series(metric)?.mean_slope();
        slope
            .map(|slope| slope / self.calls_per_step as f64)
            .ok_or_else(|| {
                GrowthError::BrokenGrid(format!("{metric}: fewer than 2 readings")).into()
            })
    }

    /// Growth of a metric per call in each window between two readings.
    ///
    /// # Errors
    /// [`Error::Measurement`] if the metric is missing.
    pub fn per_call_by_window(&self, metric: &str) -> Result<Vec<f64>, Error> {
        let series = self.series(metric)?;
        let calls = series.interval() * self.calls_per_step as f64;
        let windows = series.values().windows(2);
        Ok(windows.map(|pair| (pair[1] - pair[0]) / calls).collect())
    }

    fn series(&self, metric: &str) -> Result<&Series, Error> {
        let found = self.series.get(metric);
        found.ok_or_else(|| GrowthError::BrokenGrid(format!("{metric} was not read")).into())
    }
}

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
    // A declared cap that the run does not cover leaves it open what is to come.
    let model = processes
        .first()
        .map(|one| Model::new(scenario, arm, &one.knobs, device_of(&run.device)));
    let uncovered = model.and_then(|model| model.cap_uncovered(window.to));
    let verdict = if uncovered.is_some() {
        Verdict::Inconclusive
    } else {
        found.verdict
    };
    let (expected, [low, high]) = expectation.of(&run.version);
    let in_range = (low..=high).contains(&slope.value);
    // One round cannot narrow an interval over windows that a rehash widens.
    let narrow = !by_round || slope.hi - slope.lo < scenario.real.max_interval_per_call;
    let mut evidence = Map::new();
    let pairs = if by_round { "rounds" } else { "windows" };
    evidence.insert("paired_by".to_owned(), pairs.into());
    evidence.insert("expected_range".to_owned(), vec![low, high].into());
    evidence.insert("in_range".to_owned(), in_range.into());
    evidence.insert("narrow_enough".to_owned(), narrow.into());
    evidence.extend(uncovered.map(|why| ("cap".to_owned(), why.into())));
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
        as_expected: in_range && narrow && verdict == expected,
        evidence,
    })
}

/// The first of the scenario's metrics that every process has read.
fn deciding_metric<'a>(scenario: &'a Scenario, processes: &[Process]) -> Result<&'a str, Error> {
    let metrics = &scenario.real.metrics;
    let read = |metric: &&String| {
        processes
            .iter()
            .all(|one| one.series.contains_key(&***metric))
    };
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
    let device = device_of(&process.run.device);
    let model = Model::new(scenario, arm, &process.knobs, device);
    let expectation = arm.expectation(device);
    let at = |step| match metric {
        THREAD_NET => model.block_bytes(step) + model.array_bytes(step),
        _ => model.objects(&scenario.primary, step),
    };
    let calls = (window.to - window.from) * process.calls_per_step;
    let declared = (at(window.to) - at(window.from)) as f64 / calls as f64;
    let mut evidence = Map::new();
    evidence.insert("declared".to_owned(), declared.into());
    let verdict = if measured > 0.0 {
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
        as_expected: (measured - declared).abs() < 1e-9 && verdict == expectation.verdict,
        evidence,
    })
}

/// The device of a row.
pub fn device_of(name: &str) -> Device {
    match name {
        "Ascend" => Device::Ascend,
        _ => Device::Cpu,
    }
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
        expected: arm
            .real
            .as_ref()
            .map_or(Verdict::Invalid, |real| real.verdict),
        as_expected: false,
        evidence,
    }
}
