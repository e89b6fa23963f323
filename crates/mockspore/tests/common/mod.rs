//! A runtime that records, leaves, and hooks that keep the gradient.

use mockspore::{Device, HookMap, Policies, Runtime, Tensor, TensorHookHandle, Version};

pub(crate) fn with_map(hook_map: HookMap) -> Runtime {
    let policies = Policies {
        hook_map,
        ..Policies::mindspore(Version::V2_10_0)
    };
    let runtime = Runtime::new(policies, Device::Cpu);
    runtime.set_grad_flag(true);
    runtime
}

pub(crate) fn runtime() -> Runtime {
    with_map(HookMap::KeepsDead)
}

pub(crate) fn leaf(runtime: &Runtime, values: &[f32]) -> Tensor {
    let tensor = runtime.tensor(values, &[values.len()]).unwrap();
    tensor.requires_grad_();
    tensor
}

pub(crate) fn keep(tensor: &Tensor) -> TensorHookHandle {
    tensor.register_hook(|_| Ok(None))
}
