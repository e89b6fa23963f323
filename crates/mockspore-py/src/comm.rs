//! Collectives. The other ranks are replicas: each has a copy of what rank 0
//! gives, in a runtime of its own.

#![allow(
    clippy::needless_pass_by_value,
    reason = "pyo3 hands arguments over by value"
)]

use mockspore::{Error, ReduceOp, World};
use pyo3::prelude::*;

use crate::error::{exception, raise};
use crate::runtime::current_world;
use crate::tensor::Tensor;

/// The handle of a collective, of all ranks together.
#[pyclass(unsendable, frozen, module = "mockspore")]
pub(crate) struct CommHandle(Vec<mockspore::CommHandle>);

#[pymethods]
impl CommHandle {
    /// Makes the default stream wait for the collective; the host goes on.
    fn wait(&self) {
        self.0.iter().for_each(mockspore::CommHandle::wait);
    }
}

/// One tensor of each rank: the caller's, and copies of it.
fn replicas(world: &World, tensor: &Tensor) -> Result<Vec<mockspore::Tensor>, Error> {
    let values = tensor.0.to_vec();
    let copies = world.ranks()[1..]
        .iter()
        .map(|rank| rank.tensor(&values, tensor.0.shape().dims()));
    [Ok(tensor.0.clone())].into_iter().chain(copies).collect()
}

fn reduction(py: Python<'_>, name: &str) -> PyResult<ReduceOp> {
    ReduceOp::named(name).ok_or_else(|| {
        let message = format!("op must be one of sum, prod, max, min, but got '{name}'");
        exception(py, "MockValueError", message)
    })
}

/// Runs a collective: its handle, or nothing once it is waited for.
fn run(
    py: Python<'_>,
    async_op: bool,
    collective: impl FnOnce(&World) -> Result<Vec<mockspore::CommHandle>, Error>,
) -> PyResult<Option<CommHandle>> {
    let handles = collective(&current_world()).map_err(|error| raise(py, error))?;
    let handle = CommHandle(handles);
    if async_op {
        return Ok(Some(handle));
    }
    handle.wait();
    Ok(None)
}

/// `tensor` becomes the reduction of all ranks' tensors.
#[pyfunction]
pub(crate) fn all_reduce(
    py: Python<'_>,
    tensor: &Tensor,
    op: &str,
    async_op: bool,
) -> PyResult<Option<CommHandle>> {
    let op = reduction(py, op)?;
    run(py, async_op, |world| {
        world.all_reduce(&replicas(world, tensor)?, op)
    })
}

/// `tensor` becomes that of rank `src`.
#[pyfunction]
pub(crate) fn broadcast(
    py: Python<'_>,
    tensor: &Tensor,
    src: usize,
    async_op: bool,
) -> PyResult<Option<CommHandle>> {
    run(py, async_op, |world| {
        world.broadcast(&replicas(world, tensor)?, src)
    })
}

/// Each tensor of the list becomes that of its rank.
#[pyfunction]
pub(crate) fn all_gather(
    py: Python<'_>,
    tensor_list: Vec<PyRef<'_, Tensor>>,
    tensor: &Tensor,
    async_op: bool,
) -> PyResult<Option<CommHandle>> {
    run(py, async_op, |world| {
        let mut lists = vec![Vec::new(); world.ranks().len()];
        for output in &tensor_list {
            for (list, copy) in lists.iter_mut().zip(replicas(world, output)?) {
                list.push(copy);
            }
        }
        world.all_gather(&lists, &replicas(world, tensor)?)
    })
}

/// `output` becomes all ranks' inputs, one behind the other.
#[pyfunction]
pub(crate) fn all_gather_into_tensor(
    py: Python<'_>,
    output: &Tensor,
    input: &Tensor,
    async_op: bool,
) -> PyResult<Option<CommHandle>> {
    run(py, async_op, |world| {
        world.all_gather_into_tensor(&replicas(world, output)?, &replicas(world, input)?)
    })
}

/// `output` becomes this rank's part of the reduction of all inputs.
#[pyfunction]
pub(crate) fn reduce_scatter_tensor(
    py: Python<'_>,
    output: &Tensor,
    input: &Tensor,
    op: &str,
    async_op: bool,
) -> PyResult<Option<CommHandle>> {
    let op = reduction(py, op)?;
    run(py, async_op, |world| {
        world.reduce_scatter_tensor(&replicas(world, output)?, &replicas(world, input)?, op)
    })
}

/// The tensors of all ranks: the caller's, and copies of it.
#[pyfunction]
pub(crate) fn replicate(py: Python<'_>, tensor: &Tensor) -> PyResult<Vec<Tensor>> {
    let tensors = replicas(&current_world(), tensor).map_err(|error| raise(py, error))?;
    Ok(tensors.into_iter().map(Tensor).collect())
}

/// A new tensor with the reduction of all ranks' tensors (`ops.AllReduce()`),
/// each of which enters its rank's cache of abstracts.
#[pyfunction]
pub(crate) fn all_reduce_primitive(
    py: Python<'_>,
    inputs: Vec<PyRef<'_, Tensor>>,
    op: &str,
) -> PyResult<Tensor> {
    let op = reduction(py, op)?;
    let tensors: Vec<mockspore::Tensor> = inputs.iter().map(|input| input.0.clone()).collect();
    // Replicas have the values that rank 0 has by now.
    if let [own, replicas @ ..] = &tensors[..] {
        for replica in replicas {
            replica.copy_(own);
        }
    }
    let outputs = current_world().all_reduce_primitive(&tensors, op);
    let outputs = outputs.map_err(|error| raise(py, error))?;
    let own = outputs.into_iter().next().map(Tensor);
    own.ok_or_else(|| exception(py, "MockRuntimeError", "the world has no rank".to_owned()))
}
