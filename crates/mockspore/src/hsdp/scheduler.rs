//! A unit's scheduler: what its module's hooks do.
//!
//! ```text
//! unit's output ─▶ node ─▶ hook ─▶ Scheduler ─▶ Context, HsdpState
//! unit's input  ─▶ node of PostBackwardFunction ─▶ Scheduler
//! ```
//!
//! `None`, `PreForward`, `Forward`, `PreBackward`, `Backward` and `PreForward`
//! again. A second hook of a unit in one backward finds `PreBackward`, a second
//! post-backward finds `Backward`, and both do nothing. Models `HSDPSchedulerV2`
//! and `platform/mindspore/fully_shard/scheduler.py`, whose
//! `_register_backward_pre_hook` drops the handles. Not modelled: dtype casts,
//! dispatch modes, several root modules in one call.

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};

use crate::autograd::ctx::FunctionCtx;
use crate::autograd::function::{Function, apply_to};
use crate::census::Tally;
use crate::error::Error;
use crate::hsdp::context::Context;
use crate::hsdp::process::{Point, THREADS};
use crate::hsdp::release::{Handles, register};
use crate::hsdp::state::HsdpState;
use crate::policy::NeedsInputGrad;
use crate::runtime::Runtime;
use crate::tensor::Tensor;

/// Where a unit is between two forwards (`scheduler_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the names are upstream's")]
pub enum SchedulerState {
    #[default]
    None,
    PreForward,
    Forward,
    PreBackward,
    Backward,
}

/// One unit on one rank.
pub(crate) struct Scheduler {
    pub(crate) name: Box<str>,
    pub(crate) runtime: Runtime,
    pub(crate) context: Rc<Context>,
    pub(crate) state: Rc<HsdpState>,
    pub(crate) is_root: bool,
    /// Whether it is on the list of the running backward.
    pub(crate) in_backward: Cell<bool>,
    /// Kept for each thread, as a backward may run on another one.
    by_thread: [Cell<SchedulerState>; THREADS],
    forward_prefetch: RefCell<Vec<Weak<Self>>>,
    backward_prefetch: RefCell<Vec<Weak<Self>>>,
    /// The forward list while a recomputed forward runs.
    backup_forward_prefetch: RefCell<Vec<Weak<Self>>>,
    post_backward: OnceCell<Rc<dyn Function>>,
    /// Handles of the last forward, where the policy keeps them here.
    pub(crate) handles: Handles,
}

impl Scheduler {
    pub(crate) fn new(
        name: &str,
        runtime: &Runtime,
        context: &Rc<Context>,
        state: HsdpState,
        is_root: bool,
    ) -> Rc<Self> {
        let scheduler = Rc::new(Self {
            name: name.into(),
            runtime: runtime.clone(),
            context: Rc::clone(context),
            state: Rc::new(state),
            is_root,
            in_backward: Cell::default(),
            by_thread: Default::default(),
            forward_prefetch: RefCell::default(),
            backward_prefetch: RefCell::default(),
            backup_forward_prefetch: RefCell::default(),
            post_backward: OnceCell::new(),
            handles: Handles::default(),
        });
        let function = PostBackwardFunction(Rc::downgrade(&scheduler));
        scheduler.post_backward.get_or_init(|| Rc::new(function));
        scheduler
    }

    /// Sets the units that it gathers ahead.
    pub(crate) fn set_prefetch(&self, forward: Vec<Weak<Self>>, backward: Vec<Weak<Self>>) {
        self.forward_prefetch.replace(forward);
        self.backward_prefetch.replace(backward);
    }

    /// As if it had never run.
    pub(crate) fn reset(&self) {
        self.in_backward.set(false);
        for state in &self.by_thread {
            state.set(SchedulerState::None);
        }
        self.state.shard();
        self.restore_prefetch();
    }

    fn restore_prefetch(&self) {
        let list = self.backup_forward_prefetch.take();
        if !list.is_empty() {
            self.forward_prefetch.replace(list);
        }
    }

    fn cell(&self) -> &Cell<SchedulerState> {
        &self.by_thread[self.context.process.thread()]
    }

    fn enter(&self, state: SchedulerState) {
        self.runtime.census().happened(Tally::StateChanges, 1);
        self.cell().set(state);
    }

    /// The state on the thread that runs.
    pub(crate) fn scheduler_state(&self) -> SchedulerState {
        self.cell().get()
    }

