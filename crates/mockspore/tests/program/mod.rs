//! Random programs over tensors, hooks and backwards, and what the hook map
//! must hold after each operation.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use mockspore::{Device, Error, HookMap, HookRelease, Policies, Runtime, Tensor, ops};
use mockspore::{TensorHookHandle, Version};
use proptest::prelude::*;

/// One operation; indices are taken modulo what is there.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    MakeLeaf,
    Mul(usize, usize),
    Add(usize, usize),
    Register(usize),
    DropHandle(usize),
    Remove(usize),
    Backward(usize),
    DropTensor(usize),
    ClearRes,
}

/// Operations of one program at most; buffers are reserved for them.
pub(crate) const MAX_OPS: usize = 60;

pub(crate) fn programs() -> impl Strategy<Value = Vec<Op>> {
    let index = 0_usize..64;
    let op = prop_oneof![
        2 => Just(Op::MakeLeaf),
        4 => (index.clone(), index.clone()).prop_map(|(a, b)| Op::Mul(a, b)),
        2 => (index.clone(), index.clone()).prop_map(|(a, b)| Op::Add(a, b)),
        6 => index.clone().prop_map(Op::Register),
        3 => index.clone().prop_map(Op::DropHandle),
        2 => index.clone().prop_map(Op::Remove),
        2 => index.clone().prop_map(Op::Backward),
        3 => index.prop_map(Op::DropTensor),
        1 => Just(Op::ClearRes),
    ];
    prop::collection::vec(op, 1..MAX_OPS)
}

/// All policies that a program can run under.
pub(crate) fn all_policies() -> Vec<Policies> {
    let maps = [HookMap::KeepsDead, HookMap::ErasesWithNode];
    let releases = [
        HookRelease::Dropped,
        HookRelease::RemovedAfterBackward,
        HookRelease::RemovedInFinalCallback,
    ];
    let mut all = Vec::new();
    for hook_map in maps {
        for hook_release in releases {
            let mut policies = Policies::mindspore(Version::V2_10_0);
            (policies.hook_map, policies.hook_release) = (hook_map, hook_release);
            all.push(policies);
        }
    }
    all
}

struct Made {
    tensor: Option<Tensor>,
    /// Places of the tensors it was computed from; a leaf has none.
    inputs: Option<[usize; 2]>,
}

/// A program's world: the runtime beside a plain account of what must live.
/// All lists of the account have their room from the start, so that whatever
/// is allocated later and kept is the runtime's.
pub(crate) struct World {
    pub(crate) runtime: Runtime,
    made: Vec<Made>,
    /// Handles that the caller holds.
    pub(crate) handles: Vec<TensorHookHandle>,
    /// Handles let go since the last backward.
    dropped: Vec<TensorHookHandle>,
    /// Ids that the map must hold, ascending, with their tensor's place.
    pub(crate) entries: Vec<(u64, usize)>,
    /// Hook calls so far.
    pub(crate) calls: Rc<Cell<u64>>,
    /// Whether hooks on operator outputs double the gradient.
    pub(crate) hooks_scale: bool,
    /// Bits of every gradient that a backward left behind.
    pub(crate) gradients: Vec<u32>,
}

impl World {
    pub(crate) fn new(policies: Policies) -> Self {
        let runtime = Runtime::new(policies, Device::Cpu);
        runtime.set_grad_flag(true);
        Self {
            runtime,
            made: Vec::with_capacity(MAX_OPS),
            handles: Vec::with_capacity(MAX_OPS),
            dropped: Vec::with_capacity(MAX_OPS),
            entries: Vec::with_capacity(MAX_OPS),
            calls: Rc::new(Cell::new(0)),
            hooks_scale: false,
            // Each backward notes its outcome and two values of each leaf.
            gradients: Vec::with_capacity(MAX_OPS * (1 + 2 * MAX_OPS)),
        }
    }

    pub(crate) fn apply(&mut self, op: Op) {
        match op {
            Op::MakeLeaf => self.make_leaf(),
            Op::Mul(a, b) => self.binary(a, b, ops::mul),
            Op::Add(a, b) => self.binary(a, b, ops::add),
            Op::Register(at) => self.register(at),
            Op::DropHandle(at) => {
                if let Some(handle) = take(&mut self.handles, at) {
                    self.dropped.push(handle);
                }
            }
            Op::Remove(at) => {
                if let Some(handle) = take(&mut self.handles, at) {
                    handle.remove();
                    handle.remove();
                    self.forget(handle.id());
                }
            }
            Op::Backward(at) => self.backward(at),
            Op::DropTensor(at) => {
                if let Some(place) = self.living(at) {
                    self.made[place].tensor = None;
                }
            }
            Op::ClearRes => {
                self.runtime.clear_res();
                self.runtime.set_grad_flag(true);
                self.entries.clear();
            }
        }
        self.forget_dead();
    }

