//! The one Runtime of this thread, and its two books.

use std::cell::RefCell;
use std::collections::BTreeMap;

use mockspore::census::Kind;
use mockspore::{Device, Policies, Runtime, Version};
use mockspore_growth::probe::jemalloc::Heap;
use pyo3::prelude::*;

use crate::error::exception;

thread_local! {
    static RUNTIME: RefCell<Runtime> = RefCell::new(Runtime::new(
        Policies::mindspore(Version::V2_10_0),
        Device::Cpu,
    ));
}

/// Uses this thread's Runtime.
pub(crate) fn with_runtime<R>(use_it: impl FnOnce(&Runtime) -> R) -> R {
    // Cloned first: what is called may replace the Runtime.
    let runtime = RUNTIME.with_borrow(Runtime::clone);
    use_it(&runtime)
}

fn value_error(py: Python<'_>, message: String) -> PyErr {
    exception(py, "MockValueError", message)
}

fn device_of(py: Python<'_>, name: &str) -> PyResult<Device> {
    match name {
        "CPU" => Ok(Device::Cpu),
        "Ascend" => Ok(Device::Ascend),
        _ => Err(value_error(
            py,
            format!("device must be 'CPU' or 'Ascend', but got '{name}'"),
        )),
    }
}

/// Replaces the Runtime: every policy of `version`, then `policies` over them.
#[pyfunction]
#[pyo3(signature = (version="2.10.0", device="CPU", policies=None))]
pub(crate) fn reset(
    py: Python<'_>,
    version: &str,
    device: &str,
    policies: Option<BTreeMap<String, String>>,
) -> PyResult<()> {
    let base = Policies::preset(version).ok_or_else(|| {
        let known: Vec<&str> = Policies::preset_names().collect();
        let known = known.join(", ");
        value_error(
            py,
            format!("version must be one of {known}, but got '{version}'"),
        )
    })?;
    let mut fields =
        serde_json::to_value(base).map_err(|error| value_error(py, error.to_string()))?;
    if let Some(fields) = fields.as_object_mut() {
        fields.extend(
            policies
                .unwrap_or_default()
                .into_iter()
                .map(|(name, value)| (name, value.into())),
        );
    }
    let policies: Policies =
        serde_json::from_value(fields).map_err(|error| value_error(py, error.to_string()))?;
    let runtime = Runtime::new(policies, device_of(py, device)?);
    // The old Runtime ends outside of the borrow: hooks may run Python code.
    drop(RUNTIME.replace(runtime));
    Ok(())
}

/// Replaces the Runtime if it is for another device (`mindspore.set_device`).
#[pyfunction]
pub(crate) fn set_device(py: Python<'_>, device_target: &str) -> PyResult<()> {
    let wanted = device_of(py, device_target)?;
    let (current, policies) = with_runtime(|runtime| (runtime.device(), runtime.policies()));
    if wanted != current {
        drop(RUNTIME.replace(Runtime::new(policies, wanted)));
    }
    Ok(())
}

/// The device of the Runtime.
#[pyfunction]
pub(crate) fn device() -> &'static str {
    match with_runtime(Runtime::device) {
        Device::Cpu => "CPU",
        Device::Ascend => "Ascend",
    }
}

/// Live objects by kind.
#[pyfunction]
pub(crate) fn census() -> BTreeMap<&'static str, u64> {
    with_runtime(|runtime| {
        Kind::ALL
            .map(|kind| (kind.name(), runtime.live(kind)))
            .into()
    })
}

/// Bytes that this thread has allocated in the extension and not freed.
#[pyfunction]
pub(crate) fn thread_net(py: Python<'_>) -> PyResult<i64> {
    let heap =
        Heap::open().map_err(|error| exception(py, "MockRuntimeError", error.to_string()))?;
    Ok(heap.thread_net())
}
