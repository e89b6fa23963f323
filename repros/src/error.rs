//! What can be wrong with a request or with a scenario's file.

use std::path::PathBuf;

/// An error of choosing, reading or running a scenario.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name that is not known, with the nearest one that is.
    #[error("unknown {what} '{name}'{}", hint(nearest.as_deref(), known))]
    Unknown {
        /// What was named.
        what: &'static str,
        /// The name given.
        name: String,
        /// The known name that is closest to it.
        nearest: Option<String>,
        /// All known names.
        known: Vec<String>,
    },
    /// A knob's value that it cannot have.
    #[error("knob '{knob}' cannot be '{value}': {allowed}")]
    Knob {
        /// The knob.
        knob: String,
        /// The value given.
        value: String,
        /// What it may be.
        allowed: String,
    },
    /// A scenario file that cannot be used.
    #[error("{}:{line}: {why}", path.display())]
    Scenario {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong, and the mend.
        why: String,
    },
    /// The mock runtime raised.
    #[error("the mock runtime raised: {0}")]
    Runtime(#[from] mockspore::Error),
    /// The measurement is invalid.
    #[error("invalid measurement: {0}")]
    Measurement(#[from] mockspore_growth::Error),
}

/// The known name closest to `name`, if one is close.
pub fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let closeness = |candidate: &str| strsim::jaro_winkler(name, candidate);
    let best = known
        .into_iter()
        .max_by(|a, b| closeness(a).total_cmp(&closeness(b)))?;
    (closeness(best) > 0.7).then_some(best)
}

impl Error {
    /// The error for a name that is not known, with the nearest one that is.
    pub fn unknown<'a>(
        what: &'static str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        Self::Unknown {
            what,
            name: name.to_owned(),
            nearest: near(name, known.iter().copied()).map(str::to_owned),
            known: known.into_iter().map(str::to_owned).collect(),
        }
    }
}

fn hint(nearest: Option<&str>, known: &[String]) -> String {
    match nearest {
        Some(nearest) => format!(": did you mean '{nearest}'?"),
        None => format!(" (there are: {})", known.join(", ")),
    }
}
