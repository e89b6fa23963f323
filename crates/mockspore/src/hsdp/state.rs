//! A unit's parameters: gathered, sharded again, and their gradients reduced.
//!
//! ```text
//! HsdpState ─▶ params
//!     ├──────▶ prefetch_handle   of gathers that are under way
//!     └──────▶ places   in the groups of the mesh
//! ```
//!
//! Models `platform/mindspore/fully_shard/state.py`: a gather per parameter, or
//! one per unit where communication is fused; a reduction likewise, issued
//! after the unit before has been waited for. Every handle is dropped right
//! after its `wait()`, so what grows is what the framework keeps. Not modelled:
//! offload, gradient scaling, dtypes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::comm::{ProcessGroup, ReduceOp};
use crate::error::Error;
use crate::hsdp::param::Param;
use crate::hsdp::process::{Handles, Process, wait_all};
use crate::tensor::Tensor;

/// A group, and this rank's place in it.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) group: ProcessGroup,
    pub(crate) member: usize,
}

/// Whom a rank reduces gradients with.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// Those that share each parameter.
    pub(crate) shard: Place,
    /// Other replicas of this rank's parts; none if there is only one.
    pub(crate) replicate: Option<Place>,
    /// All, for parameters that every rank has whole.
    pub(crate) world: Place,
}

#[derive(Debug)]
pub(crate) struct HsdpState {
    pub(crate) params: Box<[Param]>,
    places: Places,
    reshard_after_forward: bool,
    unsharded: Cell<bool>,
    prefetch_handle: RefCell<Handles>,
    pub(crate) requires_grad_sync: Cell<bool>,
    /// Buffers of fused communication: this rank's parts, and everybody's.
    fused: Option<Fused>,
}

/// Parts and wholes of all sharded parameters, one behind the other.
#[derive(Debug)]
pub(crate) struct Fused {
    pub(crate) parts: Rc<[Tensor]>,
    pub(crate) whole: Tensor,
    pub(crate) grad: Tensor,
}

impl HsdpState {
    pub(crate) fn new(
        params: Box<[Param]>,
        places: Places,
        reshard_after_forward: bool,
        fused: Option<Fused>,
    ) -> Self {
        Self {
            params,
            places,
            reshard_after_forward,
            unsharded: Cell::default(),
            prefetch_handle: RefCell::default(),
            requires_grad_sync: Cell::new(true),
            fused,
        }
    }

    /// This rank's place among those it shares its parameters with.
    pub(crate) fn member(&self) -> usize {
        self.places.shard.member
    }

    fn sharded(&self) -> impl Iterator<Item = &Param> {
        self.params.iter().filter(|param| !param.replicated)
    }

    /// Starts gathering the parameters, unless they are there or on their way.
    pub(crate) fn prefetch(&self) -> Result<(), Error> {
        if self.unsharded.replace(true) {
            return Ok(());
        }
        let Place { group, member } = &self.places.shard;
        let mut handles = Handles::new();
        if let Some(fused) = &self.fused {
            fused.pack(self);
            handles.push(group.all_gather_into_tensor(*member, &fused.whole, &fused.parts)?);
            fused.unpack(self, group.size());
        } else {
            for param in self.sharded() {
                handles.push(group.all_gather_into_tensor(*member, &param.full, &param.shards)?);
            }
        }
        self.prefetch_handle.replace(handles);
        Ok(())
    }

    /// Has the parameters gathered when it returns.
    pub(crate) fn unshard(&self) -> Result<(), Error> {
        self.prefetch()?;
        wait_all(self.prefetch_handle.take());
        Ok(())
    }

    /// Leaves this rank its part only.
    pub(crate) fn shard(&self) {
        wait_all(self.prefetch_handle.take());
        if self.unsharded.replace(false) {
            self.params.iter().for_each(Param::reshard);
        }
    }

    /// Whether parameters are sharded between forward and backward.
    pub(crate) fn reshards_after_forward(&self) -> bool {
        self.reshard_after_forward
    }

    /// Reduces the gradients, overlapping with the unit before, and shards.
    pub(crate) fn post_backward(self: &Rc<Self>, process: &Process) -> Result<(), Error> {
        if self.requires_grad_sync.get() {
            process.drain_all_reduces();
            let before = process.pre_reduce_scatter.take();
            if let Some((_, handles)) = &before {
                handles.iter().for_each(crate::comm::CommHandle::wait);
            }
            let own = self.reduce_scatter()?;
            if let Some((unit, handles)) = before {
                drop(handles);
                unit.all_reduce_shards(process)?;
            }
            process
                .pre_reduce_scatter
                .replace(Some((Rc::clone(self), own)));
            self.all_reduce_replicated(process)?;
        }
        self.shard();
        Ok(())
    }

