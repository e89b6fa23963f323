//! The operations of a random program, and the policies that it runs under.

use mockspore::{
    AbstractCache, CtxClear, KernelArgument, NeedsInputGrad, OutputOwner, Policies, ReadyTopCell,
    RecomputeStop, Version, Victims,
};
use proptest::prelude::*;

/// One operation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    /// A custom function with so many inputs, under grad or outside.
    Apply {
        inputs: usize,
        under_grad: bool,
    },
    /// A chain of so many recomputed blocks, and its backward.
    Recompute(usize),
    /// Operators that raise: one output, or so many.
    Raise(usize),
    Norm,
    Sum,
    Matmul,
    GradWithoutSens,
    RunBackward,
    /// A recorded forward of so many operators.
    Forward(usize),
    ClearRes,
}

pub(crate) const MAX_OPS: usize = 60;

pub(crate) fn programs() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        3 => (1_usize..4, any::<bool>()).prop_map(|(inputs, under_grad)| Op::Apply { inputs, under_grad }),
        2 => (1_usize..4).prop_map(Op::Recompute),
        2 => (1_usize..4).prop_map(Op::Raise),
        6 => Just(Op::Norm),
        1 => Just(Op::Sum),
        1 => Just(Op::Matmul),
        1 => Just(Op::GradWithoutSens),
        1 => Just(Op::RunBackward),
        1 => (1_usize..4).prop_map(Op::Forward),
        1 => Just(Op::ClearRes),
    ];
    prop::collection::vec(op, 1..MAX_OPS)
}

/// Policies that differ in one defect each, the release and the fixed preset.
pub(crate) fn all_policies() -> Vec<Policies> {
    let released = Policies::mindspore(Version::V2_10_0);
    let with = |change: fn(&mut Policies)| {
        let mut policies = released;
        change(&mut policies);
        policies
    };
    vec![
        released,
        Policies::fixed(),
        Policies::mindspore(Version::V2_7_2),
        with(|p| p.ctx_clear = CtxClear::ClearsEachField),
        with(|p| p.needs_input_grad = NeedsInputGrad::ClearedInForward),
        with(|p| p.needs_input_grad = NeedsInputGrad::ClearedInBackward),
        with(|p| p.output_owner = OutputOwner::Owned),
        with(|p| p.recompute_stop = RecomputeStop::AtTheEnd),
        with(|p| p.kernel_argument = KernelArgument::Returned),
        with(|p| p.ready_top_cell = ReadyTopCell::KeepsLatest),
        with(|p| p.abstract_cache = AbstractCache::Unbounded),
        with(|p| p.victims = Victims::OldestFirst),
        with(|p| p.victims = Victims::NewestFirst),
    ]
}

/// The same operation with one input.
#[allow(dead_code, reason = "not every user compares values")]
pub(crate) fn with_one_input(op: Op) -> Op {
    match op {
        Op::Apply { under_grad, .. } => Op::Apply {
            inputs: 1,
            under_grad,
        },
        other => other,
    }
}
