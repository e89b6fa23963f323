//! The Runtime: one value on which everything hangs.
//!
//! ```text
//! Runtime ─▶ Core ◀─ every tensor, node, hook and handle
//!              ├─ census           the counts
//!              ├─ hooks            hook_id_node_map_ (weak to nodes)
//!              ├─ node_abs_cache   abstracts by tensor id
//!              ├─ top_cells        recorded forwards (they hold tensors: a cycle
//!              │                   until clear_res)
//!              ├─ memory_pool      kernel arguments
//!              ├─ streams, resource_manager   virtual time and events
//!              ├─ engines          the backward passes that are running
//!              └─ graveyard        nodes dying in a chain
//! ```
//!
//! Models the parts of `_pynative_executor` (`graph/api.py`,
//! `ccsrc/pynative/`) that decide lifetimes.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use crate::autograd::final_callback::FinalCallback;
use crate::autograd::graveyard::Graveyard;
use crate::autograd::hook::HookRegistry;
use crate::autograd::saved::SavedTensorHook;
use crate::autograd::top_cell::TopCells;
use crate::census::{Census, Kind};
use crate::device::kernel_argument::MemoryPool;
use crate::device::resource_manager::ResourceManager;
use crate::device::stream::{StreamId, Streams};
use crate::error::Error;
use crate::infer::{AbstractLimits, NodeAbsCache};
use crate::policy::{Device, Policies};
use crate::tensor::{Array, Shape, Tensor};

/// Backward passes that may nest before a list of them would grow.
const NESTED_ENGINES: usize = 8;
/// Saved-tensor hooks that may nest before their stack would grow.
const NESTED_HOOKS: usize = 8;

pub(crate) struct Core {
    pub(crate) census: Census,
    pub(crate) policies: Policies,
    pub(crate) device: Device,
    pub(crate) grad_flag: Cell<bool>,
    pub(crate) hooks: HookRegistry,
    pub(crate) graveyard: Graveyard,
    /// Final callbacks of each running backward, innermost last.
    pub(crate) engines: RefCell<Vec<Vec<FinalCallback>>>,
    pub(crate) last_engine_id: Cell<u64>,
    /// Tasks of the last backward: the next one most likely has as many.
    pub(crate) last_task_count: Cell<usize>,
    last_seq: Cell<u64>,
    last_tensor_id: Cell<u64>,
    pub(crate) saved_tensor_hooks: RefCell<Vec<Rc<dyn SavedTensorHook>>>,
    pub(crate) node_abs_cache: NodeAbsCache,
    pub(crate) top_cells: TopCells,
    memory_pool: MemoryPool,
    pub(crate) streams: Streams,
    pub(crate) resource_manager: ResourceManager,
    /// Bytes of the block that stands for what a collective leaves unexplained.
    pub(crate) acl_residue: Cell<usize>,
}

impl Core {
    pub(crate) fn next_seq(&self) -> u64 {
        self.last_seq.set(self.last_seq.get() + 1);
        self.last_seq.get()
    }

    pub(crate) fn next_tensor_id(&self) -> u64 {
        self.last_tensor_id.set(self.last_tensor_id.get() + 1);
        self.last_tensor_id.get()
    }

    /// Uploads `count` arguments of a kernel.
    pub(crate) fn upload(&self, count: usize) {
        self.memory_pool.upload(self, count);
    }

    /// Drops what the executor caches across calls (`PyNativeExecutor::ClearRes`).
    pub(crate) fn clear_res(&self) {
        self.hooks.clear(self);
        self.node_abs_cache.clear(&self.census);
        self.top_cells.clear(&self.census);
        self.grad_flag.set(false);
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.hooks.clear(self);
        self.hooks.free(&self.census);
        self.node_abs_cache.free(&self.census);
        self.memory_pool.free(&self.census);
        self.resource_manager.free(&self.census);
    }
}

/// A mock `PyNative` runtime. Clones share it.
#[derive(Clone)]
pub struct Runtime(Rc<Core>);

