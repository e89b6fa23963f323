//! `mockspore._mockspore`: the mock runtime as Python sees it.
//!
//! One Runtime per thread, replaced by `reset()`. The bodies of these classes
//! are `CPython`'s memory; what they hold is this allocator's, so the thread's
//! net bytes are the mock's alone.

mod apply;
mod comm;
mod convert;
mod error;
mod executor;
mod function;
mod operators;
mod runtime;
mod tensor;

use pyo3::prelude::*;

#[cfg(not(feature = "system-alloc"))]
#[global_allocator]
static ALLOCATOR: jemallocator::Jemalloc = jemallocator::Jemalloc;

/// One arena and no background thread: with them `stats.*` is exact after a
/// flush of the thread cache. A reference to bytes has the pointer's shape.
#[cfg(not(feature = "system-alloc"))]
#[allow(unsafe_code, reason = "jemalloc reads its options from this symbol")]
#[unsafe(export_name = "_rjem_malloc_conf")]
static MALLOC_CONF: &[u8; 34] = b"narenas:1,background_thread:false\0";

/// The native module.
#[pymodule]
mod _mockspore {
    #[pymodule_export]
    use crate::apply::apply;
    #[pymodule_export]
    use crate::comm::{
        CommHandle, all_gather, all_gather_into_tensor, all_reduce, all_reduce_primitive,
        broadcast, reduce_scatter_tensor, replicate,
    };
    #[pymodule_export]
    use crate::executor::{
        clear_res, forward_with_grad, grad, grad_flag, queue_backward_final_callback, recompute,
        run_backward, set_grad_flag,
    };
    #[pymodule_export]
    use crate::function::FunctionBase;
    #[pymodule_export]
    use crate::operators::{add, matmul, mul, norm, relu, split, sub, sum};
    #[pymodule_export]
    use crate::runtime::{
        census, device, reset, set_abstract_limits, set_acl_residue, set_device, synchronize,
        tallies, thread_net, world_size,
    };
    #[pymodule_export]
    use crate::tensor::{Tensor, TensorHookHandle};
}
