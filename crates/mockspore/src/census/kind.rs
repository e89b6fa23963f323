//! The kinds of counted heap blocks.

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident, $name:literal, $held_by:literal;)+) => {
        /// What a counted heap block is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[doc = $doc])+ $kind,)+
        }

        impl Kind {
            /// All kinds, in declaration order.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$kind),+];

            /// The name in results and scenarios.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }

            /// Who holds such a block, and what releases it.
            pub fn held_by(self) -> &'static str {
                match self {
                    $(Self::$kind => $held_by,)+
                }
            }
        }
    };
}

kinds! {
    /// A node of `hook_id_node_map_`: next, key, fat weak pointer.
    HookEntry, "hook_entry", "the runtime's hook_id_node_map_, until remove(id) or clear_res()";
    /// The bucket array of `hook_id_node_map_`; it never shrinks.
    HookBuckets, "hook_buckets", "the runtime's hook_id_node_map_, until the runtime dies";
    /// The control block of an operator node; weak pointers outlive the node.
    ControlBlock, "control_block", "its node's users, then the hook entries that point at it weakly";
    /// A leaf node and its control block in one piece (`make_shared`).
    LeafBlock, "leaf_block", "its tensor and next edges, then the hook entries that pin it whole";
    /// An operator node (`FuncBackwardNode`).
    OpNode, "op_node", "the tensor it made and the edges of later nodes";
    /// The next edges of an operator node.
    Edges, "edges", "their node, until it dies (a backward does not release them)";
    /// The backward function of a node with its saved values.
    BackwardFn, "backward_fn", "its node, until its first backward without keep_graph";
    /// The array of hooks on a node.
    HookList, "hook_list", "the node it is registered on";
    /// A hook: the callable that a node holds.
    HookFn, "hook_fn", "the node it is registered on";
    /// The ctx of a custom function.
    FunctionCtx, "function_ctx", "the backward function of its node, until the first backward";
    /// A `needs_input_grad` tuple: 40 bytes and 8 for each input.
    NeedsInputGrad, "needs_input_grad", "its ctx; after the ctx's death nobody";
    /// What a ctx saves for its backward.
    SavedTensors, "saved_tensors", "its ctx";
    /// A tensor with its autograd meta.
    Tensor, "tensor", "its caller; an operator's output that was never returned, nobody";
    /// The values of a tensor, shared by views and saved copies.
    Storage, "storage", "tensors and saved values";
    /// The handles that a sharding unit keeps of its last forward.
    HookHandles, "hook_handles", "the unit's scheduler, until its PostBackwardFunction or its next forward";
    /// What stands for a value that a recomputed block will save again.
    PlaceHolder, "place_holder", "the backward function of the node that saved it";
    /// One call of `recompute`: its inputs and the values it recomputed.
    RecomputeFrame, "recompute_frame", "its place holders";
    /// A node of `node_abs_cache_`: next, key, pointer, hash.
    AbstractEntry, "abstract_entry", "the runtime's node_abs_cache_, until it drops half, a grad or clear_res()";
    /// The text of a tensor id that is a key of `node_abs_cache_`.
    AbstractKey, "abstract_key", "its entry";
    /// A cached abstract: dtype and shape of an operator's tensor.
    Abstract, "abstract", "its entry";
    /// The bucket array of `node_abs_cache_`; it never shrinks.
    AbstractBuckets, "abstract_buckets", "the runtime's node_abs_cache_, until the runtime dies";
    /// The memory pool's record of a block (80 bytes).
    MemBuf, "mem_buf", "the CPU memory pool, as a block in use";
    /// The pool's list entry of a block (56 bytes).
    MemBufEntry, "mem_buf_entry", "the CPU memory pool, as a block in use";
    /// A pool block with one kernel argument (512 bytes).
    PoolBlock, "pool_block", "the CPU memory pool, as a block in use";
    /// A recorded forward (`TopCellInfo`).
    TopCell, "top_cell", "the runtime's ready_run_top_cell_, until a grad of that cell or clear_res()";
    /// The outputs that a recorded forward keeps.
    TopCellOutputs, "top_cell_outputs", "their top cell";
    /// A device event: object and control block in one piece (56 bytes).
    Event, "event", "its CommHandle and the resource manager's device_events";
    /// The array of `device_events`, a shared pointer each; it never shrinks.
    DeviceEvents, "device_events", "the resource manager, until the runtime dies";
    /// Events without a handle whose work is still running, or idle ones.
    RetiredEvents, "retired_events", "the resource manager, until the runtime dies";
    /// An optimizer with its dict of step post-hooks.
    Optimizer, "optimizer", "the trainer";
    /// An entry of an optimizer's dict of step post-hooks.
    StepHook, "step_hook", "its optimizer's dict, until the handle removes it";
    /// The lambda of a step post-hook, which holds the callback.
    StepHookFn, "step_hook_fn", "its entry in the optimizer's dict";
    /// A `MoEMonitorCallback`.
    MonitorCallback, "monitor_callback", "the trainer, and the lambda of each hook that it registered";
    /// What the callback's slot keeps of a registration.
    MonitorHandle, "monitor_handle", "the slot of its callback";
    /// A model with its layers.
    MoeModel, "moe_model", "the trainer, and each callback of it";
    /// The handle of an asynchronous combine, and what its outer ranks share.
    AsyncHandle, "async_handle", "the combine hook; where it is kept, the module until its next forward";
    /// Splits and indices of a dispatch.
    DispatchContext, "dispatch_context", "its module, until its next dispatch (by contract)";
    /// A stand-in for what a collective leaves behind below the framework.
    AclResidue, "acl_residue", "nobody: unexplained, and absent unless its size is set";
}
