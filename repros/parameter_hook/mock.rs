//! The step on the mock: a hook on a leaf that lives on, then a backward. The
//! same step on `ms` is in `repro_parameter_hook_host_memory.py`.

use std::cell::RefCell;
use std::rc::Rc;

use mockspore::{Error, HookRelease, Runtime, Tensor, TensorHookHandle, ops};

use crate::mock::{Mock, Setting};

/// When a hook is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Register {
    Never,
    Once,
    EachStep,
}

struct ParameterHook {
    runtime: Runtime,
    register: Register,
    /// Whether the one hook is there.
    registered: bool,
    steps: u64,
    leaf: Tensor,
    weight: Tensor,
    sens: [Tensor; 1],
    /// What the caller keeps of the step's handle.
    handle: Rc<RefCell<Option<TensorHookHandle>>>,
}

/// Makes everything long-lived, so that a step leaves behind only the defect.
pub(crate) fn build(setting: &Setting<'_>) -> Result<Box<dyn Mock>, Error> {
    let leaf = setting.random_tensor(&[2, 2])?;
    leaf.requires_grad_();
    let register = match setting.choice("register") {
        "never" => Register::Never,
        "once" => Register::Once,
        _ => Register::EachStep,
    };
    Ok(Box::new(ParameterHook {
        runtime: setting.runtime.clone(),
        register,
        registered: false,
        steps: setting.integer("backwards_per_step"),
        leaf,
        weight: setting.random_tensor(&[2, 2])?,
        sens: [setting.random_tensor(&[2, 2])?],
        handle: Rc::default(),
    }))
}

impl Mock for ParameterHook {
    fn step(&mut self) -> Result<(), Error> {
        (0..self.steps).try_for_each(|_| self.once())
    }
}

impl ParameterHook {
    fn once(&mut self) -> Result<(), Error> {
        if self.register == Register::Once && !self.registered {
            drop(self.leaf.register_hook(|_| Ok(None)));
            self.registered = true;
        }
        let forward = |inputs: &[Tensor]| {
            if self.register == Register::EachStep {
                self.register();
            }
            Ok(vec![ops::mul(&inputs[0], &self.weight)?])
        };
        let inputs = [self.leaf.clone()];
        self.runtime
            .grad(forward, &inputs, &[0], Some(&self.sens))?;
        if self.release() == HookRelease::RemovedAfterBackward {
            remove(&self.handle);
        }
        Ok(())
    }

    fn release(&self) -> HookRelease {
        self.runtime.policies().hook_release
    }

    fn register(&self) {
        let handle = match self.release() {
            HookRelease::Dropped => {
                self.leaf.register_hook(|_| Ok(None));
                return;
            }
            HookRelease::RemovedAfterBackward => self.leaf.register_hook(|_| Ok(None)),
            HookRelease::RemovedInFinalCallback => {
                let (runtime, handle) = (self.runtime.clone(), Rc::clone(&self.handle));
                self.leaf.register_hook(move |_| {
                    let handle = Rc::clone(&handle);
                    runtime.queue_backward_final_callback(move || {
                        remove(&handle);
                        Ok(())
                    })?;
                    Ok(None)
                })
            }
        };
        self.handle.replace(Some(handle));
    }
}

fn remove(handle: &RefCell<Option<TensorHookHandle>>) {
    if let Some(handle) = handle.take() {
        handle.remove();
    }
}
