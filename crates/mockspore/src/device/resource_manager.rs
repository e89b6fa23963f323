//! The resource manager: the list that nobody erases from.
//!
//! ```text
//! resource manager ─▶ device_events  [shared, shared, …]   16 B a slot
//!                  └▶ retired        events whose handle is gone (the fixes)
//! ```
//!
//! `CreateEventWithFlag` pushes a strong reference into `device_events`; only
//! `DestroyEvent` of the *manager* takes it out, by a search from the front.
//! Models `AscendResManager` (`ascend_res_manager.cc`); retiring and pooling
//! are the fixes that this suite proposes. On CPU there are no events.

use std::rc::Rc;

use crate::census::{Census, Kind, Tally};
use crate::device::event::DeviceEvent;
use crate::model::vector::CountedVec;
use crate::policy::{Device, EventRelease};
use crate::runtime::Core;

/// Events of a device.
pub(crate) struct ResourceManager {
    device_events: CountedVec<DeviceEvent>,
    /// Events to be destroyed or used again once their work is done.
    retired: CountedVec<DeviceEvent>,
}

impl ResourceManager {
    pub(crate) fn new() -> Self {
        Self {
            device_events: CountedVec::new(Kind::DeviceEvents),
            retired: CountedVec::new(Kind::RetiredEvents),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.device_events.len()
    }

    /// An event that the manager knows (`CreateEventWithFlag`); none on CPU.
    pub(crate) fn create_event(&self, core: &Rc<Core>) -> Option<DeviceEvent> {
        if core.device == Device::Cpu {
            return None;
        }
        self.sweep(core);
        let reused = match core.policies.event_release {
            EventRelease::Pooled { .. } => self.retired.position(DeviceEvent::query),
            EventRelease::PooledUnchecked { .. } => self.retired.position(|_| true),
            _ => None,
        };
        if let Some(place) = reused {
            return Some(self.retired.remove(place));
        }
        let event = DeviceEvent::new(core);
        self.device_events.push(&core.census, event.clone());
        Some(event)
    }

    /// Destroys an event and erases its entry (`DestroyEvent`).
    pub(crate) fn destroy_event(&self, census: &Census, event: &DeviceEvent) {
        event.destroy();
        let place = self.device_events.position(|known| known.same(event));
        let scanned = place.map_or(self.len(), |place| place + 1);
        census.happened(Tally::RegistryScanned, scanned as u64);
        if let Some(place) = place {
            drop(self.device_events.remove(place));
        }
    }

    /// Takes an event whose handle is gone, to end it in good time.
    pub(crate) fn retire(&self, core: &Core, event: DeviceEvent) {
        self.retired.push(&core.census, event);
        self.sweep(core);
    }

    /// Destroys retired events whose work is done, but for those that the pool
    /// keeps for reuse.
    pub(crate) fn sweep(&self, core: &Core) {
        let keep = match core.policies.event_release {
            EventRelease::OnCompletion => 0,
            EventRelease::Pooled { cap } | EventRelease::PooledUnchecked { cap } => cap as usize,
            _ => return,
        };
        while self.retired.len() > keep {
            let Some(place) = self.retired.position(DeviceEvent::query) else {
                return;
            };
            let event = self.retired.remove(place);
            self.destroy_event(&core.census, &event);
        }
    }

    /// Destroys every event it knows and forgets them (`DestroyAllEvents`). One
    /// that its handle had destroyed is destroyed a second time.
    pub(crate) fn destroy_all_events(&self) {
        while self.len() > 0 {
            self.device_events.remove(0).destroy();
        }
        while self.retired.len() > 0 {
            drop(self.retired.remove(0));
        }
    }

    /// Lets go of everything, at the runtime's end.
    pub(crate) fn free(&self, census: &Census) {
        self.retired.free(census);
        self.device_events.free(census);
    }
}
