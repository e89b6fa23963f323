//! The step on the mock: hooks on what one forward makes, then a backward.
//! The same step on `ms` is in `repro_hook_handle_host_memory.py`.

use std::cell::RefCell;
use std::rc::Rc;

use mockspore::{Error, HookRelease, Runtime, Tensor, TensorHookHandle, ops};

use crate::mock::{Mock, Setting};

/// What hooks are registered on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HookOn {
    Nothing,
    OperatorOutputs,
    OneTensor,
    FreshLeaf,
}

type Handles = Rc<RefCell<Vec<TensorHookHandle>>>;

struct HookHandle {
    runtime: Runtime,
    hook_on: HookOn,
    hooks: usize,
    input: Tensor,
    weight: Tensor,
    sens: Vec<Tensor>,
    /// What the caller keeps of the step's handles.
    handles: Handles,
}

/// Makes everything long-lived, so that a step leaves behind only the defect.
pub(crate) fn build(setting: &Setting<'_>) -> Result<Box<dyn Mock>, Error> {
    let hooks = setting.integer("hooks_per_step") as usize;
    let hook_on = match setting.choice("hook_on") {
        "nothing" => HookOn::Nothing,
        "one_tensor" => HookOn::OneTensor,
        "fresh_leaf" => HookOn::FreshLeaf,
        _ => HookOn::OperatorOutputs,
    };
    let input = setting.random_tensor(&[2, 2])?;
    // A differentiated input is a leaf from its first backward on.
    input.requires_grad_();
    let outputs = if hook_on == HookOn::OneTensor {
        1
    } else {
        hooks
    };
    let sens = setting.random_tensor(&[2, 2])?;
    Ok(Box::new(HookHandle {
        runtime: setting.runtime.clone(),
        hook_on,
        hooks,
        input,
        weight: setting.random_tensor(&[2, 2])?,
        sens: vec![sens; outputs],
        handles: Rc::new(RefCell::new(Vec::with_capacity(hooks))),
    }))
}

impl Mock for HookHandle {
    fn step(&mut self) -> Result<(), Error> {
        if self.hook_on == HookOn::FreshLeaf {
            for _ in 0..self.hooks {
                self.register(&ops::mul(&self.input, &self.weight)?);
            }
        } else {
            let inputs = [self.input.clone()];
            let forward = |inputs: &[Tensor]| self.forward(&inputs[0]);
            self.runtime
                .grad(forward, &inputs, &[0], Some(&self.sens))?;
        }
        if self.release() == HookRelease::RemovedAfterBackward {
            remove_all(&self.handles);
        }
        Ok(())
    }
}

impl HookHandle {
    fn release(&self) -> HookRelease {
        self.runtime.policies().hook_release
    }

    fn forward(&self, input: &Tensor) -> Result<Vec<Tensor>, Error> {
        let mut outputs = Vec::with_capacity(self.sens.len());
        for _ in 0..self.sens.len() {
            let output = ops::mul(input, &self.weight)?;
            match self.hook_on {
                HookOn::OperatorOutputs => self.register(&output),
                HookOn::OneTensor => (0..self.hooks).for_each(|_| self.register(&output)),
                HookOn::Nothing | HookOn::FreshLeaf => {}
            }
            outputs.push(output);
        }
        Ok(outputs)
    }

    fn register(&self, tensor: &Tensor) {
        let handle = match self.release() {
            HookRelease::Dropped => {
                tensor.register_hook(|_| Ok(None));
                return;
            }
            HookRelease::RemovedAfterBackward => tensor.register_hook(|_| Ok(None)),
            HookRelease::RemovedInFinalCallback => self.register_removing(tensor),
        };
        self.handles.borrow_mut().push(handle);
    }

    /// A hook whose first run in a backward queues the removal of all handles.
    fn register_removing(&self, tensor: &Tensor) -> TensorHookHandle {
        let first = self.handles.borrow().is_empty();
        let (runtime, handles) = (self.runtime.clone(), Rc::clone(&self.handles));
        tensor.register_hook(move |_| {
            if first {
                let handles = Rc::clone(&handles);
                runtime.queue_backward_final_callback(move || {
                    remove_all(&handles);
                    Ok(())
                })?;
            }
            Ok(None)
        })
    }
}

fn remove_all(handles: &Handles) {
    for handle in handles.borrow().iter() {
        handle.remove();
    }
    handles.borrow_mut().clear();
}
