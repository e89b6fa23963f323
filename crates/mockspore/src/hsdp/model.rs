//! A model of sharded units on one rank.
//!
//! ```text
//! ShardedModel ─▶ units ─▶ Module ─▶ Scheduler
//!      └────────▶ Context ─▶ Process
//! ```
//!
//! The units run one after the other below the root. Models a `Cell` to whose
//! cells `fully_shard(module, mesh=..., reshard_after_forward=...)` was applied.

use std::fmt;
use std::rc::Rc;

use crate::comm::ProcessGroup;
use crate::error::Error;
use crate::hsdp::context::Context;
use crate::hsdp::module::{Module, recomputed};
use crate::hsdp::param::Param;
use crate::hsdp::process::Observer;
use crate::hsdp::scheduler::SchedulerState;
use crate::runtime::Runtime;
use crate::tensor::Tensor;

/// The model on one rank.
pub struct ShardedModel {
    pub(crate) runtime: Runtime,
    pub(crate) context: Rc<Context>,
    /// In the order of their forwards, without the root.
    pub(crate) units: Vec<Rc<Module>>,
    pub(crate) root: Rc<Module>,
    pub(crate) groups: Vec<ProcessGroup>,
    pub(crate) ranks: usize,
}

impl ShardedModel {
    /// The root's output for `input`, which has `width` values in each row.
    ///
    /// # Errors
    /// What operators, collectives and the observer raise.
    pub fn forward(&self, input: &Tensor) -> Result<Tensor, Error> {
        self.forward_through(input, &mut |_, stream| Ok(stream))
    }

    /// The same, with something of the caller's behind each unit.
    ///
    /// # Errors
    /// As [`Self::forward`], and what the caller raises.
    pub fn forward_through(
        &self,
        input: &Tensor,
        behind: &mut dyn FnMut(usize, Tensor) -> Result<Tensor, Error>,
    ) -> Result<Tensor, Error> {
        // The root's own input is the first unit's.
        let plain = self.root.scheduler.pre_forward(input.clone())?;
        let mut stream = plain.clone();
        let mut at = 0;
        while at < self.units.len() {
            let rest = &self.units[at..];
            let inner = rest.iter().take_while(|unit| unit.recomputed).count();
            // The unit behind the inner ones ends the block.
            let block = (inner + usize::from(inner > 0)).min(rest.len());
            stream = match block {
                0 => rest[0].run(&plain, stream)?,
                _ => recomputed(&self.runtime, rest[..block].to_vec(), &plain, stream)?,
            };
            for unit in at..at + block.max(1) {
                stream = behind(unit, stream)?;
            }
            at += block.max(1);
        }
        let mut outputs = self.root.compute(&stream)?;
        self.root.scheduler.post_forward(&outputs)?;
        Ok(outputs.swap_remove(0))
    }

    /// Whether backwards reduce gradients (`set_requires_gradient_sync`): only
    /// the last micro-batch's does.
    pub fn set_requires_gradient_sync(&self, sync: bool) {
        for unit in self.all_units() {
            unit.scheduler.state.requires_grad_sync.set(sync);
        }
    }

    /// Drops gradients that no reduction has taken.
    pub fn zero_grad(&self) {
        for unit in self.all_units() {
            for param in &unit.scheduler.state.params {
                drop(param.full.take_grad());
            }
        }
    }

    /// One step of gradient descent on this rank's parts, by the gradients'
    /// mean over the ranks.
    pub fn descend(&self, rate: f32) {
        for unit in self.all_units() {
            let state = &unit.scheduler.state;
            for (index, param) in state.params.iter().enumerate() {
                let own = param.own(state.member());
                let grads = state.reduced_grad(index);
                let step = own.array().values().zip(grads);
                let values: Vec<f32> = step
                    .map(|(value, grad)| value - rate * grad / self.ranks as f32)
                    .collect();
                own.array().assign(values.into_iter());
            }
        }
    }

    /// The gradients that reductions left to this rank, summed over the ranks;
    /// by unit and parameter, the root's last.
    pub fn grads(&self) -> Vec<Vec<Vec<f32>>> {
        let of = |unit: &Rc<Module>| {
            let state = &unit.scheduler.state;
            (0..state.params.len())
                .map(|index| state.reduced_grad(index))
                .collect()
        };
        self.all_units().map(of).collect()
    }

    /// This rank's parts, by unit and parameter, the root's last.
    pub fn parts(&self) -> Vec<Vec<Tensor>> {
        let of = |unit: &Rc<Module>| {
            let state = &unit.scheduler.state;
            let own = |param: &Param| param.own(state.member()).clone();
            state.params.iter().map(own).collect()
        };
        self.all_units().map(of).collect()
    }

    /// Each unit's state on the thread that runs, the root's last.
    pub fn states(&self) -> Vec<SchedulerState> {
        let states = self
            .all_units()
            .map(|unit| unit.scheduler.scheduler_state());
        states.collect()
    }

    /// Hook handles that are held for a backward that may come.
    pub fn held_handles(&self) -> usize {
        self.context.held()
    }

    /// Forwards whose handles are held.
    pub fn pending_forwards(&self) -> usize {
        self.context.forwards()
    }

    /// Sets who is told where the units are, and may raise there.
    pub fn set_observer(&self, observer: Option<Observer>) {
        self.context.process.set_observer(observer);
    }

    /// Sets the thread that runs: 0 the caller's, 1 the backward's.
    pub fn set_thread(&self, thread: usize) {
        self.context.process.set_thread(thread);
    }

    /// The rank that would keep the others of a group waiting.
    ///
    /// # Errors
    /// [`Error::WouldHang`].
    pub fn finish(&self) -> Result<(), Error> {
        let hang = self.groups.iter().find_map(ProcessGroup::hang);
        hang.map_or(Ok(()), Err)
    }

    fn all_units(&self) -> impl Iterator<Item = &Rc<Module>> {
        self.units.iter().chain([&self.root])
    }
}

impl fmt::Debug for ShardedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedModel")
            .field("units", &(self.units.len() + 1))
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}
