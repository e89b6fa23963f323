//! What one process of a real framework wrote: its readings, on its grid.

use std::collections::BTreeMap;

use mockspore_growth::report::{Row, Run};
use mockspore_growth::{Error as GrowthError, Series};

use crate::error::Error;
use crate::model::Model;
use crate::scenario::{Arm, Falls, Knobs, Scenario};

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

    /// What the script itself counted of one rank in the whole window, by the
    /// scenario's counters, beside what the model says.
    ///
    /// # Errors
    /// [`Error::Measurement`] if a metric has no two readings.
    pub fn counted(
        &self,
        scenario: &Scenario,
        model: &Model<'_>,
        window: Window,
    ) -> Result<Vec<(String, f64, f64)>, Error> {
        let own = scenario.counters.iter().filter_map(|counter| {
            let (_, name) = counter.split_once('.')?;
            let metric = format!("step.{name}");
            self.has(&metric).then_some((counter, metric))
        });
        let counted = own.map(|(counter, metric)| {
            let values = self.series(&metric)?.values();
            let found = values
                .last()
                .zip(values.first())
                .map(|(to, from)| to - from);
            let of_ranks = model.count(counter, window.to) - model.count(counter, window.from);
            let expected = of_ranks as f64 / model.ranks() as f64;
            Ok((metric, found.unwrap_or(f64::NAN), expected))
        });
        counted.collect()
    }

    /// Whether a metric was read.
    pub fn has(&self, metric: &str) -> bool {
        self.series.contains_key(metric)
    }

    /// Knobs as the process used them.
    pub fn knobs(&self) -> &Knobs {
        &self.knobs
    }

    /// Calls that one step of this process makes.
    pub fn calls_per_step(&self) -> u64 {
        self.calls_per_step
    }

    /// The falls of a metric larger than `least`: the call after which each is
    /// seen, and its size with the rise between two readings added.
    ///
    /// # Errors
    /// [`Error::Measurement`] if the metric is missing.
    pub fn falls(&self, metric: &str, least: f64) -> Result<Vec<(f64, f64)>, Error> {
        let series = self.series(metric)?;
        let moves = series.values().windows(2).map(|pair| pair[1] - pair[0]);
        let falls = |step: &f64| *step <= -least / 2.0;
        let mut rises: Vec<f64> = moves.clone().filter(|step| !falls(step)).collect();
        rises.sort_by(f64::total_cmp);
        let rise = rises.get(rises.len() / 2).copied().unwrap_or_default();
        let calls = series.steps().iter().skip(1);
        let calls = calls.map(|step| (step * self.calls_per_step) as f64);
        let found = moves.zip(calls).filter(|(step, _)| falls(step));
        Ok(found.map(|(step, calls)| (calls, rise - step)).collect())
    }

    /// Whether a metric falls as declared: at least three times, each time by
    /// the declared size, and with the declared period, give or take a reading.
    ///
    /// # Errors
    /// [`Error::Measurement`] if the metric is missing.
    pub fn shows(&self, metric: &str, declared: Falls) -> Result<bool, Error> {
        let [least, most] = declared.bytes;
        let found = self.falls(metric, least)?;
        let reading = self.series(metric)?.interval() * self.calls_per_step as f64;
        let sized = found.iter().all(|(_, size)| (least..=most).contains(size));
        let in_time =
            |pair: &[(f64, f64)]| (pair[1].0 - pair[0].0 - declared.period as f64).abs() <= reading;
        Ok(found.len() > 2 && sized && found.windows(2).all(in_time))
    }

    fn series(&self, metric: &str) -> Result<&Series, Error> {
        let found = self.series.get(metric);
        found.ok_or_else(|| GrowthError::BrokenGrid(format!("{metric} was not read")).into())
    }
}
