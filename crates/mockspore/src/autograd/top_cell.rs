//! Forwards that were recorded and that no grad has consumed.
//!
//! ```text
//! Runtime ─▶ ready_run_top_cell_ ─▶ TopCell ─▶ outputs ─▶ tensors ─▶ their graph
//! ```
//!
//! A `set_grad` forward is kept for the grad of the same cell that is to come,
//! which takes it instead of running the forward again. If none comes, every
//! such forward stays, with its whole graph, until `clear_res`. Models
//! `GradExecutor::ready_run_top_cell_` (`ccsrc/pynative/backward/grad.cc`).
//! Not modelled: the ids of the inputs and the order of the grad in the key.

use std::cell::RefCell;
use std::mem::size_of;

use crate::census::{Census, Kind};
use crate::policy::ReadyTopCell;
use crate::runtime::Core;
use crate::tensor::Tensor;

/// Which cell a forward belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CellId(pub u64);

struct TopCell {
    next: Option<Box<Self>>,
    outputs: Box<[Tensor]>,
    cell: CellId,
}

/// `ready_run_top_cell_`.
#[derive(Default)]
pub(crate) struct TopCells {
    ready: RefCell<Option<Box<TopCell>>>,
}

impl TopCells {
    /// Keeps a recorded forward of `cell`.
    pub(crate) fn insert(&self, core: &Core, cell: CellId, outputs: &[Tensor]) {
        if core.policies.ready_top_cell == ReadyTopCell::KeepsLatest {
            drop(self.take(&core.census, cell));
        }
        let mut top_cell = Box::new(TopCell {
            next: None,
            outputs: outputs.into(),
            cell,
        });
        count_blocks(&top_cell, |kind, size| core.census.created(kind, size));
        let mut ready = self.ready.borrow_mut();
        top_cell.next = ready.take();
        *ready = Some(top_cell);
    }

    /// The outputs of the forward of `cell` that was kept last, no longer kept.
    pub(crate) fn take(&self, census: &Census, cell: CellId) -> Option<Box<[Tensor]>> {
        let found = {
            let mut ready = self.ready.borrow_mut();
            let mut slot = &mut *ready;
            while slot.as_ref().is_some_and(|found| found.cell != cell) {
                slot = &mut slot.as_mut()?.next;
            }
            let mut found = slot.take()?;
            *slot = found.next.take();
            found
        };
        count_blocks(&found, |kind, size| census.dropped(kind, size));
        Some(found.outputs)
    }

    /// Lets every kept forward go.
    pub(crate) fn clear(&self, census: &Census) {
        let mut next = self.ready.take();
        while let Some(mut cell) = next {
            count_blocks(&cell, |kind, size| census.dropped(kind, size));
            next = cell.next.take();
        }
    }
}

fn count_blocks(cell: &TopCell, note: impl Fn(Kind, usize)) {
    note(Kind::TopCell, size_of::<TopCell>());
    note(Kind::TopCellOutputs, size_of_val::<[Tensor]>(&cell.outputs));
}
