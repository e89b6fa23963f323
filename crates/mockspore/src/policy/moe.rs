//! What Hyper-Parallel's mixture-of-experts code does, each as a value.

use serde::{Deserialize, Serialize};

/// What a second `MoEMonitorCallback.register` does with the first's handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MonitorRegister {
    /// Overwrites it: the hook stays, and nobody can remove it.
    Overwrites,
    /// Removes the hook first. Upstream's fix.
    Replaces,
    /// Keeps both, and removes both.
    KeepsAll,
    /// Raises.
    Refuses,
}

/// What the rule for the expert bias does with the token counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpertBiasRule {
    /// Zeroes them, as the real one.
    ZeroesCounters,
    /// Keeps them. Counterfactual: what a second registration would do then.
    KeepsCounters,
}

/// What the expert-parallel combine does with the handle of its all-to-all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CombineHandle {
    /// Stays on the module until the next forward overwrites it.
    KeptOnModule,
    /// Never leaves the hook. Upstream's fix.
    LocalHandle,
    /// Taken off the module after `wait()`. The report's proposal.
    ClearedAfterWait,
    /// A slot that can be read once, emptied at the end of the combine.
    OneShotSlot,
    /// Stays on the module if the debug flag is set, as it is here.
    KeptForDebug,
    /// The same with the flag unset.
    DebugUnset,
}

/// Whether more cores than there are slots for are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoreBound {
    /// No.
    Unchecked,
    /// Yes: `coreNum > NUM_WORKERS_CUBE` is an error.
    Checked,
}
