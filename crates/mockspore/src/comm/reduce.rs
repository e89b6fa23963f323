//! How values of several ranks become one.

use crate::tensor::Tensor;

/// The reduction of a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ReduceOp {
    Sum,
    Prod,
    Max,
    Min,
}

impl ReduceOp {
    /// The reduction of `name`, as `mint.distributed` spells it.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "sum" => Some(Self::Sum),
            "prod" => Some(Self::Prod),
            "max" => Some(Self::Max),
            "min" => Some(Self::Min),
            _ => None,
        }
    }

    /// One value of all ranks', in rank order; 0 for no rank.
    pub(crate) fn reduce(self, values: impl Iterator<Item = f32>) -> f32 {
        let all = values.reduce(|a, b| match self {
            Self::Sum => a + b,
            Self::Prod => a * b,
            Self::Max => a.max(b),
            Self::Min => a.min(b),
        });
        all.unwrap_or_default()
    }
}

/// The reduction of the ranks' tensors, in rank order.
pub(crate) fn reduced(tensors: &[&Tensor], op: ReduceOp) -> Vec<f32> {
    let size = tensors.first().map_or(0, |one| one.shape().size());
    let value = |index| op.reduce(tensors.iter().map(|one| one.array().at(index)));
    (0..size).map(value).collect()
}
