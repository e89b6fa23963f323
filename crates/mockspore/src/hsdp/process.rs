//! What all units of one rank's process share, whichever model they belong to.
//!
//! ```text
//! Process ─▶ pre_reduce_scatter ─▶ one unit's handles, and the unit
//!     ├────▶ pending_all_reduce, pre_direct_all_reduce ─▶ handles
//!     └────▶ root_bp_state, the thread that runs
//! ```
//!
//! The next unit's post-backward waits for the reductions of the one before it,
//! and the root's final callback for the last ones. Models the class attributes
//! of `HSDPSchedulerV2` and `HSDPState`.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use smallvec::SmallVec;

use crate::comm::CommHandle;
use crate::error::Error;
use crate::hsdp::state::HsdpState;

/// Threads that a state is kept for: the caller's and the backward's.
pub(crate) const THREADS: usize = 2;

/// Handles of one unit's collectives.
pub(crate) type Handles = SmallVec<[CommHandle; 1]>;

/// Where a unit is when the observer is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// In the forward pre-hook.
    PreForward,
    /// In the module's own forward.
    Compute,
    /// In the forward hook, before tensor hooks are registered.
    PostForward,
    /// In a tensor hook.
    BackwardPreHook,
    /// In `PostBackwardFunction.backward`.
    PostBackwardFunction,
    /// In the root's final callback.
    RootBackward,
}

/// Is told the unit and the point; an error is raised there.
pub type Observer = Rc<dyn Fn(&str, Point) -> Result<(), Error>>;

/// The class-level state of one rank.
#[derive(Default)]
pub(crate) struct Process {
    /// Whether a backward that began at a root runs.
    pub(crate) root_bp_state: Cell<bool>,
    thread: Cell<usize>,
    pub(crate) pre_reduce_scatter: RefCell<Option<(Rc<HsdpState>, Handles)>>,
    pub(crate) pending_all_reduce: RefCell<Handles>,
    pub(crate) pre_direct_all_reduce: RefCell<Handles>,
    observer: RefCell<Option<Observer>>,
}

impl Process {
    pub(crate) fn thread(&self) -> usize {
        self.thread.get()
    }

    pub(crate) fn set_thread(&self, thread: usize) {
        self.thread.set(thread % THREADS);
    }

    pub(crate) fn observe(&self, unit: &str, point: Point) -> Result<(), Error> {
        let observer = self.observer.borrow().clone();
        observer.map_or(Ok(()), |observer| observer(unit, point))
    }

    pub(crate) fn set_observer(&self, observer: Option<Observer>) {
        self.observer.replace(observer);
    }

    /// Waits for the all-reduces of the unit before.
    pub(crate) fn drain_all_reduces(&self) {
        wait_all(self.pending_all_reduce.take());
        wait_all(self.pre_direct_all_reduce.take());
    }

    /// Waits for everything that is pending, and issues what hangs on it.
    pub(crate) fn drain(&self) -> Result<(), Error> {
        let before = self.pre_reduce_scatter.take();
        if let Some((unit, handles)) = before {
            wait_all(handles);
            unit.all_reduce_shards(self)?;
        }
        self.drain_all_reduces();
        Ok(())
    }

    /// Forgets what a backward left that did not come to its end.
    pub(crate) fn reset(&self) {
        self.root_bp_state.set(false);
        drop(self.pre_reduce_scatter.take());
        drop(self.pending_all_reduce.take());
        drop(self.pre_direct_all_reduce.take());
    }
}

/// Makes the default stream wait for each, and drops them.
pub(crate) fn wait_all(handles: Handles) {
    for handle in handles {
        handle.wait();
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("root_bp_state", &self.root_bp_state.get())
            .finish_non_exhaustive()
    }
}