impl Runtime {
    /// A runtime with nothing alive; ids start at 1.
    pub fn new(policies: Policies, device: Device) -> Self {
        Self(Rc::new(Core {
            census: Census::new(),
            policies,
            device,
            grad_flag: Cell::new(false),
            hooks: HookRegistry::new(),
            graveyard: Graveyard::default(),
            engines: RefCell::new(Vec::with_capacity(NESTED_ENGINES)),
            last_engine_id: Cell::new(0),
            last_task_count: Cell::new(0),
            last_seq: Cell::new(0),
            last_tensor_id: Cell::new(0),
            saved_tensor_hooks: RefCell::new(Vec::with_capacity(NESTED_HOOKS)),
            node_abs_cache: NodeAbsCache::new(),
            top_cells: TopCells::default(),
            memory_pool: MemoryPool::default(),
            streams: Streams::default(),
            resource_manager: ResourceManager::new(),
            acl_residue: Cell::new(0),
        }))
    }

    /// The counts of live blocks.
    pub fn census(&self) -> &Census {
        &self.0.census
    }

    /// The policies it was made with.
    pub fn policies(&self) -> Policies {
        self.0.policies
    }

    /// The device it was made for.
    pub fn device(&self) -> Device {
        self.0.device
    }

    /// A tensor of `values` in row-major order.
    ///
    /// # Errors
    /// [`Error::Rank`] or [`Error::DataLength`] if `dims` do not fit.
    pub fn tensor(&self, values: &[f32], dims: &[usize]) -> Result<Tensor, Error> {
        let shape = Shape::new(dims)?;
        if shape.size() != values.len() {
            return Err(Error::DataLength {
                values: values.len(),
                shape,
            });
        }
        let array = Array::new(&self.0, shape, values.iter().copied());
        Ok(Tensor::from_array(array, None))
    }

    /// Entries in `hook_id_node_map_`, dead ones included.
    pub fn hook_entries(&self) -> usize {
        self.0.hooks.len()
    }

    /// Whether operators record nodes (`_pynative_executor.grad_flag`).
    pub fn grad_flag(&self) -> bool {
        self.0.grad_flag.get()
    }

    /// Sets the flag (`_pynative_executor.set_grad_flag`).
    pub fn set_grad_flag(&self, flag: bool) {
        self.0.grad_flag.set(flag);
    }

    /// Clears the hook map, the cache of abstracts, the kept forwards and the
    /// grad flag (`_pynative_executor.clear_res`). Events, tuples and abandoned
    /// outputs stay. Hooks on live leaves stay, and can then no longer be removed by handle.
    pub fn clear_res(&self) {
        self.0.clear_res();
    }

    /// Entries in `node_abs_cache_`.
    pub fn abstract_entries(&self) -> usize {
        self.0.node_abs_cache.len()
    }

    /// Sets when the cache of abstracts drops, and how many; a reduced cap
    /// shows the same saw-tooth in fewer calls.
    pub fn set_abstract_limits(&self, limits: AbstractLimits) {
        self.0.node_abs_cache.limits.set(limits);
    }

    /// Entries in `device_events`, those of destroyed events included.
    pub fn device_events(&self) -> usize {
        self.0.resource_manager.len()
    }

    /// Destroys every event that the resource manager knows, as at a shutdown
    /// (`DestroyAllEvents`).
    pub fn destroy_all_events(&self) {
        self.0.resource_manager.destroy_all_events();
    }

    /// Sets the bytes that a collective leaves behind below the framework
    /// where its event is never erased; 0 unless set.
    pub fn set_acl_residue(&self, bytes: usize) {
        self.0.acl_residue.set(bytes);
    }

    /// The host goes on for `ticks` of virtual time.
    pub fn advance(&self, ticks: u64) {
        self.0.streams.advance(ticks);
        self.0.resource_manager.sweep(&self.0);
    }

    /// Queues `ticks` of work on a stream.
    pub fn launch(&self, stream: StreamId, ticks: u64) {
        self.0.streams.launch(stream, ticks);
    }

    /// The host waits until every stream is done (`runtime.synchronize`).
    pub fn synchronize(&self) {
        self.0.streams.synchronize();
        self.0.resource_manager.sweep(&self.0);
    }

    /// An event of the caller's own, made and destroyed through the resource
    /// manager (`mindspore.runtime.Event`). Nothing on CPU.
    pub fn use_event(&self) {
        let manager = &self.0.resource_manager;
        if let Some(event) = manager.create_event(&self.0) {
            manager.destroy_event(&self.0.census, &event);
        }
    }

    pub(crate) fn core(&self) -> &Rc<Core> {
        &self.0
    }

    /// Blocks of one kind that are alive.
    pub fn live(&self, kind: Kind) -> u64 {
        self.0.census.live(kind)
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("policies", &self.0.policies)
            .field("device", &self.0.device)
            .field("live", &self.0.census.live_total())
            .finish_non_exhaustive()
    }
}
