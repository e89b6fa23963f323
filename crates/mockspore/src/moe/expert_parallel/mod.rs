//! Expert-parallel dispatch and combine, and the handle that outlives them.
//!
//! ```text
//! ExpertParallel ─▶ module of rank r ─▶ _ep_dispatch_ctx   kept by contract
//!                         └──────────▶ _ep_combine_handle (where it is kept)
//!                                         ├─▶ _tensor ─▶ its whole graph
//!                                         └─▶ _combined, _ctx (deredundency)
//! ```
//!
//! A rank sends each routed row to the rank that has its expert, and gets it
//! back. Models `ExpertParallel` and `ExpertTensorParallel`
//! (`expert_parallel.py`). All ranks live in one Runtime, since the gradient of
//! an all-to-all needs all ranks' at once. Not modelled: bf16, capacity factors.

mod context;
mod handle;
mod module;
mod plan;
mod routing;
mod rows;

pub use context::DispatchContext;
pub use handle::{AsyncHandle, Held};
pub use module::{ExpertParallel, Options};
pub use routing::{Mesh, Routing};
