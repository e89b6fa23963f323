//! What the host checks before it launches a core.
//!
//! ```text
//! scheduler/config.py ─▶ num_cube_cores > 0            and no more
//! tiling, forward     ─▶ coreNum != 0, then the attributes   and no more
//! tiling, backward    ─▶ the same code again
//! ```

use crate::error::Error;
use crate::mega_moe::{MAX_EXPERT_NUM_PER_RANK, NUM_WORKERS_CUBE};
use crate::policy::{CoreBound, Policies};

/// Which of the two tilings: the same code, twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// `hyper_mega_moe_tiling.cpp`.
    Forward,
    /// `hyper_mega_moe_grad_tiling.cpp`.
    Backward,
}

impl Pass {
    /// Both passes.
    pub const ALL: [Self; 2] = [Self::Forward, Self::Backward];

    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
        }
    }

    fn bound(self, policies: &Policies) -> CoreBound {
        match self {
            Self::Forward => policies.forward_tiling,
            Self::Backward => policies.backward_tiling,
        }
    }
}

/// The operator's attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// This rank.
    pub rank_id: i64,
    /// Ranks that share the experts.
    pub ep: i64,
    /// Experts of all ranks.
    pub expert_num: i64,
    /// Values of a token.
    pub hidden_size: i64,
    /// Tokens.
    pub seq_size: i64,
}

/// The workers that a tiling launches (`SetBlockDim(coreNum)`): as many as the
/// platform has cube cores.
///
/// # Errors
/// [`Error::Geometry`] with the field that the tiling refuses, in its order;
/// too many cores only where the policy checks them. Beyond upstream: a rank
/// that the world lacks, and products that overflow.
pub fn launched_cores(
    policies: &Policies,
    pass: Pass,
    core_num: i64,
    attributes: &Attributes,
) -> Result<u64, Error> {
    require(core_num > 0, "coreNum", core_num, "it is at least 1")?;
    if pass.bound(policies) == CoreBound::Checked {
        let fits = core_num <= NUM_WORKERS_CUBE as i64;
        require(fits, "coreNum", core_num, "there are slots for 24")?;
    }
    let Attributes {
        rank_id,
        ep,
        expert_num,
        hidden_size,
        seq_size,
    } = *attributes;
    require(rank_id >= 0, "rankId", rank_id, "it is at least 0")?;
    require(ep > 0, "ep", ep, "it is at least 1")?;
    require(rank_id < ep, "rankId", rank_id, "it is less than ep")?;
    require(expert_num > 0, "expertNum", expert_num, "it is at least 1")?;
    let whole = expert_num % ep == 0;
    require(whole, "expertNum", expert_num, "it is a multiple of ep")?;
    let few = expert_num / ep <= MAX_EXPERT_NUM_PER_RANK as i64;
    require(few, "expertNum", expert_num, "a rank has at most 16")?;
    require(
        hidden_size > 0,
        "hiddenSize",
        hidden_size,
        "it is at least 1",
    )?;
    require(seq_size > 0, "seqSize", seq_size, "it is at least 1")?;
    let tokens = seq_size.checked_mul(hidden_size);
    let values = tokens.and_then(|tokens| tokens.checked_mul(ep));
    let why = "its product with hiddenSize and ep overflows";
    require(values.is_some(), "seqSize", seq_size, why)?;
    Ok(core_num as u64)
}

/// `num_workers` for a number of cube cores that the scheduler is given
/// (`_validate_num_cube_cores`, `gen_runtime_data`).
///
/// # Errors
/// [`Error::Geometry`] for none or fewer; for too many only where the policy
/// checks them.
pub fn validate_num_cube_cores(policies: &Policies, cores: i64) -> Result<u64, Error> {
    let field = "num_cube_cores";
    require(cores > 0, field, cores, "it is a positive integer")?;
    if policies.num_cube_cores == CoreBound::Checked {
        let fits = cores <= NUM_WORKERS_CUBE as i64;
        require(fits, field, cores, "there are slots for 24")?;
    }
    let workers = cores.checked_mul(2);
    require(workers.is_some(), field, cores, "twice as many overflow")?;
    Ok(2 * cores as u64)
}

fn require(holds: bool, field: &'static str, value: i64, why: &'static str) -> Result<(), Error> {
    holds.then_some(()).ok_or(Error::Geometry {
        field,
        value: value.into(),
        why,
    })
}
