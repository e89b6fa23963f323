//! Runs one arm on the mock and judges every series it reads.

use mockspore::{Device, Policies, Runtime, Version};
use mockspore_growth::judge::{self, Cap};
use mockspore_growth::probe::jemalloc::{Heap, nallocx};
use mockspore_growth::protocol::{Grid, Recorder, THREAD_NET, UNATTRIBUTED};
use mockspore_growth::report::{PerCall, Row, Run, Sample, VerdictRow};
use mockspore_growth::{Counters, Series, Shape, Verdict};
use serde_json::{Map, Value};

use crate::census::CensusCounters;
use crate::error::Error;
use crate::mock::Setting;
use crate::model::Model;
use crate::registry::Entry;
use crate::scenario::{Arm, Knobs, MockExpectation, Scenario};

/// What one run is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// The arm's name in results.
    pub name: String,
    /// The release in results.
    pub version: String,
    /// The runtime's and the caller's policies.
    pub policies: Policies,
    /// The device.
    pub device: Device,
    /// Knobs as used.
    pub knobs: Knobs,
    /// Steps to run.
    pub steps: u64,
    /// Seed of the values.
    pub seed: u64,
}

impl Request {
    /// The arm as declared, with some knobs set.
    ///
    /// # Errors
    /// If a knob or its value does not exist.
    pub fn arm(scenario: &Scenario, arm: &Arm, set: &[(String, String)]) -> Result<Self, Error> {
        let policies = scenario.policies(arm).map_err(|why| Error::Scenario {
            path: "scenario.json".into(),
            line: 1,
            why,
        })?;
        Ok(Self {
            name: arm.name.clone(),
            version: Version::V2_10_0.number().to_owned(),
            policies,
            device: arm.device,
            knobs: scenario.knobs(arm, set)?,
            steps: arm.plan.unwrap_or(scenario.plan).steps,
            seed: 1,
        })
    }
}

