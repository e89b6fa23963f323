//! The callback that evens the experts' load after every optimizer step.
//!
//! ```text
//! trainer ─▶ MoEMonitorCallback ─▶ model
//!               ▲     └─▶ slot ─▶ handle ··weak··▶ optimizer
//!               └── lambda ◀─ entry ◀─ optimizer's dict
//! ```
//!
//! The slot has room for one handle. A second registration loses the first:
//! its hook fires on, and its optimizer keeps callback and model alive. Models
//! `MoEMonitorCallback` (`core/moe_utils.py`).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::mem::size_of;
use std::rc::{Rc, Weak};

use crate::census::Kind;
use crate::comm::{ProcessGroup, ReduceOp};
use crate::error::Error;
use crate::moe::layer::MoeModel;
use crate::moe::optimizer::{Optimizer, RemovableHandle};
use crate::policy::MonitorRegister;
use crate::runtime::{Core, Runtime};

/// A group that counts are summed over (`tp`, `cp`, `dp`), and this rank's
/// place in it.
#[derive(Debug, Clone)]
pub struct Member {
    /// The group.
    pub group: ProcessGroup,
    /// The place.
    pub member: usize,
}

/// What the slot keeps of a registration.
struct Kept {
    next: Option<Box<Self>>,
    handle: RemovableHandle,
}

struct Body {
    core: Rc<Core>,
    model: MoeModel,
    rate: f32,
    recomputations: u32,
    groups: Box<[Member]>,
    hook_handle: RefCell<Option<Box<Kept>>>,
    calls: Cell<u64>,
    last_mean_aux_loss: Cell<Option<f32>>,
}

impl Body {
    const SIZE: usize = 2 * size_of::<usize>() + size_of::<Self>();

    /// Empties the slot; what was in it, last in first out.
    fn take_all(&self) -> Vec<RemovableHandle> {
        let mut next = self.hook_handle.take();
        let mut handles = Vec::new();
        while let Some(mut kept) = next {
            next = kept.next.take();
            self.core
                .census
                .dropped(Kind::MonitorHandle, size_of::<Kept>());
            handles.push(kept.handle);
        }
        handles
    }

    fn keep(&self, handle: RemovableHandle) {
        self.core
            .census
            .created(Kind::MonitorHandle, size_of::<Kept>());
        let mut slot = self.hook_handle.borrow_mut();
        let next = slot.take();
        *slot = Some(Box::new(Kept { next, handle }));
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        drop(self.take_all());
        let census = &self.core.census;
        census.dropped(Kind::MonitorCallback, size_of_val::<[Member]>(&self.groups));
        census.dropped(Kind::MonitorCallback, Self::SIZE);
    }
}

/// The callback; clones share it.
#[derive(Clone)]
pub struct MoeMonitorCallback(Rc<Body>);

impl MoeMonitorCallback {
    /// A callback that is registered nowhere. `rate` moves the bias;
    /// `recomputations` is how often a forward counts its tokens.
    pub fn new(
        runtime: &Runtime,
        model: &MoeModel,
        rate: f32,
        recomputations: u32,
        groups: Vec<Member>,
    ) -> Self {
        let core = Rc::clone(runtime.core());
        let groups = groups.into_boxed_slice();
        let census = &core.census;
        census.created(Kind::MonitorCallback, size_of_val::<[Member]>(&groups));
        census.created(Kind::MonitorCallback, Body::SIZE);
        Self(Rc::new(Body {
            core,
            model: model.clone(),
            rate,
            recomputations,
            groups,
            hook_handle: RefCell::default(),
            calls: Cell::default(),
            last_mean_aux_loss: Cell::default(),
        }))
    }

    /// Has it called after every step of `optimizer` (`register`).
    ///
    /// # Errors
    /// [`Error::AlreadyRegistered`] where the policy refuses a second time.
    pub fn register(&self, optimizer: &Optimizer) -> Result<(), Error> {
        let body = &*self.0;
        let policy = body.core.policies.monitor_register;
        let registered = body.hook_handle.borrow().is_some();
        match policy {
            MonitorRegister::Replaces => self.remove(),
            MonitorRegister::Refuses if registered => return Err(Error::AlreadyRegistered),
            _ => {}
        }
        let own = self.clone();
        let handle = optimizer.register_step_post_hook(move || own.on_step_end());
        if policy == MonitorRegister::Overwrites {
            drop(body.take_all());
        }
        body.keep(handle);
        Ok(())
    }

    /// Takes off what the slot knows of (`remove`); a second call does nothing.
    pub fn remove(&self) {
        let handles = self.0.take_all();
        handles.iter().for_each(RemovableHandle::remove);
    }

    /// Sums the counts over the groups and moves the bias (`on_step_end`).
    ///
    /// # Errors
    /// What collectives raise.
    pub fn on_step_end(&self) -> Result<(), Error> {
        let body = &*self.0;
        body.calls.set(body.calls.get() + 1);
        for layer in body.model.layers() {
            for Member { group, member } in &body.groups {
                let counts = &layer.tokens_per_expert;
                group.all_reduce(*member, counts, ReduceOp::Sum)?.wait();
            }
            let (own, rule) = (layer.clone(), body.core.policies.expert_bias_rule);
            let (rate, recomputations) = (body.rate, body.recomputations);
            let update = move || own.update_expert_bias(rule, rate, recomputations);
            match body.groups.last() {
                None => update(),
                Some(Member { group, member }) => group.behind(*member, update),
            }
        }
        body.last_mean_aux_loss.set(body.model.mean_aux_loss());
        Ok(())
    }

    /// The groups that counts are summed over.
    pub fn groups(&self) -> &[Member] {
        &self.0.groups
    }

    /// Times that [`Self::on_step_end`] has run.
    pub fn calls(&self) -> u64 {
        self.0.calls.get()
    }

    /// The mean auxiliary loss of the last step; none before it.
    pub fn last_mean_aux_loss(&self) -> Option<f32> {
        self.0.last_mean_aux_loss.get()
    }

    /// Tells later whether it still lives, without keeping it.
    pub fn observe(&self) -> impl Fn() -> bool + 'static {
        let weak: Weak<Body> = Rc::downgrade(&self.0);
        move || weak.strong_count() > 0
    }
}

impl fmt::Debug for MoeMonitorCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MoEMonitorCallback")
            .field("calls", &self.calls())
            .finish_non_exhaustive()
    }
}
