//! Defects of the runtime, each as a value.

use serde::{Deserialize, Serialize};

/// What the runtime's `hook_id_node_map_` does when a node dies
/// (`ccsrc/pynative/backward/hook/hook_py.cc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookMap {
    /// The entry stays, and its weak pointer pins the control block.
    KeepsDead,
    /// The node's destructor erases its entries: the framework's own possible fix.
    ErasesWithNode,
}

/// What the destructor of a custom function's ctx clears
/// (`ccsrc/pynative/backward/hook/function_py.cc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CtxClear {
    /// `saved_tensors` twice and `needs_input_grad` never: since 2.8.0.
    NamesSavedTensorsTwice,
    /// Each field once: 2.7.2, and the report's proposal.
    ClearsEachField,
}

/// Who owns an operator's output objects, which exist before it runs
/// (`TensorWrapper` in the generated operator wrappers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputOwner {
    /// A raw pointer: an operator that raises leaves each output behind. (Not
    /// modelled: 2.7.2 does free those of `mint.split`.)
    RawPointer,
    /// A holder that destroys them: the fix.
    Owned,
}

/// What becomes of a non-tensor kernel argument that was uploaded to the device
/// (`DeviceAddressUtils::CopyNoneTensorDataToDevice`; on CPU only, since 2.8.0).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelArgument {
    /// Its pool block stays in use for ever.
    NeverReturned,
    /// Its pool block is returned when the kernel is done: the fix.
    Returned,
}

/// What becomes of a recorded forward that no grad consumes
/// (`GradExecutor::ready_run_top_cell_`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadyTopCell {
    /// Every one stays, with the graph behind its outputs.
    KeepsAll,
    /// The next forward replaces it: the fix.
    KeepsLatest,
}

/// Whether `node_abs_cache_` is bounded
/// (`ccsrc/pynative/forward/op_graph/do_infer.cc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AbstractCache {
    /// Above a threshold it drops half: every release.
    Bounded,
    /// No threshold: what the cache would be without it.
    Unbounded,
}

/// Which entries `node_abs_cache_` drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Victims {
    /// The first in the map's iteration order: every release.
    IterationOrder,
    /// The oldest.
    OldestFirst,
    /// The newest.
    NewestFirst,
}

/// When the event of a collective is destroyed, and by whom
/// (`comm_handle.cc`, `ascend_res_manager.cc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventRelease {
    /// 2.10.0: the handle's destructor destroys the event itself; the resource
    /// manager is not told, and its `device_events_` keeps the entry.
    NeverErased,
    /// Up to 2.9.0: the handle's destructor asks the manager, which destroys
    /// the event and erases its entry, found by a linear search.
    ErasedByManager,
    /// The first `wait()` has the manager destroy it: a tempting fix.
    OnWait,
    /// The manager destroys it once the handle is gone and the work is done.
    OnCompletion,
    /// As [`Self::OnCompletion`], and up to `cap` events are kept for reuse.
    Pooled {
        /// Idle events kept.
        cap: u32,
    },
    /// A pool that does not ask whether the work is done: a tempting fix.
    PooledUnchecked {
        /// Idle events kept.
        cap: u32,
    },
}
