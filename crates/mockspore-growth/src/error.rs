//! Why a measurement is invalid or a file unusable.

use std::path::PathBuf;

/// An error of measuring or of reading results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A probe that could not be read: the run is INVALID.
    #[error("cannot read {probe}: {why}")]
    Unreadable {
        /// The probe.
        probe: &'static str,
        /// What went wrong.
        why: String,
    },
    /// A file of results that cannot be used.
    #[error("{}:{line}: {why}; {mend}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
        /// What to do.
        mend: &'static str,
    },
    /// Readings that do not lie on one regular grid.
    #[error("{0}")]
    BrokenGrid(String),
}
