//! What the modelled caller does, each as a value.

use serde::{Deserialize, Serialize};

/// What the caller does with the handle of `register_hook`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookRelease {
    /// Thrown away, as Hyper-Parallel's `_register_backward_pre_hook` does.
    Dropped,
    /// `remove()` on each handle once the backward has returned.
    RemovedAfterBackward,
    /// `remove()` on each handle in a final callback of that backward.
    RemovedInFinalCallback,
}

/// Where the caller's function sets `ctx.needs_input_grad = None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NeedsInputGrad {
    /// Nowhere.
    Kept,
    /// At the end of its backward.
    ClearedInBackward,
    /// At the end of its forward.
    ClearedInForward,
}

/// Whether a recomputed forward stops when it has what the backward needs
/// (`mindspore.recompute(..., early_stop=)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecomputeStop {
    /// By an exception out of the operator that saved the last value.
    Early,
    /// At its end: `early_stop=False`, and 2.8.0, which has no other way.
    AtTheEnd,
}
