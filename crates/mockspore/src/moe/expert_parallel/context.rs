//! What a dispatch leaves for its combine (`DispatchContext`).

use std::fmt;
use std::mem::size_of;
use std::rc::Rc;

use crate::census::Kind;
use crate::runtime::Core;

/// The splits and indices of one rank's dispatch, kept on its module until its
/// next one.
pub struct DispatchContext {
    core: Rc<Core>,
    pub(super) input_splits: Box<[usize]>,
    pub(super) output_splits: Box<[usize]>,
    /// Received row for each row that the experts see.
    pub(super) permuted_indices: Box<[usize]>,
    /// Of deredundency: rows of the gathered view, empty without it.
    pub(super) dispatch_indices: Box<[usize]>,
    /// Of deredundency: their coefficients.
    pub(super) router_coeff: Box<[f32]>,
    pub(super) gathered_rows: usize,
}

impl DispatchContext {
    pub(super) fn new(core: &Rc<Core>) -> Self {
        Self {
            core: Rc::clone(core),
            input_splits: Box::default(),
            output_splits: Box::default(),
            permuted_indices: Box::default(),
            dispatch_indices: Box::default(),
            router_coeff: Box::default(),
            gathered_rows: 0,
        }
    }

    /// Counts its blocks, now that they are final.
    pub(super) fn finish(self) -> Rc<Self> {
        for size in self.blocks() {
            self.core.census.created(Kind::DispatchContext, size);
        }
        Rc::new(self)
    }

    fn blocks(&self) -> [usize; 6] {
        [
            2 * size_of::<usize>() + size_of::<Self>(),
            size_of_val::<[usize]>(&self.input_splits),
            size_of_val::<[usize]>(&self.output_splits),
            size_of_val::<[usize]>(&self.permuted_indices),
            size_of_val::<[usize]>(&self.dispatch_indices),
            size_of_val::<[f32]>(&self.router_coeff),
        ]
    }

    /// Bytes of its blocks.
    pub fn bytes(&self) -> usize {
        self.blocks().iter().sum()
    }
}

impl Drop for DispatchContext {
    fn drop(&mut self) {
        for size in self.blocks() {
            self.core.census.dropped(Kind::DispatchContext, size);
        }
    }
}

impl fmt::Debug for DispatchContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DispatchContext")
            .field("input_splits", &self.input_splits)
            .field("output_splits", &self.output_splits)
            .finish_non_exhaustive()
    }
}
