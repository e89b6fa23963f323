//! Where everything lies in the runtime config, byte by byte.
//!
//! ```text
//! header │ triggers │ tasks │ events │ index │ 3 queues │ dynamic │ group │ atomic │ end
//! ```

use crate::error::Error;
use crate::mega_moe::NUM_WORKERS_CUBE;

/// `MAX_TASK_NUM`.
const MAX_TASKS: u64 = 25_600;
/// `MAX_EVENT_NUM`, and what the dense layout has room for at least.
const MAX_EVENTS: u64 = 1024;
/// The dense layout's capacities are multiples of this.
const CAPACITY_STEP: u64 = 16;
/// `MAX_GROUP_LIST`.
const MAX_GROUP_LIST: u64 = 512;
/// `GROUP_LIST_CACHE_LINE_BYTES`: what slots are aligned to.
const CACHE_LINE: u64 = 128;
/// Entries of a slot where a rank has 16 experts or fewer.
const SLOT_ENTRIES: u64 = 16;
/// Bytes of an entry of a group list.
pub(super) const ENTRY: u64 = 8;

/// How the config's regions are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Every region at its largest.
    Fixed,
    /// As large as the capacities that the host asks for.
    Dense {
        /// Tasks, a multiple of 16.
        tasks: u64,
        /// Events, a multiple of 16, at least 1,024.
        events: u64,
        /// Experts of a rank; above 16 the slots grow.
        local_experts: u64,
    },
}

/// One region: so many elements of so many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Its name.
    pub name: &'static str,
    /// Byte offset from the config's start.
    pub offset: u64,
    /// Bytes of an element.
    pub element: u64,
    /// Elements.
    pub count: u64,
}

impl Region {
    /// Byte offset of its end.
    pub fn end(self) -> u64 {
        self.offset + self.element * self.count
    }
}

/// Regions of a layout.
const REGIONS: usize = 11;

impl Layout {
    /// A dense layout.
    ///
    /// # Errors
    /// [`Error::Geometry`] for capacities that are no such multiples, or whose
    /// bytes do not fit the 32 bits that the tiling keeps them in.
    pub fn dense(tasks: u64, events: u64, local_experts: u64) -> Result<Self, Error> {
        let bad = |field, value, why| Err(Error::Geometry { field, value, why });
        if tasks == 0 || !tasks.is_multiple_of(CAPACITY_STEP) {
            return bad("task_capacity", tasks.into(), "it is a multiple of 16");
        }
        if events < MAX_EVENTS || !events.is_multiple_of(CAPACITY_STEP) {
            let why = "it is a multiple of 16, at least 1024";
            return bad("event_capacity", events.into(), why);
        }
        if local_experts == 0 {
            return bad("local_experts", 0, "it is at least 1");
        }
        let fits = |value: u64, field| {
            let why = "its bytes do not fit 32 bits";
            let error = Error::Geometry {
                field,
                value: value.into(),
                why,
            };
            (value <= u64::from(u32::MAX) / 588)
                .then_some(())
                .ok_or(error)
        };
        fits(tasks, "task_capacity")?;
        fits(events, "event_capacity")?;
        fits(local_experts, "local_experts")?;
        let layout = Self::Dense {
            tasks,
            events,
            local_experts,
        };
        if layout.bytes() > u64::from(u32::MAX) {
            let why = "the config's bytes do not fit 32 bits";
            return bad("task_capacity", tasks.into(), why);
        }
        Ok(layout)
    }

    /// The regions, in order and without a gap.
    pub fn regions(self) -> [Region; REGIONS] {
        let (header, tasks, events) = match self {
            Self::Fixed => (16, MAX_TASKS, MAX_EVENTS),
            Self::Dense { tasks, events, .. } => (64, tasks, events),
        };
        let parts = [
            ("header", 4, header / 4),
            ("event_triggers", 4, events),
            ("tasks", 576, tasks),
            ("events", 16, events),
            ("task_index_num", 4, 4),
            ("cube_queue", 4, tasks),
            ("vector_queue", 4, tasks),
            ("mix_queue", 4, tasks),
            ("dynamic_data", 16, 1),
            ("group_list", ENTRY, self.group_list_entries()),
            ("atomic_add", 4, 8),
        ];
        let mut offset = 0;
        parts.map(|(name, element, count)| {
            let region = Region {
                name,
                offset,
                element,
                count,
            };
            offset = region.end();
            region
        })
    }

    /// The region of the group lists.
    pub fn group_list(self) -> Region {
        self.regions()[REGIONS - 2]
    }

    /// The region behind it (`ATOMIC_ADD_VALUE_LEN`).
    pub fn atomic_add(self) -> Region {
        self.regions()[REGIONS - 1]
    }

    /// Bytes of the whole config.
    pub fn bytes(self) -> u64 {
        self.atomic_add().end()
    }

    /// Bytes between the slots of two workers.
    pub fn slot_bytes(self) -> u64 {
        let experts = match self {
            Self::Fixed => SLOT_ENTRIES,
            Self::Dense { local_experts, .. } => local_experts,
        };
        experts.next_multiple_of(SLOT_ENTRIES) * ENTRY
    }

    /// Byte offset of a worker's slot (`getGroupedMatmulGroupListOffsetById`),
    /// wherever that is.
    ///
    /// # Errors
    /// [`Error::Geometry`] for a worker whose offset is no number.
    pub fn slot(self, worker: u64) -> Result<u64, Error> {
        let first = self.group_list().offset.next_multiple_of(CACHE_LINE);
        let within = worker.checked_mul(self.slot_bytes());
        let offset = within.and_then(|within| within.checked_add(first));
        offset.ok_or(Error::Geometry {
            field: "worker",
            value: worker.into(),
            why: "the offset of its slot overflows",
        })
    }

    /// Workers whose slots lie within the group lists.
    pub fn slots(self) -> u64 {
        let list = self.group_list();
        let first = list.offset.next_multiple_of(CACHE_LINE);
        (list.end() - first) / self.slot_bytes()
    }

    fn group_list_entries(self) -> u64 {
        let stride = self.slot_bytes() / ENTRY;
        match self {
            Self::Fixed => MAX_GROUP_LIST,
            Self::Dense { .. } => MAX_GROUP_LIST.max(NUM_WORKERS_CUBE * stride + SLOT_ENTRIES),
        }
    }
}
