//! The step on the mock: a sharded model on each rank, forward and backward,
//! with the scalers, the loss and the optimizer of a training step. The same
//! step on `ms` is in `repro_hsdp_step_host_memory.py`.

use std::rc::Rc;

use mockspore::hsdp::{Mesh, Options, ShardedModel, Unit, UnitTable, fully_shard};
use mockspore::{
    AbstractLimits, Error, Function, FunctionCtx, NeedsInputGrad, ProcessGroup, ReduceOp, Runtime,
    Tensor, World, apply_to, ops,
};

use crate::mock::{Mock, Setting};

/// Values of each parameter.
const WIDTH: usize = 8;
/// The optimizer's rate: small, so that values stay what they are.
const RATE: f32 = 1e-6;

/// Passes its first input on, as `_MoEAuxLossAutoScaler` and
/// `_ChunkCrossEntropyLoss` do with regard to lifetimes.
struct PassFirst(NeedsInputGrad);

impl Function for PassFirst {
    fn forward(&self, ctx: &FunctionCtx, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
        if self.0 == NeedsInputGrad::ClearedInForward {
            ctx.clear_needs_input_grad();
        }
        Ok(vec![inputs[0].clone()])
    }

    fn backward(
        &self,
        ctx: &FunctionCtx,
        grads: &[Option<Tensor>],
    ) -> Result<Vec<Option<Tensor>>, Error> {
        if self.0 == NeedsInputGrad::ClearedInBackward {
            ctx.clear_needs_input_grad();
        }
        Ok(vec![grads[0].clone(), None])
    }
}

/// One rank's model and what its step is given.
struct Rank {
    runtime: Runtime,
    model: ShardedModel,
    function: Rc<dyn Function>,
    input: Tensor,
    /// The auxiliary loss of a layer, and the labels.
    other: Tensor,
    sens: [Tensor; 1],
    /// What is averaged over the ranks: a loss, a gradient's norm.
    scalar: Tensor,
}

struct HsdpStep {
    ranks: Vec<Rank>,
    world: ProcessGroup,
    table: UnitTable,
    evaluations: u64,
    micro_batches: usize,
    pipeline: bool,
    muon_norms: u64,
}

/// An embedding, two blocks and a root, replicated as under data parallelism.
fn four_units() -> UnitTable {
    let replicated = |unit: Unit| Unit {
        sharded_params: 0,
        replicate_params: 1,
        ..unit
    };
    let units = [
        Unit::new("embedding").on_plain_inputs(),
        Unit::new("0.attention").with_outputs(2),
        Unit::new("0.mlp"),
        Unit::new("root").on_plain_inputs(),
    ];
    UnitTable {
        units: units.map(replicated).into(),
        aux_loss_scalers: 1,
        chunk_losses: 1,
        reshard_after_forward: true,
        mesh: Mesh::Sharded,
        comm_fusion: false,
    }
}

/// The table that a choice stands for.
pub fn unit_table(choice: &str) -> UnitTable {
    match choice {
        "mf_2026_07" => UnitTable::mf_2026_07(),
        "mf_2_1_0" => UnitTable::mf_2_1_0(),
        "four_units" => four_units(),
        _ => UnitTable::seed301(),
    }
}

/// Makes everything long-lived, so that a step leaves behind only the defects.
pub(crate) fn build(setting: &Setting<'_>) -> Result<Box<dyn Mock>, Error> {
    let world = World::new(setting.ranks());
    let table = unit_table(setting.choice("units"));
    let options = Options {
        width: WIDTH * setting.ranks().len(),
        ..Options::default()
    };
    let models = fully_shard(&world, &table, options, &mut || setting.near_one())?;
    let ranks = setting.ranks().iter().zip(models);
    let ranks = ranks.map(|(runtime, model)| {
        runtime.set_abstract_limits(AbstractLimits {
            threshold: setting.integer("threshold") as usize,
            drops: setting.integer("drops") as usize,
        });
        runtime.set_grad_flag(true);
        let tensor = |size| setting.random_tensor_of(runtime, &[size]);
        Ok(Rank {
            runtime: runtime.clone(),
            model,
            function: Rc::new(PassFirst(runtime.policies().needs_input_grad)),
            input: tensor(options.width)?,
            other: tensor(options.width)?,
            sens: [tensor(options.width)?],
            scalar: tensor(1)?,
        })
    });
    let every: Vec<usize> = (0..setting.ranks().len()).collect();
    let no_ranks = Error::Mesh { ranks: 0, width: 0 };
    Ok(Box::new(HsdpStep {
        ranks: ranks.collect::<Result<_, Error>>()?,
        world: world.group(&every).ok_or(no_ranks)?,
        table,
        evaluations: setting.integer("evaluations"),
        micro_batches: setting.integer("micro_batches") as usize,
        pipeline: setting.choice("schedule") == "pipeline",
        muon_norms: setting.integer("muon_norms"),
    }))
}

impl Mock for HsdpStep {
    fn step(&mut self) -> Result<(), Error> {
        for (member, rank) in self.ranks.iter().enumerate() {
            for _ in 0..self.evaluations {
                drop(self.forward(rank)?);
            }
            self.forward_backward(rank)?;
            // The loss that is logged: its mean.
            self.reduce(member, rank)?;
        }
        for (member, rank) in self.ranks.iter().enumerate() {
            // The gradients' norm, to clip them.
            self.reduce(member, rank)?;
            for _ in 0..self.muon_norms {
                drop(ops::norm(&rank.sens[0])?);
            }
            rank.model.descend(RATE);
            rank.model.zero_grad();
        }
        Ok(())
    }
}

impl HsdpStep {
    /// All micro-batches of one rank.
    fn forward_backward(&self, rank: &Rank) -> Result<(), Error> {
        let mut pending = Vec::new();
        for micro_batch in 1..=self.micro_batches {
            pending.push(self.forward(rank)?);
            if !self.pipeline {
                rank.backward(pending.drain(..), micro_batch == self.micro_batches)?;
            }
        }
        // A pipeline's last stage would begin at once; others wait.
        let last = pending.pop();
        rank.backward(pending.into_iter(), false)?;
        rank.backward(last.into_iter(), true)
    }

    fn forward(&self, rank: &Rank) -> Result<Tensor, Error> {
        let apply = |input: Tensor| {
            let inputs = [Some(input), Some(rank.other.clone())];
            Ok(apply_to(&rank.runtime, &rank.function, &inputs)?.swap_remove(0))
        };
        let scalers = self.table.aux_loss_scalers;
        let behind = &mut |unit: usize, stream| {
            if (unit as u64) < scalers {
                return apply(stream);
            }
            Ok(stream)
        };
        let mut output = rank.model.forward_through(&rank.input, behind)?;
        for _ in 0..self.table.chunk_losses {
            output = apply(output)?;
        }
        Ok(output)
    }

    fn reduce(&self, member: usize, rank: &Rank) -> Result<(), Error> {
        let handle = self.world.all_reduce(member, &rank.scalar, ReduceOp::Max)?;
        handle.wait();
        Ok(())
    }
}

impl Rank {
    /// Runs each backward; whether they reduce the gradients.
    fn backward(&self, losses: impl Iterator<Item = Tensor>, sync: bool) -> Result<(), Error> {
        self.model.set_requires_gradient_sync(sync);
        for loss in losses {
            self.runtime
                .run_backward(&[loss], Some(&self.sens), false)?;
        }
        Ok(())
    }
}