    /// The forward pre-hook, with `PostBackwardFunction` behind it.
    pub(crate) fn pre_forward(&self, input: Tensor) -> Result<Tensor, Error> {
        let process = &self.context.process;
        if self.scheduler_state() == SchedulerState::PreBackward && !self.is_root {
            // A recomputed forward of this very unit.
            return Ok(input);
        }
        if self.is_root {
            self.context.begin_forward();
        } else if process.root_bp_state.get() {
            // Not twice: a recomputed forward that stops early restores nothing.
            let list = self.forward_prefetch.take();
            if !list.is_empty() {
                self.backup_forward_prefetch.replace(list);
            }
        }
        process.observe(&self.name, Point::PreForward)?;
        self.enter(SchedulerState::PreForward);
        self.state.unshard()?;
        for unit in self
            .forward_prefetch
            .borrow()
            .iter()
            .filter_map(Weak::upgrade)
        {
            unit.state.prefetch()?;
        }
        if !self.runtime.grad_flag() || !input.requires_grad() {
            return Ok(input);
        }
        let Some(function) = self.post_backward.get() else {
            return Ok(input);
        };
        // The scheduler itself is the first argument.
        let mut outputs = apply_to(&self.runtime, function, &[None, Some(input)])?;
        Ok(outputs.swap_remove(0))
    }

    /// The forward hook: hooks on the outputs, and the parameters are sharded.
    pub(crate) fn post_forward(self: &Rc<Self>, outputs: &[Tensor]) -> Result<(), Error> {
        let process = &self.context.process;
        if self.scheduler_state() == SchedulerState::PreBackward {
            return Ok(());
        }
        process.observe(&self.name, Point::PostForward)?;
        register(self, outputs);
        if process.root_bp_state.get() {
            self.restore_prefetch();
            return Ok(());
        }
        self.enter(SchedulerState::Forward);
        if self.is_root {
            self.context.end_forward();
        }
        if self.state.reshards_after_forward() {
            self.state.shard();
        }
        Ok(())
    }

    /// The tensor hook (`_backward_pre_hook`).
    pub(crate) fn backward_pre_hook(self: &Rc<Self>) -> Result<(), Error> {
        let process = &self.context.process;
        process.observe(&self.name, Point::BackwardPreHook)?;
        let unit = Rc::clone(self);
        if self.context.reached(self) {
            self.runtime.queue_backward_final_callback(move || {
                unit.context.root_backward_hook()?;
                unit.release_after_root();
                Ok(())
            })?;
        } else {
            self.runtime
                .queue_backward_final_callback(move || unit.backward_hook())?;
        }
        if self.scheduler_state() == SchedulerState::PreBackward {
            return Ok(());
        }
        process.root_bp_state.set(true);
        self.enter(SchedulerState::PreBackward);
        self.state.unshard()?;
        for unit in self
            .backward_prefetch
            .borrow()
            .iter()
            .filter_map(Weak::upgrade)
        {
            unit.state.prefetch()?;
        }
        Ok(())
    }

    /// The end of the unit's backward (`_backward_hook`).
    pub(crate) fn backward_hook(&self) -> Result<(), Error> {
        if self.scheduler_state() == SchedulerState::Backward {
            return Ok(());
        }
        self.enter(SchedulerState::Backward);
        self.state.post_backward(&self.context.process)
    }
}

/// Marks the end of a unit's backward: its input's gradient is there.
struct PostBackwardFunction(Weak<Scheduler>);

impl PostBackwardFunction {
    fn clears(&self, ctx: &FunctionCtx, place: NeedsInputGrad) {
        let unit = self.0.upgrade();
        if unit.is_some_and(|unit| unit.runtime.policies().needs_input_grad == place) {
            ctx.clear_needs_input_grad();
        }
    }
}

impl Function for PostBackwardFunction {
    fn forward(&self, ctx: &FunctionCtx, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
        self.clears(ctx, NeedsInputGrad::ClearedInForward);
        Ok(inputs.to_vec())
    }

    fn backward(
        &self,
        ctx: &FunctionCtx,
        grads: &[Option<Tensor>],
    ) -> Result<Vec<Option<Tensor>>, Error> {
        if let Some(unit) = self.0.upgrade() {
            let process = &unit.context.process;
            process.observe(&unit.name, Point::PostBackwardFunction)?;
            if unit.scheduler_state() != SchedulerState::PreBackward {
                let census = unit.runtime.census();
                census.happened(Tally::BackwardWithoutUnshard, 1);
            }
            unit.backward_hook()?;
            unit.release_after_function();
        }
        self.clears(ctx, NeedsInputGrad::ClearedInBackward);
        Ok([None].into_iter().chain(grads.iter().cloned()).collect())
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler")
            .field("name", &self.name)
            .field("state", &self.scheduler_state())
            .finish_non_exhaustive()
    }
}
