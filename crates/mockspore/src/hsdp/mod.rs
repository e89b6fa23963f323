//! Hyper-Parallel's fully-sharded data parallelism, as far as lifetimes go.

pub mod unit_table;

pub use unit_table::{Mesh, Model, StepCounts, Unit, UnitTable};
