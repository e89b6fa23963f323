//! The Runtime: one value on which everything hangs.
//!
//! ```text
//! Runtime ─▶ Core ◀─ every tensor, node, hook and handle
//!              ├─ census           the counts
//!              ├─ hooks            hook_id_node_map_ (weak to nodes)
//!              ├─ engines          the backward passes that are running
//!              └─ graveyard        nodes dying in a chain
//! ```
//!
//! Models the parts of `_pynative_executor` (`graph/api.py`,
//! `ccsrc/pynative/`) that decide lifetimes.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use crate::autograd::engine::{self, Request};
use crate::autograd::final_callback::FinalCallback;
use crate::autograd::graveyard::Graveyard;
use crate::autograd::hook::HookRegistry;
use crate::census::{Census, Kind};
use crate::error::Error;
use crate::policy::{Device, Policies};
use crate::tensor::{Array, Shape, Tensor};

/// Backward passes that may nest before a list of them would grow.
const NESTED_ENGINES: usize = 8;

pub(crate) struct Core {
    pub(crate) census: Census,
    pub(crate) policies: Policies,
    pub(crate) device: Device,
    pub(crate) grad_flag: Cell<bool>,
    pub(crate) hooks: HookRegistry,
    pub(crate) graveyard: Graveyard,
    /// Final callbacks of each running backward, innermost last.
    pub(crate) engines: RefCell<Vec<Vec<FinalCallback>>>,
    pub(crate) last_engine_id: Cell<u64>,
    last_seq: Cell<u64>,
}

impl Core {
    pub(crate) fn next_seq(&self) -> u64 {
        self.last_seq.set(self.last_seq.get() + 1);
        self.last_seq.get()
    }

    /// Drops what the executor caches across calls (`PyNativeExecutor::ClearRes`).
    pub(crate) fn clear_res(&self) {
        self.hooks.clear(self);
        self.grad_flag.set(false);
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.hooks.clear(self);
        self.hooks.free(&self.census);
    }
}

/// A mock `PyNative` runtime. Clones share it.
#[derive(Clone)]
pub struct Runtime(Rc<Core>);

impl Runtime {
    /// A runtime with nothing alive; ids start at 1.
    pub fn new(policies: Policies, device: Device) -> Self {
        Self(Rc::new(Core {
            census: Census::new(),
            policies,
            device,
            grad_flag: Cell::new(false),
            hooks: HookRegistry::new(),
            graveyard: Graveyard::default(),
            engines: RefCell::new(Vec::with_capacity(NESTED_ENGINES)),
            last_engine_id: Cell::new(0),
            last_seq: Cell::new(0),
        }))
    }

    /// The counts of live blocks.
    pub fn census(&self) -> &Census {
        &self.0.census
    }

    /// The policies it was made with.
    pub fn policies(&self) -> Policies {
        self.0.policies
    }

    /// The device it was made for.
    pub fn device(&self) -> Device {
        self.0.device
    }

    /// A tensor of `values` in row-major order.
    ///
    /// # Errors
    /// [`Error::Rank`] or [`Error::DataLength`] if `dims` do not fit.
    pub fn tensor(&self, values: &[f32], dims: &[usize]) -> Result<Tensor, Error> {
        let shape = Shape::new(dims)?;
        if shape.size() != values.len() {
            return Err(Error::DataLength {
                values: values.len(),
                shape,
            });
        }
        let array = Array::new(&self.0, shape, values.iter().copied());
        Ok(Tensor::from_array(array, None))
    }

    /// Entries in `hook_id_node_map_`, dead ones included.
    pub fn hook_entries(&self) -> usize {
        self.0.hooks.len()
    }

    /// Whether operators record nodes (`_pynative_executor.grad_flag`).
    pub fn grad_flag(&self) -> bool {
        self.0.grad_flag.get()
    }

    /// Sets the flag (`_pynative_executor.set_grad_flag`).
    pub fn set_grad_flag(&self, flag: bool) {
        self.0.grad_flag.set(flag);
    }

