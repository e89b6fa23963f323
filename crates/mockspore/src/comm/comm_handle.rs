//! The handle of a collective, and who destroys its event.
//!
//! ```text
//! CommHandle ─▶ event ◀─ device_events
//!     └─ dropped: destroys the event itself and tells nobody (2.10.0), or asks
//!        the manager, which also erases its entry (up to 2.9.0)
//! ```
//!
//! Models `CommHandle` (`comm_handle.cc`) and its Python namesake.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use crate::census::{Kind, Tally};
use crate::device::event::DeviceEvent;
use crate::device::stream::StreamId;
use crate::policy::EventRelease;
use crate::runtime::Core;

/// Ticks that the host spends on a collective.
const HOST_TICKS: u64 = 10;
/// Ticks that a stream-wait costs the host.
const WAIT_TICKS: u64 = 1;

/// What a collective returns, one for each rank. Dropping it ends its event
/// as the runtime's policy says.
pub struct CommHandle {
    core: Rc<Core>,
    event: Option<DeviceEvent>,
    /// Streams that have waited, a bit each.
    waited: Cell<u8>,
    destroyed: Cell<bool>,
}

impl CommHandle {
    /// Launches `ticks` of work on the stream of collectives, with an event
    /// behind it.
    pub(crate) fn launch(core: &Rc<Core>, ticks: u64) -> Self {
        core.census.happened(Tally::Collectives, 1);
        core.streams.advance(HOST_TICKS);
        let event = core.resource_manager.create_event(core);
        let done = core.streams.launch(StreamId::COMM, ticks);
        if let Some(event) = &event {
            event.record(done);
        }
        Self {
            core: Rc::clone(core),
            event,
            waited: Cell::default(),
            destroyed: Cell::default(),
        }
    }

    /// Makes the default stream wait for the collective.
    pub fn wait(&self) {
        self.wait_on(StreamId::DEFAULT);
    }

    /// Makes `stream` wait for the collective; once for each stream. The host
    /// does not wait, and the event is neither destroyed nor reset.
    pub fn wait_on(&self, stream: StreamId) {
        let Some(event) = &self.event else { return };
        if self.waited_on(stream) {
            return;
        }
        self.waited.set(self.waited.get() | stream.bit());
        self.core.streams.advance(WAIT_TICKS);
        event.wait(stream);
        if self.core.policies.event_release == EventRelease::OnWait && !self.destroyed.replace(true)
        {
            let manager = &self.core.resource_manager;
            manager.destroy_event(&self.core.census, event);
        }
    }

    /// Whether this stream has waited for it.
    pub fn waited_on(&self, stream: StreamId) -> bool {
        self.waited.get() & stream.bit() != 0
    }

    /// Whether a stream has waited for it.
    pub fn waited(&self) -> bool {
        self.waited.get() != 0
    }
}

/// `~CommHandle`.
impl Drop for CommHandle {
    fn drop(&mut self) {
        let Some(event) = self.event.take() else {
            return;
        };
        let (core, manager) = (&self.core, &self.core.resource_manager);
        match core.policies.event_release {
            EventRelease::NeverErased => {
                event.destroy();
                leave_residue(core);
            }
            EventRelease::ErasedByManager => manager.destroy_event(&core.census, &event),
            EventRelease::OnWait => {
                if !self.destroyed.get() {
                    manager.destroy_event(&core.census, &event);
                }
            }
            EventRelease::OnCompletion
            | EventRelease::Pooled { .. }
            | EventRelease::PooledUnchecked { .. } => manager.retire(core, event),
        }
    }
}

/// A block of the size that was set for what is not explained, or none.
#[allow(clippy::mem_forget, reason = "this is the modelled leak")]
fn leave_residue(core: &Core) {
    let size = core.acl_residue.get();
    core.census.created(Kind::AclResidue, size);
    // Opaque, or the compiler sees that nobody reads the block and makes none.
    std::mem::forget(std::hint::black_box(vec![0_u8; size].into_boxed_slice()));
}

impl fmt::Debug for CommHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommHandle")
            .field("has_event", &self.event.is_some())
            .field("waited", &self.waited())
            .finish_non_exhaustive()
    }
}
