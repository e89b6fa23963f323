//! What a worker's group list overwrites, by arithmetic alone.

use crate::error::Error;
use crate::mega_moe::layout::{ENTRY, Layout};

/// What lies beyond the group lists and is written all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Damage {
    /// The first entry that lands in the atomic-add area.
    pub atomic_from: Option<u64>,
    /// Bytes that land behind the config's end.
    pub past_image_bytes: u64,
}

impl Damage {
    /// Whether anything is damaged.
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

/// What `worker` damages with the lists of `experts` experts.
///
/// # Errors
/// [`Error::Geometry`] if its offsets are no numbers.
pub fn classify(layout: Layout, worker: u64, experts: u64) -> Result<Damage, Error> {
    let start = layout.slot(worker)?;
    let length = experts.checked_mul(ENTRY);
    let end = length.and_then(|length| start.checked_add(length));
    let end = end.ok_or(Error::Geometry {
        field: "experts",
        value: experts.into(),
        why: "the end of its list overflows",
    })?;
    let area = layout.atomic_add();
    let first = area.offset.max(start);
    let touches = first < end.min(area.end());
    let past = end.saturating_sub(layout.bytes().max(start));
    Ok(Damage {
        atomic_from: touches.then(|| (first - start) / ENTRY),
        past_image_bytes: past,
    })
}
