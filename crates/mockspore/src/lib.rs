//! A mock of `MindSpore`'s `PyNative` runtime that models *lifetimes*: which
//! object holds which host memory, and which event releases it.
//!
//! Values are real (f32, forward and backward), and every modelled object is a
//! real heap block, so a modelled leak is a leak that the allocator sees.
//! Everything hangs on a [`Runtime`]; there is no clock, I/O, randomness or
//! global state.
//!
//! | module | what it models |
//! |---|---|
//! | [`census`] | who is alive, per kind, and which block sizes that makes |
//! | [`model`] | the memory shapes of C++: `unordered_map`, shared and weak pointers |
//! | [`tensor`], [`ops`] | tensors and the operators on them |
//! | [`autograd`] | nodes, hooks and their registry, the backward engine |
//! | [`device`], [`comm`] | streams in virtual time, events, collectives between ranks |
//! | [`hsdp`] | sharded models: units, their schedulers, states and handles |
//! | [`moe`] | the load monitor, expert-parallel dispatch and combine |
//! | [`mega_moe`] | the runtime config of the fused operator, and its bounds |
//! | [`policy`] | every defect as a value, with presets by release |
//!
//! Not modelled: the asynchronous queues between the Python thread and the
//! kernels (a reading on the mock is always drained), dtypes other than f32,
//! graph mode, higher-order gradients.

pub mod autograd;
pub mod census;
pub mod comm;
pub mod device;
mod error;
mod executor;
pub mod hsdp;
mod infer;
mod kernels;
pub mod mega_moe;
pub mod model;
pub mod moe;
pub mod ops;
pub mod policy;
mod runtime;
mod shape;
pub mod tensor;

pub use autograd::ctx::FunctionCtx;
pub use autograd::function::{Function, apply, apply_to};
pub use autograd::hook::TensorHookHandle;
pub use autograd::recompute::{Block, recompute};
pub use autograd::top_cell::CellId;
pub use comm::{CommHandle, ProcessGroup, ReduceOp, World};
pub use device::StreamId;
pub use error::Error;
pub use infer::AbstractLimits;
pub use policy::{
    AbstractCache, BackwardPreHook, CombineHandle, CoreBound, CtxClear, Device, EventRelease,
    ExpertBiasRule, HookMap, HookRelease, KernelArgument, MonitorRegister, NeedsInputGrad,
    OutputOwner, Policies, ReadyTopCell, RecomputeStop, Version, Victims,
};
pub use runtime::Runtime;
pub use tensor::{Shape, Tensor};
