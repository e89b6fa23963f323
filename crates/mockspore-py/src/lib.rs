//! `mockspore._mockspore`: the mock runtime as Python sees it.
//!
//! One Runtime per thread, replaced by `reset()`. The bodies of these classes
//! are `CPython`'s memory; what they hold is this allocator's, so the thread's
//! net bytes are the mock's alone.

mod convert;
mod error;
mod executor;
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
    use crate::executor::{
        clear_res, grad, grad_flag, queue_backward_final_callback, run_backward, set_grad_flag,
    };
    #[pymodule_export]
    use crate::operators::{add, matmul, mul, norm, relu, sub, sum};
    #[pymodule_export]
    use crate::runtime::{census, device, reset, set_device, thread_net};
    #[pymodule_export]
    use crate::tensor::{Tensor, TensorHookHandle};
}
