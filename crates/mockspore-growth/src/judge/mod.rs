//! Whether one series grows.

mod exact;
mod noisy;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use exact::{Cap, exact};
pub use noisy::noisy;

/// What a series is judged to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// It grows without a bound in sight.
    Growth,
    /// It is shown to stay within a bound.
    Plateau,
    /// The readings do not decide.
    Inconclusive,
    /// The measurement is unusable.
    Invalid,
}

/// How a series moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// All readings are equal.
    Flat,
    /// It rises first and then stays.
    WarmUp,
    /// It rises from reading to reading.
    Linear,
    /// It rises in stairs.
    Ratchet,
    /// It rises and falls back.
    SawTooth,
    /// It rises ever more slowly.
    Decelerating,
    /// It rises once.
    OneJump,
}

/// A slope per step and its 95 % interval, or the extremes where it is exact.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Slope {
    /// The slope.
    pub value: f64,
    /// Lower end.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
}

/// A verdict with what decided it.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// The shape, where there are enough readings to see one.
    pub shape: Option<Shape>,
    /// The slope per step.
    pub slope: Option<Slope>,
    /// The highest reading of a series that stays bounded.
    pub bound: Option<f64>,
    /// What decided, by name.
    pub evidence: Map<String, Value>,
}

impl Judgement {
    fn new(verdict: Verdict) -> Self {
        Self {
            verdict,
            shape: None,
            slope: None,
            bound: None,
            evidence: Map::new(),
        }
    }

    fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.evidence.insert(name.to_owned(), value.into());
        self
    }
}
