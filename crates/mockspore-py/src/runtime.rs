//! The runtimes of this thread, and their two books. Python code plays rank 0;
//! the other ranks of the world are its replicas.

use std::cell::RefCell;
use std::collections::BTreeMap;

use mockspore::census::{Kind, Tally};
use mockspore::{AbstractLimits, Device, Policies, Runtime, Version, World};
use mockspore_growth::probe::jemalloc::Heap;
use pyo3::prelude::*;
use serde_json::{Map, Value};

use crate::error::exception;

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(world(
        Policies::mindspore(Version::V2_10_0),
        Device::Cpu,
        1,
    ));
}

fn world(policies: Policies, device: Device, ranks: usize) -> World {
    let ranks: Vec<Runtime> = (0..ranks).map(|_| Runtime::new(policies, device)).collect();
    World::new(&ranks)
}

/// This thread's world.
pub(crate) fn current_world() -> World {
    WORLD.with_borrow(World::clone)
}

/// Uses the Runtime of rank 0.
pub(crate) fn with_runtime<R>(use_it: impl FnOnce(&Runtime) -> R) -> R {
    // A clone: what is called may replace the Runtime.
    let world = current_world();
    use_it(&world.ranks()[0])
}

fn value_error(py: Python<'_>, message: String) -> PyErr {
    exception(py, "MockValueError", message)
}

fn device_of(py: Python<'_>, name: &str) -> PyResult<Device> {
    Device::named(name).ok_or_else(|| {
        let message = format!("device must be 'CPU' or 'Ascend', but got '{name}'");
        value_error(py, message)
    })
}

/// Replaces the Runtime by `ranks` new ones: every policy of `version`, then
/// `policies` over them.
#[pyfunction]
#[pyo3(signature = (version="2.10.0", device="CPU", policies=None, ranks=1))]
pub(crate) fn reset(
    py: Python<'_>,
    version: &str,
    device: &str,
    policies: Option<&Bound<'_, PyAny>>,
    ranks: usize,
) -> PyResult<()> {
    if ranks == 0 {
        return Err(value_error(py, "a world has at least 1 rank".to_owned()));
    }
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
    if let (Some(fields), Some(policies)) = (fields.as_object_mut(), policies) {
        fields.extend(as_json(policies)?);
    }
    let policies: Policies =
        serde_json::from_value(fields).map_err(|error| value_error(py, error.to_string()))?;
    let world = world(policies, device_of(py, device)?, ranks);
    end(WORLD.replace(world));
    Ok(())
}

/// Ends a world, outside of the borrow: hooks may run Python code. Forwards
/// that are kept hold tensors, and those their runtime.
fn end(world: World) {
    world.ranks().iter().for_each(Runtime::clear_res);
    drop(world);
}

/// A Python mapping as JSON, by Python's own rules.
fn as_json(policies: &Bound<'_, PyAny>) -> PyResult<Map<String, Value>> {
    let py = policies.py();
    let text: String = py
        .import("json")?
        .call_method1("dumps", (policies,))?
        .extract()?;
    serde_json::from_str(&text).map_err(|error| value_error(py, error.to_string()))
}

/// Replaces the Runtime if it is for another device (`mindspore.set_device`).
#[pyfunction]
pub(crate) fn set_device(py: Python<'_>, device_target: &str) -> PyResult<()> {
    let wanted = device_of(py, device_target)?;
    let old = current_world();
    let first = &old.ranks()[0];
    if wanted != first.device() {
        let world = world(first.policies(), wanted, old.ranks().len());
        end(WORLD.replace(world));
    }
    Ok(())
}

/// Ranks of the world.
#[pyfunction]
pub(crate) fn world_size() -> usize {
    current_world().ranks().len()
}

/// Waits until every stream is done.
#[pyfunction]
pub(crate) fn synchronize() {
    current_world()
        .ranks()
        .iter()
        .for_each(Runtime::synchronize);
}

/// Sets when the cache of abstracts drops entries, and how many.
#[pyfunction]
pub(crate) fn set_abstract_limits(threshold: usize, drops: usize) {
    for rank in current_world().ranks() {
        rank.set_abstract_limits(AbstractLimits { threshold, drops });
    }
}

/// Sets the bytes that stand for what a collective leaves unexplained.
#[pyfunction]
pub(crate) fn set_acl_residue(bytes: usize) {
    let world = current_world();
    world
        .ranks()
        .iter()
        .for_each(|rank| rank.set_acl_residue(bytes));
}

/// The device of the Runtime.
#[pyfunction]
pub(crate) fn device() -> &'static str {
    with_runtime(Runtime::device).name()
}

/// Live objects by kind, of all ranks.
#[pyfunction]
pub(crate) fn census() -> BTreeMap<&'static str, u64> {
    let world = current_world();
    let live = |kind: Kind| world.ranks().iter().map(|rank| rank.live(kind)).sum();
    Kind::ALL.map(|kind| (kind.name(), live(kind))).into()
}

/// What happened that is no block, by metric, in all ranks.
#[pyfunction]
pub(crate) fn tallies() -> BTreeMap<&'static str, u64> {
    let world = current_world();
    let sum = |tally: Tally| {
        world
            .ranks()
            .iter()
            .map(|rank| rank.census().tally(tally))
            .sum()
    };
    Tally::ALL.map(|tally| (tally.name(), sum(tally))).into()
}

/// Bytes that this thread has allocated in the extension and not freed.
#[pyfunction]
pub(crate) fn thread_net(py: Python<'_>) -> PyResult<i64> {
    let heap =
        Heap::open().map_err(|error| exception(py, "MockRuntimeError", error.to_string()))?;
    Ok(heap.thread_net())
}
