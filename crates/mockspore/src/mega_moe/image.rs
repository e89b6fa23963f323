//! The config as bytes, with canaries wherever a worker has no business.
//!
//! ```text
//! config │ guard, as long as the last worker needs
//! ```

use crate::error::Error;
use crate::mega_moe::classify::Damage;
use crate::mega_moe::layout::{ENTRY, Layout};

/// A byte that no entry consists of.
const CANARY: u8 = 0xA5;

/// The config's bytes and those behind them.
#[derive(Debug)]
pub struct Image {
    layout: Layout,
    bytes: Vec<u8>,
}

impl Image {
    /// A config in which nothing is written, with room behind it for the lists
    /// of `workers` workers with `experts` experts each.
    ///
    /// # Errors
    /// [`Error::Geometry`] if that is no number of bytes.
    pub fn new(layout: Layout, workers: u64, experts: u64) -> Result<Self, Error> {
        let end = layout.slot(workers)?.checked_add(ENTRY * experts);
        let end = end.ok_or(Error::Geometry {
            field: "experts",
            value: experts.into(),
            why: "the end of its list overflows",
        })?;
        let bytes = vec![CANARY; end.max(layout.bytes()) as usize];
        Ok(Self { layout, bytes })
    }

    /// Writes a worker's group list as the kernel does: 0 before expert
    /// `index`, `tokens` from it on.
    ///
    /// # Errors
    /// [`Error::Geometry`] for a worker that the image has no room for.
    pub fn write_group_list(
        &mut self,
        worker: u64,
        experts: u64,
        index: u64,
        tokens: u32,
    ) -> Result<(), Error> {
        let start = self.layout.slot(worker)? as usize;
        let room = self
            .bytes
            .get_mut(start..start + (ENTRY * experts) as usize);
        let room = room.ok_or(Error::Geometry {
            field: "worker",
            value: worker.into(),
            why: "the image was made for fewer",
        })?;
        for (expert, entry) in (0..).zip(room.chunks_exact_mut(ENTRY as usize)) {
            let value = if expert < index { 0 } else { u64::from(tokens) };
            entry.copy_from_slice(&value.to_le_bytes());
        }
        Ok(())
    }

    /// What has been damaged beyond the group lists; `worker` is the one whose
    /// entries are counted.
    ///
    /// # Errors
    /// [`Error::Geometry`] for a worker whose offset is no number.
    pub fn damage(&self, worker: u64) -> Result<Damage, Error> {
        let start = self.layout.slot(worker)?;
        let area = self.layout.atomic_add();
        let written = |from: u64, to: u64| {
            let entries = self.bytes[from as usize..to as usize].chunks(ENTRY as usize);
            let written = entries.map(|entry| entry.iter().any(|&byte| byte != CANARY));
            written.collect::<Vec<bool>>()
        };
        let first = written(area.offset, area.end())
            .into_iter()
            .position(|it| it);
        let past = written(self.layout.bytes(), self.bytes.len() as u64);
        let place = |entry: usize| (area.offset + ENTRY * entry as u64).checked_sub(start);
        Ok(Damage {
            atomic_from: first.and_then(place).map(|bytes| bytes / ENTRY),
            past_image_bytes: past.into_iter().filter(|&it| it).count() as u64 * ENTRY,
        })
    }

    /// Whether everything before the group lists is as it was.
    pub fn is_intact_before_the_lists(&self) -> bool {
        let end = self.layout.group_list().offset as usize;
        self.bytes[..end].iter().all(|&byte| byte == CANARY)
    }

    /// Puts the canaries back.
    pub fn repair(&mut self) {
        let from = self.layout.group_list().offset as usize;
        self.bytes[from..].fill(CANARY);
    }
}
