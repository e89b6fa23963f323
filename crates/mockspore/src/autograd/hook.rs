//! Tensor hooks and the registry that forgets to forget them.
//!
//! ```text
//! TensorHookHandle {id}         (no destructor: dropping it releases nothing)
//!        │ remove()
//!        ▼
//! hook_id_node_map_ : id ─▶ entry ─weak─▶ control block ··▶ node ─▶ hook list
//!                           stays until remove(id) or clear_res()   └─▶ callable
//! ```
//!
//! The callable belongs to the *node* and dies with it; the entry and the
//! control block it pins belong to the registry. Models `RegisterHook`
//! (`ccsrc/pynative/backward/hook/hook_py.cc`) and `_TensorHookHandle`
//! (`common/hook_handle.py`). Not modelled: hooks of Cells and of grad nodes.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::mem::size_of;
use std::rc::Rc;

use crate::autograd::node::WeakNode;
use crate::census::{Census, Kind, Tally};
use crate::error::Error;
use crate::model::unordered_map::UnorderedMap;
use crate::policy::HookMap;
use crate::runtime::Core;
use crate::tensor::Tensor;

/// What a hook returns: a gradient that replaces the one it saw, or `None`.
pub type HookReturn = Result<Option<Tensor>, Error>;

/// A callable with its own account of the block it lives in.
struct HookBody<F: ?Sized> {
    core: Rc<Core>,
    call: F,
}

impl<F: ?Sized> Drop for HookBody<F> {
    fn drop(&mut self) {
        self.core.census.dropped(Kind::HookFn, hook_size(self));
    }
}

/// Bytes of an `Rc` around a hook: two counts and the body.
fn hook_size<F: ?Sized>(body: &HookBody<F>) -> usize {
    2 * size_of::<usize>() + size_of_val(body)
}

type Hook = Rc<HookBody<dyn Fn(&Tensor) -> HookReturn>>;

struct Slot {
    id: u64,
    output_index: u32,
    hook: Hook,
}

/// The hooks of one node in registration order.
pub(crate) struct HookList {
    core: Rc<Core>,
    slots: RefCell<Vec<Slot>>,
}

impl HookList {
    pub(crate) fn new(core: &Rc<Core>) -> Self {
        Self {
            core: Rc::clone(core),
            slots: RefCell::default(),
        }
    }

    /// Number of hooks.
    pub(crate) fn len(&self) -> usize {
        self.slots.borrow().len()
    }

    fn push(&self, slot: Slot) {
        let mut slots = self.slots.borrow_mut();
        let before = slots.capacity();
        if slots.len() == before {
            slots.reserve_exact(before.max(1));
            let census = &self.core.census;
            census.created(Kind::HookList, slots.capacity() * size_of::<Slot>());
            census.dropped(Kind::HookList, before * size_of::<Slot>());
        }
        slots.push(slot);
    }

    /// Takes a hook out; the caller drops it, outside of any borrow.
    fn take(&self, id: u64) -> Option<Slot> {
        let mut slots = self.slots.borrow_mut();
        let at = slots.binary_search_by_key(&id, |slot| slot.id).ok()?;
        Some(slots.remove(at))
    }

    /// The first hook after `id`, so that hooks may come and go while they run.
    pub(crate) fn after(&self, id: u64) -> Option<(u64, u32, Call)> {
        let slots = self.slots.borrow();
        let at = slots.partition_point(|slot| slot.id <= id);
        let slot = slots.get(at)?;
        Some((slot.id, slot.output_index, Call(Rc::clone(&slot.hook))))
    }
}

impl Drop for HookList {
    fn drop(&mut self) {
        let slots = self.slots.take();
        if self.core.policies.hook_map == HookMap::ErasesWithNode {
            for slot in &slots {
                self.core.hooks.erase(&self.core, slot.id);
            }
        }
        let size = slots.capacity() * size_of::<Slot>();
        drop(slots);
        self.core.census.dropped(Kind::HookList, size);
    }
}

/// A hook to be called, which may take itself off its node meanwhile.
pub(crate) struct Call(Hook);

