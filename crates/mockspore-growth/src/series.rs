//! Readings of one metric over steps.

use crate::error::Error;

/// Readings on a regular grid of steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    metric: String,
    steps: Vec<u64>,
    values: Vec<f64>,
}

impl Series {
    /// A series; `steps` must rise by one constant interval.
    ///
    /// # Errors
    /// [`Error::BrokenGrid`] if readings are missing or irregular.
    pub fn new(metric: String, steps: Vec<u64>, values: Vec<f64>) -> Result<Self, Error> {
        let broken = |why: String| Err(Error::BrokenGrid(format!("{metric}: {why}")));
        if steps.len() != values.len() {
            return broken(format!(
                "{} steps for {} readings",
                steps.len(),
                values.len()
            ));
        }
        if let Some(bad) = values.iter().position(|value| !value.is_finite()) {
            return broken(format!("the reading at step {} is no number", steps[bad]));
        }
        let gaps: Vec<Option<u64>> = steps.windows(2).map(|w| w[1].checked_sub(w[0])).collect();
        if let Some(at) = gaps
            .iter()
            .position(|&gap| gap != gaps[0] || gap.unwrap_or(0) == 0)
        {
            let (from, to) = (steps[at], steps[at + 1]);
            return broken(format!(
                "the grid is irregular between steps {from} and {to}"
            ));
        }
        Ok(Self {
            metric,
            steps,
            values,
        })
    }

    /// The metric's name.
    pub fn metric(&self) -> &str {
        &self.metric
    }

    /// The steps after which the readings were taken.
    pub fn steps(&self) -> &[u64] {
        &self.steps
    }

    /// The readings.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Number of readings.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is no reading.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Steps between two readings; 1 for a single reading.
    pub fn interval(&self) -> f64 {
        match self.steps[..] {
            [first, second, ..] => (second - first) as f64,
            _ => 1.0,
        }
    }

    /// Slope per step from the first to the last reading.
    pub fn mean_slope(&self) -> Option<f64> {
        let (first, last) = (self.values.first()?, self.values.last()?);
        let steps = self.steps.last()? - self.steps.first()?;
        (steps > 0).then(|| (last - first) / steps as f64)
    }
}
