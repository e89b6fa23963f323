//! What becomes of the handles of a unit's tensor hooks, by policy.
//!
//! ```text
//! dropped                    nobody has them: the registry keeps the entries
//! released_with_backward     the context, by forward
//! removed_on_firing          each hook has its own
//! removed_in_function_…      the unit's scheduler, those of its last forward
//! cleared_by_any_root        the context
//! ```

use std::cell::RefCell;
use std::rc::Rc;

use crate::autograd::hook::{HookReturn, TensorHookHandle};
use crate::census::Kind;
use crate::hsdp::scheduler::Scheduler;
use crate::policy::BackwardPreHook;
use crate::tensor::Tensor;

/// The handles that a unit keeps of its last forward, in a counted block.
#[derive(Debug, Default)]
pub(crate) struct Handles(RefCell<Box<[TensorHookHandle]>>);

impl Handles {
    fn replace(&self, unit: &Scheduler, handles: Vec<TensorHookHandle>) {
        let census = unit.runtime.census();
        let handles = handles.into_boxed_slice();
        census.created(Kind::HookHandles, size_of_val::<[_]>(&handles));
        let old = self.0.replace(handles);
        census.dropped(Kind::HookHandles, size_of_val::<[_]>(&old));
    }
}

/// Registers the backward pre-hook on each output that requires grad.
pub(crate) fn register(unit: &Rc<Scheduler>, outputs: &[Tensor]) {
    let policy = unit.runtime.policies().backward_pre_hook;
    let hooked = outputs.iter().filter(|output| output.requires_grad());
    match policy {
        BackwardPreHook::Dropped => {
            for output in hooked {
                drop(output.register_hook(fire(unit)));
            }
        }
        BackwardPreHook::ReleasedWithBackward | BackwardPreHook::ClearedByAnyRoot => {
            for output in hooked {
                hold(unit, output);
            }
        }
        BackwardPreHook::RemovedOnFiring => {
            for output in hooked {
                remove_on_firing(unit, output);
            }
        }
        BackwardPreHook::RemovedInFunctionBackward => {
            let handles = hooked.map(|output| output.register_hook(fire(unit)));
            unit.handles.replace(unit, handles.collect());
        }
    }
}

fn fire(unit: &Rc<Scheduler>) -> impl Fn(&Tensor) -> HookReturn + 'static {
    let unit = Rc::clone(unit);
    move |_| {
        unit.backward_pre_hook()?;
        Ok(None)
    }
}

fn hold(unit: &Rc<Scheduler>, output: &Tensor) {
    let token = unit.context.token();
    let (owned, fire) = (Rc::clone(&token), fire(unit));
    let handle = output.register_hook(move |grad| {
        owned.takes_part();
        fire(grad)
    });
    unit.context.hold(&token, handle);
}

fn remove_on_firing(unit: &Rc<Scheduler>, output: &Tensor) {
    let own: Rc<RefCell<Option<TensorHookHandle>>> = Rc::default();
    let (handle, fire) = (Rc::clone(&own), fire(unit));
    let registered = output.register_hook(move |grad| {
        // Taken first: removing drops this hook's captures.
        let handle = handle.take();
        if let Some(handle) = handle {
            handle.remove();
        }
        fire(grad)
    });
    own.replace(Some(registered));
}

impl Scheduler {
    /// In the root's final callback.
    pub(crate) fn release_after_root(&self) {
        match self.runtime.policies().backward_pre_hook {
            BackwardPreHook::ReleasedWithBackward => self.context.release_finished(),
            BackwardPreHook::ClearedByAnyRoot => self.context.release_all(),
            _ => {}
        }
    }

    /// In `PostBackwardFunction.backward`.
    pub(crate) fn release_after_function(&self) {
        if self.runtime.policies().backward_pre_hook == BackwardPreHook::RemovedInFunctionBackward {
            let handles = self.handles.0.borrow().clone();
            handles.iter().for_each(TensorHookHandle::remove);
            self.handles.replace(self, Vec::new());
        }
    }
}
