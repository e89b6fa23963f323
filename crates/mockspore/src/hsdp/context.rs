//! What the units below one root share, and the handles of its forwards.
//!
//! ```text
//! tensor hook ─▶ ForwardToken ◀─weak─ Forward ─▶ handles
//!                                        ▲
//!                       Context ─────────┘   one for each forward of the root
//! ```
//!
//! Only hooks own the token, and nodes own the hooks: it lives exactly as long
//! as a backward through that forward is still possible. So a forward whose
//! token is dead will never run backward, however it ended, and its handles can
//! go; one whose token lives may be a micro-batch that is still to come. Models
//! the shared context of `HSDPSchedulerV2`; tokens and handles are the fix that
//! is proposed here.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};

use crate::autograd::hook::TensorHookHandle;
use crate::error::Error;
use crate::hsdp::process::{Point, Process};
use crate::hsdp::scheduler::Scheduler;

/// One forward of the root, held by the hooks that it registered.
#[derive(Debug, Default)]
pub(crate) struct ForwardToken {
    /// Whether the running backward has come through it.
    took_part: Cell<bool>,
}

impl ForwardToken {
    pub(crate) fn takes_part(&self) {
        self.took_part.set(true);
    }
}

/// The handles of one forward.
struct Forward {
    token: Weak<ForwardToken>,
    handles: Vec<TensorHookHandle>,
}

impl Forward {
    fn release(self) {
        self.handles.iter().for_each(TensorHookHandle::remove);
    }
}

/// What the units of one root share.
pub(crate) struct Context {
    pub(crate) process: Rc<Process>,
    /// Units of the running backward, in the order they were reached.
    post_backward_schedulers: RefCell<Vec<Rc<Scheduler>>>,
    post_backward_final_callback_queued: Cell<bool>,
    /// All units, for a forward or backward that has failed.
    units: RefCell<Vec<Weak<Scheduler>>>,
    /// Whether a forward of the root has begun and not ended.
    in_forward: Cell<bool>,
    /// The newest forward's token, until the root's forward hook.
    token: RefCell<Option<Rc<ForwardToken>>>,
    /// Forwards whose handles are held, oldest first.
    forwards: RefCell<Vec<Forward>>,
}

impl Context {
    pub(crate) fn new(process: &Rc<Process>) -> Self {
        Self {
            process: Rc::clone(process),
            post_backward_schedulers: RefCell::default(),
            post_backward_final_callback_queued: Cell::default(),
            units: RefCell::default(),
            in_forward: Cell::default(),
            token: RefCell::default(),
            forwards: RefCell::default(),
        }
    }

    pub(crate) fn set_units(&self, units: &[Rc<Scheduler>]) {
        let units = units.iter().map(Rc::downgrade).collect();
        self.units.replace(units);
    }

    /// The root's forward begins: forgets a pass that failed, and releases the
    /// handles of forwards that no backward can reach any more.
    pub(crate) fn begin_forward(&self) {
        drop(self.token.take());
        let failed = self.post_backward_final_callback_queued.get();
        if self.in_forward.replace(true) || failed {
            self.reset();
        }
        self.release(|forward| forward.token.strong_count() == 0);
    }

    /// As if no pass had begun; handles stay as long as their graphs do.
    fn reset(&self) {
        self.post_backward_final_callback_queued.set(false);
        drop(self.post_backward_schedulers.take());
        self.process.reset();
        for unit in self.units.borrow().iter().filter_map(Weak::upgrade) {
            unit.reset();
        }
    }

    /// The root's forward is over: its hooks alone own the token now.
    pub(crate) fn end_forward(&self) {
        self.in_forward.set(false);
        drop(self.token.take());
    }

    /// The token of the forward that runs.
    pub(crate) fn token(&self) -> Rc<ForwardToken> {
        Rc::clone(self.token.borrow_mut().get_or_insert_default())
    }

    /// Holds a handle for as long as its forward may run backward.
    pub(crate) fn hold(&self, token: &Rc<ForwardToken>, handle: TensorHookHandle) {
        let mut forwards = self.forwards.borrow_mut();
        let same = |forward: &&mut Forward| forward.token.as_ptr() == Rc::as_ptr(token);
        match forwards.last_mut().filter(same) {
            Some(forward) => forward.handles.push(handle),
            None => forwards.push(Forward {
                token: Rc::downgrade(token),
                handles: vec![handle],
            }),
        }
    }

    /// Handles that are held.
    pub(crate) fn held(&self) -> usize {
        let forwards = self.forwards.borrow();
        forwards.iter().map(|forward| forward.handles.len()).sum()
    }

    /// Forwards whose handles are held.
    pub(crate) fn forwards(&self) -> usize {
        self.forwards.borrow().len()
    }

    /// Removes the handles of forwards that the running backward came through.
    pub(crate) fn release_finished(&self) {
        // A recomputed forward's: its graph is gone, and nothing else owns it.
        drop(self.token.take());
        self.release(|forward| {
            let token = forward.token.upgrade();
            token.is_none_or(|token| token.took_part.get())
        });
    }

    /// Removes all handles, whatever is still to come.
    pub(crate) fn release_all(&self) {
        self.release(|_| true);
    }

    fn release(&self, done: impl Fn(&Forward) -> bool) {
        // Removed outside of the borrow: a hook's captures may run user code.
        let forwards = self.forwards.take();
        let (done, pending): (Vec<_>, Vec<_>) = forwards.into_iter().partition(done);
        self.forwards.replace(pending);
        done.into_iter().for_each(Forward::release);
    }

    /// Notes a unit of the running backward; whether it is the first.
    pub(crate) fn reached(&self, unit: &Rc<Scheduler>) -> bool {
        let mut units = self.post_backward_schedulers.borrow_mut();
        if !unit.in_backward.replace(true) {
            units.push(Rc::clone(unit));
        }
        !self.post_backward_final_callback_queued.replace(true)
    }

    /// The root's final callback (`_root_backward_hook`): once per backward.
    pub(crate) fn root_backward_hook(&self) -> Result<(), Error> {
        self.post_backward_final_callback_queued.set(false);
        let units = self.post_backward_schedulers.take();
        let finished = self.finish(&units);
        if finished.is_err() {
            self.reset();
        }
        finished
    }

    fn finish(&self, units: &[Rc<Scheduler>]) -> Result<(), Error> {
        for unit in units {
            unit.in_backward.set(false);
        }
        self.process.observe("root", Point::RootBackward)?;
        for unit in units {
            unit.backward_hook()?;
        }
        if units.iter().any(|unit| unit.is_root) {
            self.process.root_bp_state.set(false);
        }
        self.process.drain()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("forwards", &self.forwards())
            .field("held", &self.held())
            .finish_non_exhaustive()
    }
}
