//! Readers of what a process holds. None allocates while it reads.

pub mod jemalloc;
pub mod malloc;
pub mod process;
