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

#[global_allocator]
static ALLOCATOR: jemallocator::Jemalloc = jemallocator::Jemalloc;

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
