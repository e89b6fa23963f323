//! A parameter that ranks share.
//!
//! ```text
//! Param ─▶ shards   a part for each member of the group, kept between steps
//!    ├───▶ full     the whole as a leaf; NaN while it is sharded
//!    └───▶ grad     what the reduction of its gradient leaves to this rank
//! ```
//!
//! Models `platform/mindspore/fully_shard/param.py`. Upstream frees the storage
//! of the whole when it shards again; here it becomes NaN, so that whoever uses
//! it then can be seen in the values.

use std::rc::Rc;

use crate::tensor::Tensor;

/// One parameter, as one rank sees it.
#[derive(Debug)]
pub(crate) struct Param {
    /// Each member's part, in member order; a replicated one has no parts.
    pub(crate) shards: Rc<[Tensor]>,
    pub(crate) full: Tensor,
    pub(crate) grad: Tensor,
    pub(crate) replicated: bool,
}

impl Param {
    /// What this rank keeps between steps.
    pub(crate) fn own(&self, member: usize) -> &Tensor {
        if self.replicated {
            &self.full
        } else {
            &self.shards[member]
        }
    }

    /// Makes the whole unusable until it is gathered again.
    pub(crate) fn reshard(&self) {
        if !self.replicated {
            let size = self.full.shape().size();
            let gone = std::iter::repeat_n(f32::NAN, size);
            self.full.array().assign(gone);
        }
    }
}
