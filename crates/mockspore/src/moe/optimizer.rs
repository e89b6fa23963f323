//! An optimizer's step post-hooks.
//!
//! ```text
//! Optimizer ─▶ entry ─▶ lambda ─▶ whatever it captured
//!     ▲          (the dict keeps it until the handle removes it)
//!     └··weak·· RemovableHandle   (dropping it removes nothing)
//! ```
//!
//! Models `torch.optim.Optimizer.register_step_post_hook` and
//! `RemovableHandle`. Not modelled: the update of the parameters.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::mem::size_of;
use std::rc::{Rc, Weak};

use crate::census::Kind;
use crate::error::Error;
use crate::runtime::{Core, Runtime};

type Call = Rc<dyn Fn() -> Result<(), Error>>;

/// An entry of the dict, in registration order.
struct StepHook {
    next: Option<Box<Self>>,
    id: u64,
    call: Call,
}

/// Bytes of the `Rc` around a lambda: two counts and its captures.
fn lambda_size(call: &dyn Fn() -> Result<(), Error>) -> usize {
    2 * size_of::<usize>() + size_of_val(call).next_multiple_of(size_of::<usize>())
}

struct Body {
    core: Rc<Core>,
    hooks: RefCell<Option<Box<StepHook>>>,
    last_id: Cell<u64>,
}

impl Body {
    const SIZE: usize = 2 * size_of::<usize>() + size_of::<Self>();

    fn free(&self, hook: StepHook) {
        let size = lambda_size(&*hook.call);
        self.core
            .census
            .dropped(Kind::StepHook, size_of::<StepHook>());
        // A lambda that runs meanwhile dies when it returns.
        let last = Rc::strong_count(&hook.call) == 1;
        drop(hook);
        if last {
            self.core.census.dropped(Kind::StepHookFn, size);
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let mut next = self.hooks.take();
        while let Some(mut hook) = next {
            next = hook.next.take();
            self.free(*hook);
        }
        self.core.census.dropped(Kind::Optimizer, Self::SIZE);
    }
}

/// An optimizer; clones share it.
#[derive(Clone)]
pub struct Optimizer(Rc<Body>);

impl Optimizer {
    /// An optimizer without hooks.
    pub fn new(runtime: &Runtime) -> Self {
        let core = Rc::clone(runtime.core());
        core.census.created(Kind::Optimizer, Body::SIZE);
        Self(Rc::new(Body {
            core,
            hooks: RefCell::default(),
            last_id: Cell::default(),
        }))
    }

    /// Calls `hook` after every step until its handle removes it.
    pub fn register_step_post_hook(
        &self,
        hook: impl Fn() -> Result<(), Error> + 'static,
    ) -> RemovableHandle {
        let id = self.0.last_id.get() + 1;
        self.0.last_id.set(id);
        let call: Call = Rc::new(hook);
        let census = &self.0.core.census;
        census.created(Kind::StepHookFn, lambda_size(&*call));
        census.created(Kind::StepHook, size_of::<StepHook>());
        let mut hooks = self.0.hooks.borrow_mut();
        let mut last = &mut *hooks;
        while let Some(hook) = last {
            last = &mut hook.next;
        }
        *last = Some(Box::new(StepHook {
            next: None,
            id,
            call,
        }));
        RemovableHandle {
            id,
            optimizer: Rc::downgrade(&self.0),
        }
    }

    /// One step: the hooks run after it, in the order of their registration.
    ///
    /// # Errors
    /// What a hook raises; those behind it do not run.
    pub fn step(&self) -> Result<(), Error> {
        let mut last_id = 0;
        while let Some((id, call)) = self.after(last_id) {
            last_id = id;
            call()?;
        }
        Ok(())
    }

    /// Hooks that are registered.
    pub fn hooks(&self) -> usize {
        let hooks = self.0.hooks.borrow();
        std::iter::successors(hooks.as_deref(), |hook| hook.next.as_deref()).count()
    }

    fn after(&self, id: u64) -> Option<(u64, Call)> {
        let hooks = self.0.hooks.borrow();
        let mut all = std::iter::successors(hooks.as_deref(), |hook| hook.next.as_deref());
        let hook = all.find(|hook| hook.id > id)?;
        Some((hook.id, Rc::clone(&hook.call)))
    }
}

/// Names a hook. It holds neither the hook nor the optimizer.
#[derive(Clone)]
pub struct RemovableHandle {
    id: u64,
    optimizer: Weak<Body>,
}

impl RemovableHandle {
    /// Takes the hook off; once is enough, and a dead optimizer has none.
    pub fn remove(&self) {
        let Some(optimizer) = self.optimizer.upgrade() else {
            return;
        };
        if let Some(hook) = take(&optimizer.hooks, self.id) {
            optimizer.free(*hook);
        }
    }
}

fn take(hooks: &RefCell<Option<Box<StepHook>>>, id: u64) -> Option<Box<StepHook>> {
    let mut hooks = hooks.borrow_mut();
    let mut slot = &mut *hooks;
    while slot.as_ref().is_some_and(|hook| hook.id != id) {
        slot = &mut slot.as_mut()?.next;
    }
    let mut hook = slot.take()?;
    *slot = hook.next.take();
    Some(hook)
}

impl fmt::Debug for Optimizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Optimizer({} hooks)", self.hooks())
    }
}

impl fmt::Debug for RemovableHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemovableHandle({})", self.id)
    }
}
