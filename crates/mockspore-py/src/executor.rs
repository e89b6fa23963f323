//! The two backward paths and the executor's switches.

#![allow(
    clippy::needless_pass_by_value,
    reason = "pyo3 hands arguments over by value"
)]

use std::rc::Rc;

use mockspore::{Block, CellId, Error, RecomputeStop, Runtime};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::error::{exception, raise, raised};
use crate::runtime::with_runtime;
use crate::tensor::Tensor;

type Tensors = Vec<Tensor>;

/// `function(*inputs)` and the gradients at `positions`.
#[pyfunction]
#[pyo3(signature = (function, inputs, positions, sens, cell=None))]
pub(crate) fn grad(
    py: Python<'_>,
    function: &Bound<'_, PyAny>,
    inputs: Vec<PyRef<'_, Tensor>>,
    positions: Vec<usize>,
    sens: Option<Vec<PyRef<'_, Tensor>>>,
    cell: Option<u64>,
) -> PyResult<(Py<PyAny>, Tensors)> {
    let tensors = unwrap(&inputs);
    let sens = sens.map(|sens| unwrap(&sens));
    let mut returned = None;
    let forward = |_: &[mockspore::Tensor]| call(function, &inputs, &mut returned);
    let result = with_runtime(|runtime| {
        runtime.grad_of(
            cell.map(CellId),
            forward,
            &tensors,
            &positions,
            sens.as_deref(),
        )
    });
    let (outputs, grads) = result.map_err(|error| raise(py, error))?;
    // A kept forward was consumed: nothing was called.
    let output = match returned {
        Some(output) => output,
        None => PyTuple::new(py, outputs.into_iter().map(Tensor))?
            .into_any()
            .unbind(),
    };
    Ok((output, grads.into_iter().map(Tensor).collect()))
}

/// Calls a Python function with the caller's own objects; its tensors, and what
/// it returned.
fn call(
    function: &Bound<'_, PyAny>,
    inputs: &[PyRef<'_, Tensor>],
    returned: &mut Option<Py<PyAny>>,
) -> Result<Vec<mockspore::Tensor>, Error> {
    let arguments = PyTuple::new(function.py(), inputs).map_err(raised)?;
    let output = function.call1(arguments).map_err(raised)?;
    let tensors = outputs(&output).map_err(raised);
    *returned = Some(output.unbind());
    tensors
}

/// `function(*inputs)`, recorded and kept for a grad of the cell.
#[pyfunction]
pub(crate) fn forward_with_grad(
    py: Python<'_>,
    cell: u64,
    function: &Bound<'_, PyAny>,
    inputs: Vec<PyRef<'_, Tensor>>,
) -> PyResult<Py<PyAny>> {
    let tensors = unwrap(&inputs);
    let mut returned = None;
    let forward = |_: &[mockspore::Tensor]| call(function, &inputs, &mut returned);
    let kept = with_runtime(|runtime| runtime.forward_with_grad(CellId(cell), forward, &tensors));
    kept.map_err(|error| raise(py, error))?;
    Ok(returned.unwrap_or_else(|| py.None()))
}

/// `block(*inputs)`, run again in the backward instead of keeping its values.
#[pyfunction]
pub(crate) fn recompute(
    py: Python<'_>,
    block: Py<PyAny>,
    inputs: Vec<PyRef<'_, Tensor>>,
    early_stop: bool,
) -> PyResult<Tensors> {
    let tensors = unwrap(&inputs);
    let stop = if early_stop {
        RecomputeStop::Early
    } else {
        RecomputeStop::AtTheEnd
    };
    let block = move |inputs: &[mockspore::Tensor]| {
        Python::attach(|py| {
            let inputs = inputs.iter().cloned().map(Tensor);
            let arguments: Vec<Bound<'_, Tensor>> = inputs
                .map(|input| Bound::new(py, input))
                .collect::<PyResult<_>>()?;
            outputs(&block.bind(py).call1(PyTuple::new(py, arguments)?)?)
        })
        .map_err(raised)
    };
    let block: Rc<dyn Block> = Rc::new(block);
    let outputs = with_runtime(|runtime| mockspore::recompute(runtime, &block, &tensors, stop));
    let outputs = outputs.map_err(|error| raise(py, error))?;
    Ok(outputs.into_iter().map(Tensor).collect())
}

/// Backward from `tensors`; leaves accumulate into `_grad`.
#[pyfunction]
#[pyo3(signature = (tensors, grad_tensors, keep_graph))]
pub(crate) fn run_backward(
    py: Python<'_>,
    tensors: Vec<PyRef<'_, Tensor>>,
    grad_tensors: Option<Vec<PyRef<'_, Tensor>>>,
    keep_graph: bool,
) -> PyResult<()> {
    let tensors = unwrap(&tensors);
    let grads = grad_tensors.map(|grads| unwrap(&grads));
    with_runtime(|runtime| runtime.run_backward(&tensors, grads.as_deref(), keep_graph))
        .map_err(|error| raise(py, error))
}

/// Runs `callback` at the end of the running backward.
#[pyfunction]
pub(crate) fn queue_backward_final_callback(py: Python<'_>, callback: Py<PyAny>) -> PyResult<()> {
    let call = move || -> Result<(), Error> {
        Python::attach(|py| callback.call0(py).map(drop).map_err(raised))
    };
    with_runtime(|runtime| runtime.queue_backward_final_callback(call))
        .map_err(|error| raise(py, error))
}

/// Clears the hook map, the cache of abstracts, kept forwards and the grad flag.
#[pyfunction]
pub(crate) fn clear_res() {
    with_runtime(Runtime::clear_res);
}

/// Whether operators record nodes.
#[pyfunction]
pub(crate) fn grad_flag() -> bool {
    with_runtime(Runtime::grad_flag)
}

/// Sets whether operators record nodes.
#[pyfunction]
pub(crate) fn set_grad_flag(flag: bool) {
    with_runtime(|runtime| runtime.set_grad_flag(flag));
}

pub(crate) fn unwrap(tensors: &[PyRef<'_, Tensor>]) -> Vec<mockspore::Tensor> {
    tensors.iter().map(|tensor| tensor.0.clone()).collect()
}

/// A tensor, or a tuple or list of tensors, as a function returns them.
pub(crate) fn outputs(output: &Bound<'_, PyAny>) -> PyResult<Vec<mockspore::Tensor>> {
    if let Ok(tensor) = output.cast::<Tensor>() {
        return Ok(vec![tensor.borrow().0.clone()]);
    }
    let tensors: Vec<PyRef<'_, Tensor>> = output.extract().map_err(|_| {
        let message = "a differentiated function returns a Tensor or a tuple of Tensors";
        exception(output.py(), "MockTypeError", message.to_owned())
    })?;
    Ok(unwrap(&tensors))
}
