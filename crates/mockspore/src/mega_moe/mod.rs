//! The runtime config of `hyper_mega_moe`, and what a core too many writes.
//!
//! ```text
//! runtime config ─▶ …, dynamic data, group lists, atomic-add area │ end
//!                                    └─ slot of worker 0, 1, … 30, 31, 32, …
//! tiling blob    ─▶ per-core copies for GMM and for SwiGLU         │ end
//! ```
//!
//! A worker's slot is found by its id alone. The host decides how many workers
//! there are and bounds them by nothing; the image has slots for 31. Models
//! `hyper_mega_moe_tiling.cpp`, `hyper_mega_moe_grad_tiling.cpp`,
//! `runtime_config.hpp` and `scheduler/config.py` of Hyper-Parallel's
//! `multicore`. Not modelled: the tasks themselves, profiling words, the older
//! 64-byte slots.

mod classify;
mod image;
mod layout;
mod tables;
mod tiling;

pub use classify::{Damage, classify};
pub use image::Image;
pub use layout::{Layout, Region};
pub use tables::TilingTable;
pub use tiling::{Attributes, Pass, launched_cores, validate_num_cube_cores};

/// Cube cores that the layout's own assertion is made for.
pub const NUM_WORKERS_CUBE: u64 = 24;
/// Experts of one rank that the tiling lets pass.
pub const MAX_EXPERT_NUM_PER_RANK: u64 = 16;