/// Readings outside the promise of identical runs, by metric. Plain values:
/// they must not allocate between two readings of the thread's net bytes.
pub type Observed = [Option<(&'static str, u64)>; 6];

/// Runs `request` and returns its rows: the run, the samples, the verdicts.
/// The expectation is that of `arm`. `observe` is called after each reading.
///
/// # Errors
/// [`Error::Measurement`] if a probe cannot be read, [`Error::Runtime`] if the
/// mock raises.
pub fn run(
    entry: Entry,
    scenario: &Scenario,
    arm: &Arm,
    request: &Request,
    heap: Option<Heap>,
    observe: &mut dyn FnMut() -> Result<Option<Observed>, Error>,
) -> Result<Vec<Row>, Error> {
    let runtime = Runtime::new(request.policies, request.device);
    let model = Model::new(scenario, arm, &request.knobs, request.device);
    let setting = Setting::new(&runtime, &request.knobs, request.seed).with_ranks(model.ranks());
    let mut mock = entry.build(&setting)?;
    let counters = CensusCounters(setting.ranks());
    let grid = Grid::new(request.steps, arm.plan.unwrap_or(scenario.plan).samples);
    let kinds = scenario
        .block_bytes
        .keys()
        .chain(&scenario.counters)
        .cloned()
        .collect();
    let with_heap = heap.is_some();
    let mut recorder = Recorder::new(kinds, heap, grid);
    let mut observations = Vec::with_capacity(grid.samples());
    let mut array_bytes = 0;
    recorder.base(&counters);
    for step in 1..=request.steps {
        mock.step()?;
        recorder.after(step, &counters)?;
        if grid.reads_after(step) {
            array_bytes = bytes_of_arrays(scenario, &counters, model.ranks());
            observations.extend(observe()?.map(|observed| (step, observed)));
        }
    }
    let series = recorder.into_series()?;
    let judged = Judged {
        scenario,
        arm,
        request,
        model,
        array_bytes: with_heap.then_some(array_bytes),
    };
    let mut rows = vec![Row::Run(judged.run_row())];
    rows.extend(judged.samples(&series));
    rows.extend(observations.into_iter().map(|(step, observed)| {
        let metrics = observed.into_iter().flatten();
        let metrics = metrics.map(|(name, value)| (name.to_owned(), value.into()));
        Row::Observation(judged.sample(step, metrics.collect()))
    }));
    let per_call = judged.per_call(&series);
    rows.extend(
        series
            .iter()
            .map(|one| Row::Verdict(judged.verdict(one, per_call))),
    );
    Ok(rows)
}

/// What the allocator spends on the arrays, which are alike in all ranks.
fn bytes_of_arrays(scenario: &Scenario, counters: &CensusCounters<'_>, ranks: u64) -> u64 {
    let arrays = scenario.arrays.iter();
    let bytes = arrays.map(|array| {
        let requested = counters.live_bytes(&array.kind).unwrap_or_default();
        ranks * nallocx((requested / ranks) as usize)
    });
    bytes.sum()
}

struct Judged<'a> {
    scenario: &'a Scenario,
    arm: &'a Arm,
    request: &'a Request,
    model: Model<'a>,
    /// Bytes of the array at the last reading, if bytes are measured.
    array_bytes: Option<u64>,
}

impl Judged<'_> {
    fn run_row(&self) -> Run {
        Run {
            scenario: self.scenario.name.clone(),
            arm: self.request.name.clone(),
            role: self.arm.role.name().to_owned(),
            backend: "mockspore".to_owned(),
            version: self.request.version.clone(),
            mockspore_version: env!("CARGO_PKG_VERSION").to_owned(),
            device: self.request.device.name().to_owned(),
            seed: self.request.seed,
            knobs: self.request.knobs.to_map(),
            steps: self.request.steps,
        }
    }

    fn samples(&self, series: &[Series]) -> Vec<Row> {
        let steps = series.first().map_or(&[][..], Series::steps);
        let at = |(index, &step): (usize, &u64)| {
            let metric =
                |one: &Series| (one.metric().to_owned(), (one.values()[index] as i64).into());
            Row::Sample(self.sample(step, series.iter().map(metric).collect()))
        };
        steps.iter().enumerate().map(at).collect()
    }

    fn sample(&self, step: u64, metrics: Map<String, Value>) -> Sample {
        Sample {
            scenario: self.scenario.name.clone(),
            arm: self.request.name.clone(),
            backend: "mockspore".to_owned(),
            step,
            phase: "after_step".to_owned(),
            metrics,
        }
    }

    fn verdict(&self, series: &Series, per_call: Option<PerCall>) -> VerdictRow {
        let metric = series.metric();
        let steps = series.steps().last().copied().unwrap_or_default();
        let bound = match metric {
            THREAD_NET => self.model.cap_bytes(steps),
            _ => self.model.cap_objects(kind_of(metric)),
        };
        let cap = bound.map(|bound| Cap {
            bound: bound as f64,
            uncovered: self.model.cap_uncovered(steps),
        });
        let judgement = judge::exact(series, cap.as_ref());
        let (expected, shape) = self.expected(metric);
        let mut readings = series.steps().iter().zip(series.values());
        let model_matches =
            readings.all(|(&step, &value)| value as i64 == self.predicted(metric, step));
        let per_call = per_call.filter(|_| metric == THREAD_NET);
        let declared = self.expectation().bytes_per_call;
        let figures_match = match (per_call, declared) {
            (Some(per_call), Some(declared)) => (per_call.bytes - declared).abs() < 1e-9,
            // A declared figure that was not measured is not confirmed.
            (None, Some(_)) => metric != THREAD_NET,
            (_, None) => true,
        };
        let as_expected = model_matches
            && figures_match
            && judgement.verdict == expected
            && shape.is_none_or(|shape| judgement.shape == Some(shape));
        VerdictRow {
            scenario: self.scenario.name.clone(),
            arm: self.request.name.clone(),
            backend: "mockspore".to_owned(),
            metric: metric.to_owned(),
            verdict: Some(judgement.verdict),
            finding: None,
            shape: judgement.shape,
            slope_per_step: judgement.slope,
            per_call,
            bound: judgement.bound,
            model_matches: Some(model_matches),
            expected: Some(expected),
            expected_finding: None,
            as_expected,
            evidence: judgement.evidence,
        }
    }

    fn expectation(&self) -> &MockExpectation {
        self.arm.expectation(self.request.device)
    }

    fn expected(&self, metric: &str) -> (Verdict, Option<Shape>) {
        match metric {
            THREAD_NET => (self.expectation().verdict, self.expectation().shape),
            UNATTRIBUTED => (Verdict::Plateau, Some(Shape::Flat)),
            _ if self.model.is_capped(kind_of(metric)) => {
                let uncovered = self.model.cap_uncovered(self.request.steps);
                let capped = uncovered.map_or(Verdict::Plateau, |_| Verdict::Inconclusive);
                (capped, None)
            }
            _ if self.model.grows(kind_of(metric)) => (Verdict::Growth, None),
            _ => (Verdict::Plateau, Some(Shape::Flat)),
        }
    }

    fn predicted(&self, metric: &str, step: u64) -> i64 {
        let exact = match metric {
            THREAD_NET => self.model.block_bytes(step) + self.model.array_bytes(step),
            UNATTRIBUTED => 0,
            counter if self.scenario.counters.iter().any(|known| known == counter) => {
                self.model.count(counter, step)
            }
            _ => self.model.objects(kind_of(metric), step),
        };
        exact as i64
    }

    /// What one call keeps, measured over the whole run.
    fn per_call(&self, series: &[Series]) -> Option<PerCall> {
        let last = |metric: &str| {
            let found = series.iter().find(|one| one.metric() == metric)?;
            found.values().last().copied()
        };
        let primary = format!("objects.{}", self.scenario.primary);
        let held = self.model.objects(&self.scenario.primary, 0) as f64;
        let step = series.first()?.steps().last()?;
        let calls = (step * self.model.calls()) as f64;
        let array = self.array_bytes? as f64;
        Some(PerCall {
            objects: (last(&primary)? - held) / calls,
            bytes: (last(THREAD_NET)? - array) / calls,
            array_bytes: array / calls,
        })
    }
}

fn kind_of(metric: &str) -> &str {
    metric.strip_prefix("objects.").unwrap_or(metric)
}
