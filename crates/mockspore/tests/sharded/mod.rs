//! Training of a sharded model, rank after rank, for the tests of `hsdp`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, reason = "each user calls a part of it")]

use mockspore::census::{Kind, Tally};
use mockspore::hsdp::{Options, ShardedModel, StepCounts, UnitTable, fully_shard};
use mockspore::{Device, Error, Policies, Runtime, Tensor, World, ops};

/// Values of each parameter in these tests.
pub(crate) const WIDTH: usize = 8;

pub(crate) struct Training {
    pub(crate) runtimes: Vec<Runtime>,
    pub(crate) models: Vec<ShardedModel>,
}

/// A forward that has not run backward.
pub(crate) struct MicroBatch {
    rank: usize,
    loss: Tensor,
}

/// Values close to 1, so that long products stay finite; always the same.
fn near_one() -> impl FnMut() -> f32 {
    let mut state = 7_u32;
    move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        0.9 + 0.2 * (state >> 16) as f32 / 65_536.0
    }
}

impl Training {
    pub(crate) fn new(
        policies: Policies,
        ranks: usize,
        table: &UnitTable,
        options: Options,
    ) -> Self {
        let runtimes: Vec<Runtime> = (0..ranks)
            .map(|_| Runtime::new(policies, Device::Ascend))
            .collect();
        let world = World::new(&runtimes);
        let models = fully_shard(&world, table, options, &mut near_one()).unwrap();
        for runtime in &runtimes {
            runtime.set_grad_flag(true);
        }
        Self { runtimes, models }
    }

    pub(crate) fn fixed(ranks: usize, table: &UnitTable) -> Self {
        Self::new(Policies::fixed(), ranks, table, Options::default())
    }

    /// The input of a rank's micro-batch, different for each.
    pub(crate) fn input(&self, model: usize, number: usize) -> Tensor {
        let value = |index: usize| 1.0 + 0.125 * number as f32 - 0.0625 * index as f32;
        let values: Vec<f32> = (0..WIDTH).map(value).collect();
        self.runtimes[model].tensor(&values, &[WIDTH]).unwrap()
    }

    pub(crate) fn try_forward(&self, rank: usize, number: usize) -> Result<MicroBatch, Error> {
        let output = self.models[rank].forward(&self.input(rank, number))?;
        let loss = ops::sum(&output)?;
        Ok(MicroBatch { rank, loss })
    }

    pub(crate) fn forward(&self, rank: usize, number: usize) -> MicroBatch {
        self.try_forward(rank, number).unwrap()
    }

    pub(crate) fn try_backward(&self, batch: MicroBatch) -> Result<(), Error> {
        self.runtimes[batch.rank].run_backward(&[batch.loss], None, false)
    }

    pub(crate) fn backward(&self, batch: MicroBatch) {
        self.try_backward(batch).unwrap();
    }

    /// One forward and backward on each rank, each with its own input.
    pub(crate) fn step(&self) {
        for rank in 0..self.models.len() {
            self.backward(self.forward(rank, rank));
        }
    }

    /// Micro-batches one after the other; the last reduces the gradients.
    pub(crate) fn accumulate(&self, micro_batches: usize) {
        for (rank, model) in self.models.iter().enumerate() {
            for number in 0..micro_batches {
                model.set_requires_gradient_sync(number + 1 == micro_batches);
                self.backward(self.forward(rank, rank * micro_batches + number));
            }
        }
    }

    pub(crate) fn tally(&self, rank: usize, tally: Tally) -> u64 {
        self.runtimes[rank].census().tally(tally)
    }

    /// What a rank has counted: hooks, functions, collectives.
    pub(crate) fn counts(&self, rank: usize) -> [u64; 3] {
        [Tally::HooksRegistered, Tally::Applies, Tally::Collectives]
            .map(|one| self.tally(rank, one))
    }

    /// Entries in the runtime's map of hooks, and handles that are held.
    pub(crate) fn left(&self, rank: usize) -> (u64, usize) {
        let entries = self.runtimes[rank].live(Kind::HookEntry);
        (entries, self.models[rank].held_handles())
    }

    /// The whole gradient of each parameter, from the parts of one row of ranks.
    pub(crate) fn whole_grads(
        &self,
        row: std::ops::Range<usize>,
        table: &UnitTable,
    ) -> Vec<Vec<Vec<f32>>> {
        let parts: Vec<_> = self.models[row].iter().map(ShardedModel::grads).collect();
        let units = table.units.iter().enumerate();
        let whole = |(unit, one): (usize, &mockspore::hsdp::Unit)| {
            let params = 0..parts[0][unit].len();
            let join = |param: usize| {
                let sharded = (param as u64) < one.sharded_params;
                let ranks = if sharded { parts.len() } else { 1 };
                parts[..ranks]
                    .iter()
                    .flat_map(|rank| rank[unit][param].clone())
                    .collect()
            };
            params.map(join).collect()
        };
        units.map(whole).collect()
    }
}

/// Hooks, functions of the units, collectives: what `Training::counts` counts.
pub(crate) fn expected(step: StepCounts) -> [u64; 3] {
    [step.hooks, step.post_backward_functions, step.collectives()]
}
