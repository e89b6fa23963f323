//! The scenarios: each a folder with its story (`README.md`), its single truth
//! (`scenario.json`), its step on the mock (`mock.rs`) and its script for real
//! `MindSpore`.
//!
//! | module | job |
//! |---|---|
//! | [`registry`] | the scenarios that are built in |
//! | [`finding`] | scenarios without a slope, and their runner |
//! | [`scenario`] | `scenario.json`, checked |
//! | [`mock`] | the step's trait, and what a step is built from |
//! | [`model`] | what a run must read, from the declared expectation |
//! | [`runner`] | runs one arm and judges it |
//! | [`real`] | judges what a real framework's processes wrote |

mod census;
mod error;
pub mod finding;
pub mod mock;
pub mod model;
mod process;
pub mod real;
pub mod registry;
pub mod runner;
pub mod scenario;

#[path = "../collective_event/mock.rs"]
mod collective_event;
#[path = "../ep_combine_handle/mock.rs"]
mod ep_combine_handle;
#[path = "../hook_handle/mock.rs"]
mod hook_handle;
#[path = "../hsdp_step/mock.rs"]
pub mod hsdp_step;
#[path = "../kernel_argument/mock.rs"]
mod kernel_argument;
#[path = "../mega_moe_core_bound/mock.rs"]
mod mega_moe_core_bound;
#[path = "../moe_monitor_register/mock.rs"]
mod moe_monitor_register;
#[path = "../needs_input_grad/mock.rs"]
mod needs_input_grad;
#[path = "../node_abs_cache/mock.rs"]
mod node_abs_cache;
#[path = "../op_exception_output/mock.rs"]
mod op_exception_output;
#[path = "../parameter_hook/mock.rs"]
mod parameter_hook;
#[path = "../ready_top_cell/mock.rs"]
mod ready_top_cell;
#[path = "../recompute_residue/mock.rs"]
mod recompute_residue;

pub use census::CensusCounters;
pub use error::{Error, near};