    /// Clears the hook map and the grad flag (`_pynative_executor.clear_res`).
    /// Hooks on live leaves stay, and can then no longer be removed by handle.
    pub fn clear_res(&self) {
        self.0.clear_res();
    }

    /// Queues a callback for the end of the running backward
    /// (`queue_backward_final_callback`).
    ///
    /// # Errors
    /// [`Error::CallbackOutsideBackward`] if none runs.
    pub fn queue_backward_final_callback(
        &self,
        callback: impl FnOnce() -> Result<(), Error> + 'static,
    ) -> Result<(), Error> {
        let mut engines = self.0.engines.borrow_mut();
        let callbacks = engines.last_mut().ok_or(Error::CallbackOutsideBackward)?;
        callbacks.push(Box::new(callback));
        Ok(())
    }

    /// `mindspore.value_and_grad(fn, grad_position=positions)` applied to
    /// `inputs`: the outputs of `function` and the gradients at `positions`.
    /// `sens` is the gradient of each output, ones where it is `None`.
    ///
    /// The inputs at `positions` become leaves and stay so, as upstream.
    ///
    /// # Errors
    /// Those of `function`, of hooks and callbacks, and of a `sens` or a
    /// position that does not fit.
    pub fn grad(
        &self,
        function: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>, Error>,
        inputs: &[Tensor],
        positions: &[usize],
        sens: Option<&[Tensor]>,
    ) -> Result<(Vec<Tensor>, Vec<Tensor>), Error> {
        let core = &self.0;
        self.owns(inputs)?;
        let leaves = positions
            .iter()
            .map(|&position| {
                let inputs_given = inputs.len();
                let input = inputs.get(position).ok_or(Error::GradPosition {
                    position,
                    inputs: inputs_given,
                })?;
                Ok(input.meta_or_leaf())
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let outer = core.grad_flag.replace(true);
        let outputs = function(inputs);
        core.grad_flag.set(outer);
        let outputs = outputs?;
        self.owns(&outputs)?;
        let roots = engine::roots(&outputs, sens)?;
        let captured = engine::backward(core, Request::capture(roots, &leaves))?;
        let grads = captured
            .into_iter()
            .zip(positions)
            .map(|(grad, &position)| {
                // An input that no output depends on has a zero gradient.
                let zeros = || crate::kernels::full(core, inputs[position].shape(), 0.0);
                Tensor::from_array(grad.unwrap_or_else(zeros), None)
            });
        let grads = grads.collect();
        Ok((outputs, grads))
    }

    /// `_c_expression.run_backward`: accumulates into the leaves' `_grad`
    /// without a top cell. `grads` are the gradients of `outputs`, ones where
    /// `None`.
    ///
    /// # Errors
    /// [`Error::NoGrad`] if an output requires none, [`Error::BackwardTwice`]
    /// for a released graph, and what hooks and callbacks raise.
    pub fn run_backward(
        &self,
        outputs: &[Tensor],
        grads: Option<&[Tensor]>,
        keep_graph: bool,
    ) -> Result<(), Error> {
        self.owns(outputs)?;
        if !outputs.iter().all(Tensor::requires_grad) {
            return Err(Error::NoGrad);
        }
        let roots = engine::roots(outputs, grads)?;
        engine::backward(&self.0, Request::accumulate(roots, keep_graph))?;
        Ok(())
    }

    fn owns(&self, tensors: &[Tensor]) -> Result<(), Error> {
        let mut own = tensors
            .iter()
            .map(|tensor| Rc::ptr_eq(tensor.core(), &self.0));
        own.all(|own| own).then_some(()).ok_or(Error::OtherRuntime)
    }

    /// Blocks of one kind that are alive.
    pub fn live(&self, kind: Kind) -> u64 {
        self.0.census.live(kind)
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("policies", &self.0.policies)
            .field("device", &self.0.device)
            .field("live", &self.0.census.live_total())
            .finish_non_exhaustive()
    }
}
