//! Readings on a fixed grid, into buffers that exist before the first one.

use crate::counters::Counters;
use crate::error::Error;
use crate::probe::jemalloc::{Heap, nallocx};
use crate::series::Series;

/// Metric of this thread's net bytes since the base reading.
pub const THREAD_NET: &str = "heap.thread_net";
/// Metric of net bytes that the counters do not explain.
pub const UNATTRIBUTED: &str = "heap.unattributed";

/// The steps at which to read: every `every`-th, `samples` times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    every: u64,
    samples: u64,
}

impl Grid {
    /// At most `samples` readings within `steps` steps (both at least 1).
    pub fn new(steps: u64, samples: u64) -> Self {
        let every = steps.div_ceil(samples.max(1)).max(1);
        Self {
            every,
            samples: steps / every,
        }
    }

    /// Whether to read after `step`, counted from 1.
    pub fn reads_after(self, step: u64) -> bool {
        step.is_multiple_of(self.every) && step / self.every <= self.samples
    }

    /// Number of readings.
    pub fn samples(self) -> usize {
        self.samples as usize
    }

    /// The step of reading `index`, from 0.
    pub fn step(self, index: usize) -> u64 {
        (index as u64 + 1) * self.every
    }
}

/// The metric of a counter: what has no family of its own counts objects.
fn metric(counter: &str) -> String {
    if counter.contains('.') {
        return counter.to_owned();
    }
    format!("objects.{counter}")
}

/// Reads exact counters and exact bytes, relative to a base reading.
#[derive(Debug)]
pub struct Recorder {
    kinds: Vec<String>,
    heap: Option<Heap>,
    base: Reading,
    grid: Grid,
    /// One row per reading: each kind, then net bytes, then unattributed ones.
    rows: Vec<i64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Reading {
    net: i64,
    attributed: i64,
}

impl Recorder {
    /// Makes the buffers; `heap` is absent in a program without jemalloc.
    pub fn new(kinds: Vec<String>, heap: Option<Heap>, grid: Grid) -> Self {
        let width = kinds.len() + 2;
        Self {
            rows: Vec::with_capacity(grid.samples() * width),
            kinds,
            heap,
            base: Reading::default(),
            grid,
        }
    }

    /// Takes the base reading: everything long-lived must exist by now.
    pub fn base(&mut self, counters: &dyn Counters) {
        self.base = self.read(counters);
    }

    /// Reads if `step` lies on the grid.
    ///
    /// # Errors
    /// [`Error::Unreadable`] if a counter is missing.
    pub fn after(&mut self, step: u64, counters: &dyn Counters) -> Result<(), Error> {
        if !self.grid.reads_after(step) {
            return Ok(());
        }
        let now = self.read(counters);
        for kind in &self.kinds {
            let live = counters.live(kind).ok_or_else(|| Error::Unreadable {
                probe: "objects",
                why: format!("the runtime does not count '{kind}'"),
            })?;
            self.rows.push(live as i64);
        }
        let net = now.net - self.base.net;
        self.rows.push(net);
        self.rows
            .push(net - (now.attributed - self.base.attributed));
        Ok(())
    }

    /// The series, one per metric.
    ///
    /// # Errors
    /// [`Error::BrokenGrid`] if readings are missing.
    pub fn into_series(self) -> Result<Vec<Series>, Error> {
        let width = self.kinds.len() + 2;
        let taken = self.rows.len() / width;
        if taken != self.grid.samples() {
            let planned = self.grid.samples();
            return Err(Error::BrokenGrid(format!(
                "{taken} of {planned} readings were taken"
            )));
        }
        let steps: Vec<u64> = (0..taken).map(|index| self.grid.step(index)).collect();
        let mut names: Vec<String> = self.kinds.iter().map(|name| metric(name)).collect();
        if self.heap.is_some() {
            names.extend([THREAD_NET.to_owned(), UNATTRIBUTED.to_owned()]);
        }
        let series = names.into_iter().enumerate().map(|(column, metric)| {
            let values = self.rows.iter().skip(column).step_by(width);
            Series::new(
                metric,
                steps.clone(),
                values.map(|&value| value as f64).collect(),
            )
        });
        series.collect()
    }

    fn read(&self, counters: &dyn Counters) -> Reading {
        let Some(heap) = &self.heap else {
            return Reading::default();
        };
        let mut attributed = 0;
        counters.for_each_size(&mut |size, live| attributed += (nallocx(size) * live) as i64);
        Reading {
            net: heap.thread_net(),
            attributed,
        }
    }
}
