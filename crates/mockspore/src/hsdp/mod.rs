//! Hyper-Parallel's fully-sharded data parallelism (HSDP).
//!
//! | module | what it models |
//! |---|---|
//! | [`unit_table`] | which units there are, and what a step of them makes |
//! | [`fully_shard`](fully_shard()) | the model of each rank, from such a table |
//! | [`model`], `module` | units on one rank, forward and backward |
//! | `scheduler`, `release` | the hooks of a unit's module, and who has their handles |
//! | `state`, `param` | gathering, sharding, reducing |
//! | `context`, `process` | what units of one root share, what all units share |

mod context;
mod fully_shard;
pub mod model;
mod module;
mod param;
mod process;
mod release;
mod scheduler;
mod state;
pub mod unit_table;

pub use fully_shard::{Options, fully_shard};
pub use model::ShardedModel;
pub use process::{Observer, Point};
pub use scheduler::SchedulerState;
pub use unit_table::{Mesh, Model, StepCounts, Unit, UnitTable};
