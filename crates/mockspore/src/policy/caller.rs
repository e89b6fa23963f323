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

/// What the sharding scheduler does with the handles of the hooks that it
/// registers on a unit's outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackwardPreHook {
    /// Thrown away, as `_register_backward_pre_hook` does.
    Dropped,
    /// Removed in the root's final callback of the backward that their forward
    /// took part in, and at the next forward if none will ever come. The fix.
    ReleasedWithBackward,
    /// Each removed by itself as it fires. Wrong: an unused output never does.
    RemovedOnFiring,
    /// A unit's removed in its `PostBackwardFunction.backward`. Wrong: not every
    /// unit has one.
    RemovedInFunctionBackward,
    /// All removed in every root's final callback. Wrong: a micro-batch that is
    /// still to come loses its hooks.
    ClearedByAnyRoot,
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