impl Call {
    pub(crate) fn call(&self, grad: &Tensor) -> HookReturn {
        (self.0.call)(grad)
    }
}

/// `hook_id_node_map_` with the counter that gives the ids.
pub(crate) struct HookRegistry {
    last_id: Cell<u64>,
    map: RefCell<UnorderedMap<u64, WeakNode>>,
}

impl HookRegistry {
    pub(crate) fn new() -> Self {
        Self {
            last_id: Cell::new(0),
            map: RefCell::new(UnorderedMap::new(Kind::HookEntry, Kind::HookBuckets)),
        }
    }

    /// Entries in the map.
    pub(crate) fn len(&self) -> usize {
        self.map.borrow().len()
    }

    fn erase(&self, core: &Core, id: u64) -> Option<()> {
        let (_, weak) = self.map.borrow_mut().remove(&core.census, &id)?;
        weak.release(core);
        Some(())
    }

    /// Forgets every entry (`ClearHookMap`); the bucket array stays.
    pub(crate) fn clear(&self, core: &Core) {
        let mut from = 0;
        while let Some(weak) = self.pop(core, &mut from) {
            weak.release(core);
        }
    }

    fn pop(&self, core: &Core, from: &mut usize) -> Option<WeakNode> {
        let (_, weak) = self.map.borrow_mut().pop(&core.census, from)?;
        Some(weak)
    }

    /// Frees the bucket array of a registry that is going away.
    pub(crate) fn free(&self, census: &Census) {
        self.map.borrow_mut().free_array(census);
    }

    fn remove(&self, core: &Core, id: u64) {
        let Some((_, weak)) = self.map.borrow_mut().remove(&core.census, &id) else {
            return;
        };
        // The hook's captures may own tensors: it is dropped outside of borrows.
        let hook = weak
            .lock()
            .and_then(|node| node.with_base(|base| base.hooks.take(id)));
        weak.release(core);
        drop(hook);
    }
}

impl Tensor {
    /// Registers a hook on the gradient of this tensor (`Tensor.register_hook`).
    ///
    /// A tensor without autograd meta becomes a leaf that requires grad. A hook
    /// runs in every backward that reaches its node: on a live leaf, in each
    /// later one too.
    pub fn register_hook(&self, hook: impl Fn(&Self) -> HookReturn + 'static) -> TensorHookHandle {
        let core = self.core();
        let registry = &core.hooks;
        let id = registry.last_id.get() + 1;
        registry.last_id.set(id);
        let meta = self.meta_or_leaf();
        let body = Rc::new(HookBody {
            core: Rc::clone(core),
            call: hook,
        });
        core.census.created(Kind::HookFn, hook_size(&*body));
        meta.node.with_base(|base| {
            base.hooks.push(Slot {
                id,
                output_index: meta.output_index,
                hook: body,
            });
        });
        core.census.happened(Tally::HooksRegistered, 1);
        let weak = meta.node.downgrade();
        registry.map.borrow_mut().insert(&core.census, id, weak);
        TensorHookHandle {
            id,
            core: Rc::clone(core),
        }
    }

    /// Number of hooks on this tensor's node (`len(Tensor.hooks())`).
    pub fn hook_count(&self) -> usize {
        let meta = self.meta();
        meta.map_or(0, |meta| meta.node.with_base(|base| base.hooks.len()))
    }
}

/// The handle of a registered hook (`_TensorHookHandle`). Dropping it keeps
/// the hook, which is the trap that this project is about.
#[derive(Clone)]
pub struct TensorHookHandle {
    id: u64,
    core: Rc<Core>,
}

impl TensorHookHandle {
    /// The registration's id: 1 for the Runtime's first, never reused.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Takes the hook off, also when its tensor is dead. A second call, or one
    /// after `clear_res`, does nothing.
    pub fn remove(&self) {
        self.core.hooks.remove(&self.core, self.id);
    }
}

impl fmt::Debug for TensorHookHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorHookHandle({})", self.id)
    }
}
