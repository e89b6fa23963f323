//! Destroys chains of nodes in a loop.

use std::cell::{Cell, RefCell};

use crate::autograd::node::OpNode;
use crate::model::shared::Dying;

type DyingNode = Dying<Box<OpNode>>;

/// Nodes that die while another node's destructor runs.
#[derive(Default)]
pub(crate) struct Graveyard {
    busy: Cell<bool>,
    waiting: RefCell<Vec<DyingNode>>,
}

impl Graveyard {
    /// Destroys the node now, or after the destructor that is running.
    pub(crate) fn bury(&self, node: DyingNode) {
        if self.busy.replace(true) {
            self.waiting.borrow_mut().push(node);
            return;
        }
        drop(node);
        while let Some(next) = self.next() {
            drop(next);
        }
        // Back to no heap block at all: the census does not count this list.
        self.waiting.take();
        self.busy.set(false);
    }

    fn next(&self) -> Option<DyingNode> {
        self.waiting.borrow_mut().pop()
    }
}
