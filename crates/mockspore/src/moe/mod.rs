//! Mixture of experts, as Hyper-Parallel trains it: the load monitor, and experts
//! that ranks share.
//!
//! Models `core/moe_utils.py` and the step post-hooks of an optimizer.

pub mod expert_parallel;
mod layer;
mod monitor;
mod optimizer;

pub use layer::{MoeLayer, MoeModel};
pub use monitor::{Member, MoeMonitorCallback};
pub use optimizer::{Optimizer, RemovableHandle};
