//! Errors of the command, each with its exit code.

use std::io;
use std::path::PathBuf;

/// What ends the command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The reader of stdout went away: nothing is wrong.
    #[error("stdout is closed")]
    ClosedStdout,
    /// A request or an input that cannot be used.
    #[error("{0}")]
    Usage(String),
    /// A measurement that cannot be trusted.
    #[error("INVALID: {0}")]
    Invalid(String),
    /// A scenario or a run on the mock.
    #[error(transparent)]
    Scenario(#[from] repros::Error),
    /// A file that cannot be written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::ClosedStdout => 0,
            Self::Invalid(_)
            | Self::Scenario(repros::Error::Measurement(_) | repros::Error::Runtime(_)) => 3,
            Self::Usage(_) | Self::Scenario(_) | Self::File { .. } => 2,
        }
    }

    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |source| Self::File { path, source }
    }
}

impl From<mockspore_growth::Error> for Error {
    fn from(error: mockspore_growth::Error) -> Self {
        Self::Scenario(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_that_cannot_read_makes_the_run_invalid() {
        let error = Error::from(mockspore_growth::Error::Unreadable {
            probe: "smaps_rollup",
            why: "permission denied".to_owned(),
        });
        assert_eq!(error.exit_code(), 3);
        let text = "invalid measurement: cannot read smaps_rollup: permission denied";
        assert_eq!(error.to_string(), text);
    }
}
