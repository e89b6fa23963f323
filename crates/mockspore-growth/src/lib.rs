//! What a process holds, and whether it grows. Knows nothing of autograd.
//!
//! | module | job |
//! |---|---|
//! | [`counters`] | the trait through which a runtime shows its own book |
//! | [`probe`] | jemalloc, `/proc/<pid>/smaps_rollup`, glibc's malloc |
//! | [`protocol`] | a fixed grid of readings into buffers made beforehand |
//! | [`series`] | readings over steps |
//! | [`judge`] | one series: GROWTH, PLATEAU, INCONCLUSIVE or INVALID |
//! | [`compare`] | two arms: the difference per call and its interval |
//! | [`report`] | the rows of a result file |
//!
//! A probe that cannot read is an [`Error`], never a 0.

pub mod compare;
pub mod counters;
mod error;
pub mod judge;
pub mod probe;
pub mod protocol;
pub mod report;
pub mod series;
mod stats;

pub use counters::Counters;
pub use error::Error;
pub use judge::{Judgement, Shape, Slope, Verdict};
pub use series::Series;