    fn make_leaf(&mut self) {
        let values = [1.5, -0.25 * self.made.len() as f32];
        let tensor = self.runtime.tensor(&values, &[2]).unwrap();
        tensor.requires_grad_();
        self.push(tensor, None);
    }

    fn binary(&mut self, a: usize, b: usize, op: fn(&Tensor, &Tensor) -> Result<Tensor, Error>) {
        let (Some(a), Some(b)) = (self.living(a), self.living(b)) else {
            return;
        };
        let tensors = [a, b].map(|place| self.made[place].tensor.clone().unwrap());
        let tensor = op(&tensors[0], &tensors[1]).unwrap();
        self.push(tensor, Some([a, b]));
    }

    fn push(&mut self, tensor: Tensor, inputs: Option<[usize; 2]>) {
        self.made.push(Made {
            tensor: Some(tensor),
            inputs,
        });
    }

    fn register(&mut self, at: usize) {
        let Some(place) = self.living(at) else { return };
        let tensor = self.made[place].tensor.clone().unwrap();
        let (calls, leaf, scales) = (Rc::clone(&self.calls), tensor.is_leaf(), self.hooks_scale);
        let handle = tensor.register_hook(move |grad| {
            calls.set(calls.get() + 1);
            if scales && !leaf {
                return ops::add(grad, grad).map(Some);
            }
            Ok((!leaf).then(|| grad.clone()))
        });
        self.entries.push((handle.id(), place));
        self.handles.push(handle);
    }

    fn backward(&mut self, at: usize) {
        let Some(place) = self.living(at) else { return };
        let root = self.made[place].tensor.clone().unwrap();
        let outcome = match self.runtime.policies().hook_release {
            HookRelease::RemovedInFinalCallback => self.backward_with_callback(&root),
            _ => self.runtime.run_backward(&[root], None, false),
        };
        self.gradients.push(u32::from(outcome.is_ok()));
        let grads = self
            .made
            .iter()
            .filter_map(|made| made.tensor.as_ref()?.grad());
        self.gradients
            .extend(grads.flat_map(|grad| grad.to_vec()).map(f32::to_bits));
        let release = self.runtime.policies().hook_release;
        if release == HookRelease::Dropped {
            return;
        }
        let by_callback = release == HookRelease::RemovedInFinalCallback && outcome.is_ok();
        while let Some(handle) = self.dropped.pop() {
            if !by_callback {
                // A backward that failed ran no callback: the caller does it.
                handle.remove();
            }
            self.forget(handle.id());
        }
    }

    /// Queues the removal from a hook of its own, which goes with it.
    fn backward_with_callback(&self, root: &Tensor) -> Result<(), Error> {
        let (runtime, dropped) = (self.runtime.clone(), self.dropped.clone());
        let handle = root.register_hook(move |_| {
            let dropped = dropped.clone();
            runtime.queue_backward_final_callback(move || {
                dropped.iter().for_each(TensorHookHandle::remove);
                Ok(())
            })?;
            Ok(None)
        });
        let outcome = self
            .runtime
            .run_backward(std::slice::from_ref(root), None, false);
        handle.remove();
        outcome
    }

    /// A node lives while a living tensor reaches it; with it, under
    /// `ErasesWithNode`, its entries.
    fn forget_dead(&mut self) {
        if self.runtime.policies().hook_map == HookMap::KeepsDead {
            return;
        }
        let mut reached = BTreeSet::new();
        let mut open: Vec<usize> = (0..self.made.len())
            .filter(|&place| self.made[place].tensor.is_some())
            .collect();
        while let Some(place) = open.pop() {
            if reached.insert(place) {
                open.extend(self.made[place].inputs.into_iter().flatten());
            }
        }
        self.entries.retain(|(_, place)| reached.contains(place));
    }

    fn forget(&mut self, id: u64) {
        self.entries.retain(|&(entry, _)| entry != id);
    }

    /// The place of a tensor that still lives.
    fn living(&self, at: usize) -> Option<usize> {
        let living = || (0..self.made.len()).filter(|&place| self.made[place].tensor.is_some());
        living().nth(at % living().count().max(1))
    }

    /// Handles let go of that a fixed caller has yet to remove.
    pub(crate) fn pending(&self) -> usize {
        self.dropped.len()
    }

    /// Whether `op`, just applied, was a backward from a living tensor.
    pub(crate) fn ended_a_backward(&self, op: Op) -> bool {
        matches!(op, Op::Backward(_)) && self.living(0).is_some()
    }

    /// Lets go of every tensor and handle.
    pub(crate) fn drop_everything(&mut self) {
        self.made.clear();
        self.handles.clear();
        self.dropped.clear();
    }
}

fn take(handles: &mut Vec<TensorHookHandle>, at: usize) -> Option<TensorHookHandle> {
    if handles.is_empty() {
        return None;
    }
    let at = at % handles.len();
    Some(handles.remove(at))
}
