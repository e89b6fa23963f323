//! Device events, and what can be done to them too early or too late.
//!
//! ```text
//! CommHandle ─shared─▶ Event (56 B with its counts) ◀─shared─ device_events
//! ```
//!
//! Models `AscendEvent` (`ccsrc/plugin/.../ascend_event.cc`): destroying it is
//! idempotent and leaves the block to its holders. An event may be destroyed
//! too early in two senses, and both are counted: while its work runs and
//! nobody has waited for it yet, or while its work runs at all (which the
//! device's interface may or may not allow once a wait is issued).

use std::cell::Cell;
use std::mem::size_of;
use std::rc::{Rc, Weak};

use crate::census::{Kind, Tally};
use crate::device::stream::StreamId;
use crate::runtime::Core;

struct Body {
    /// Weak: the runtime's own registry holds events.
    core: Weak<Core>,
    /// The tick at which the recorded work is done.
    completes_at: Cell<u64>,
    waited: Cell<bool>,
    destroyed: Cell<bool>,
    /// Other words of the real object: its handle, its stream.
    _unmodelled: [u64; 2],
}

impl Drop for Body {
    fn drop(&mut self) {
        // Gone only while the runtime itself ends, and its counts with it.
        if let Some(core) = self.core.upgrade() {
            core.census.dropped(Kind::Event, DeviceEvent::SIZE);
        }
    }
}

/// A `shared_ptr<DeviceEvent>`; clones share the event.
#[derive(Clone)]
pub(crate) struct DeviceEvent {
    body: Rc<Body>,
    /// A C++ pointer is two words, and so is a slot of `device_events`.
    _control: usize,
}

impl DeviceEvent {
    /// Bytes of the block: two counts and the event.
    const SIZE: usize = 2 * size_of::<usize>() + size_of::<Body>();

    pub(crate) fn new(core: &Rc<Core>) -> Self {
        core.census.created(Kind::Event, Self::SIZE);
        let body = Rc::new(Body {
            core: Rc::downgrade(core),
            completes_at: Cell::default(),
            waited: Cell::default(),
            destroyed: Cell::default(),
            _unmodelled: [0; 2],
        });
        Self { body, _control: 0 }
    }

    /// Records the event behind work that is done at `completes_at`.
    pub(crate) fn record(&self, completes_at: u64) {
        if !self.query() {
            self.happened(Tally::ReusedBeforeCompletion);
        }
        self.body.completes_at.set(completes_at);
        self.body.waited.set(false);
    }

    /// Makes later work on `stream` wait for the recorded work.
    pub(crate) fn wait(&self, stream: StreamId) {
        if self.body.destroyed.get() {
            self.happened(Tally::WaitedAfterDestroy);
        }
        if let Some(core) = self.body.core.upgrade() {
            core.streams.wait(stream, self.body.completes_at.get());
        }
        self.body.waited.set(true);
    }

    /// Whether the recorded work is done.
    pub(crate) fn query(&self) -> bool {
        let core = self.body.core.upgrade();
        core.is_none_or(|core| core.streams.now() >= self.body.completes_at.get())
    }

    /// Gives the device's event back.
    pub(crate) fn destroy(&self) {
        if self.body.destroyed.replace(true) {
            self.happened(Tally::DestroyedTwice);
            return;
        }
        if self.query() {
            return;
        }
        self.happened(Tally::DestroyedBeforeCompletion);
        if !self.body.waited.get() {
            self.happened(Tally::DestroyedBeforeWait);
        }
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.body, &other.body)
    }

    fn happened(&self, tally: Tally) {
        if let Some(core) = self.body.core.upgrade() {
            core.census.happened(tally, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_56_bytes_and_a_slot_16() {
        assert_eq!(DeviceEvent::SIZE, 56);
        assert_eq!(size_of::<DeviceEvent>(), 16);
    }
}