    fn reduce_scatter(&self) -> Result<Handles, Error> {
        let Place { group, member } = &self.places.shard;
        let mut handles = Handles::new();
        if let Some(fused) = &self.fused {
            if fused.pack_grads(self, group.size()) {
                let (input, output) = (&fused.whole, &fused.grad);
                handles.push(group.reduce_scatter_tensor(*member, output, input, ReduceOp::Sum)?);
            }
            return Ok(handles);
        }
        for param in self.sharded() {
            // Nothing arrived: the parameter took no part in the loss.
            let Some(grad) = param.full.take_grad() else {
                continue;
            };
            let output = &param.grad;
            handles.push(group.reduce_scatter_tensor(*member, output, &grad, ReduceOp::Sum)?);
        }
        Ok(handles)
    }

    /// Adds up this rank's parts with those of the other replicas.
    pub(crate) fn all_reduce_shards(&self, process: &Process) -> Result<(), Error> {
        let Some(Place { group, member }) = &self.places.replicate else {
            return Ok(());
        };
        let mut pending = process.pending_all_reduce.borrow_mut();
        match &self.fused {
            Some(fused) => pending.push(group.all_reduce(*member, &fused.grad, ReduceOp::Sum)?),
            None => {
                for param in self.sharded() {
                    pending.push(group.all_reduce(*member, &param.grad, ReduceOp::Sum)?);
                }
            }
        }
        Ok(())
    }

    /// Reduces the gradients of parameters that every rank has whole.
    fn all_reduce_replicated(&self, process: &Process) -> Result<(), Error> {
        let Place { group, member } = &self.places.world;
        for param in self.params.iter().filter(|param| param.replicated) {
            let Some(grad) = param.full.take_grad() else {
                continue;
            };
            param.grad.copy_(&grad);
            let handle = group.all_reduce(*member, &param.grad, ReduceOp::Sum)?;
            process.pre_direct_all_reduce.borrow_mut().push(handle);
        }
        Ok(())
    }

    /// The gradient of parameter `index` that the reductions left to this rank.
    pub(crate) fn reduced_grad(&self, index: usize) -> Vec<f32> {
        match &self.fused {
            Some(fused) if !self.params[index].replicated => fused.grad_of(self, index),
            _ => self.params[index].grad.to_vec(),
        }
    }
}

impl Fused {
    /// Copies every member's parts into its buffer, as each does for itself.
    fn pack(&self, state: &HsdpState) {
        for (member, buffer) in self.parts.iter().enumerate() {
            let own = state.sharded().map(|param| &param.shards[member]);
            let values = own.flat_map(|part| part.array().values());
            buffer.array().assign(values);
        }
    }

    /// Copies everybody's parts out of the buffer.
    fn unpack(&self, state: &HsdpState, members: usize) {
        let mut start = 0;
        let row = self.whole.shape().size() / members;
        for param in state.sharded() {
            let part = param.full.shape().size() / members;
            let places = (0..members).flat_map(|member| {
                let from = member * row + start;
                from..from + part
            });
            let values = places.map(|place| self.whole.array().at(place));
            param.full.array().assign(values);
            start += part;
        }
    }

    /// Copies the gradients into the buffer; whether there was one.
    fn pack_grads(&self, state: &HsdpState, members: usize) -> bool {
        let grads: Vec<_> = state
            .sharded()
            .map(|param| (param.full.shape().size() / members, param.full.take_grad()))
            .collect();
        let row = |member: usize| {
            grads.iter().flat_map(move |(part, grad)| {
                let value = move |index| grad.as_ref().map_or(0.0, |grad| grad.array().at(index));
                (member * part..(member + 1) * part).map(value)
            })
        };
        self.whole.array().assign((0..members).flat_map(row));
        grads.iter().any(|(_, grad)| grad.is_some())
    }

    fn grad_of(&self, state: &HsdpState, index: usize) -> Vec<f32> {
        let size = |param: &Param| param.shards[state.member()].shape().size();
        let before = state.params[..index].iter().filter(|one| !one.replicated);
        let start = before.map(size).sum();
        let values = self.grad.array().values();
        values
            .skip(start)
            .take(size(&state.params[index]))
            .collect()
    }
}
