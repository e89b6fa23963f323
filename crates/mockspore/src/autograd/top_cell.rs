//! Forwards that were recorded and that no grad has consumed.
//!
//! ```text
//! Runtime ─▶ ready_run_top_cell_ ─▶ TopCell ─▶ outputs ─▶ tensors ─▶ their graph
//! ```
//!
//! A `set_grad` forward is kept for the grad that is to come. If none comes,
//! every such forward stays, with its whole graph, until `clear_res`. Models
//! `GradExecutor::ready_run_top_cell_`
//! (`ccsrc/pynative/backward/grad.cc`). Not modelled: finding a cell again by
//! the ids of its inputs, so a grad never consumes a kept forward here.

use std::cell::RefCell;
use std::mem::size_of;

use crate::census::{Census, Kind};
use crate::policy::ReadyTopCell;
use crate::runtime::Core;
use crate::tensor::Tensor;

struct TopCell {
    next: Option<Box<Self>>,
    outputs: Box<[Tensor]>,
}

/// `ready_run_top_cell_`.
#[derive(Default)]
pub(crate) struct TopCells {
    ready: RefCell<Option<Box<TopCell>>>,
}

impl TopCells {
    /// Keeps a recorded forward.
    pub(crate) fn insert(&self, core: &Core, outputs: &[Tensor]) {
        if core.policies.ready_top_cell == ReadyTopCell::KeepsLatest {
            self.clear(&core.census);
        }
        let outputs: Box<[Tensor]> = outputs.into();
        let mut cell = Box::new(TopCell {
            next: None,
            outputs,
        });
        count_blocks(&cell, |kind, size| core.census.created(kind, size));
        let mut ready = self.ready.borrow_mut();
        cell.next = ready.take();
        *ready = Some(cell);
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
