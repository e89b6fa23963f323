//! A step of sharded units: its counts, its values, its states.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod sharded;

use approx::assert_relative_eq;
use mockspore::census::Tally;
use mockspore::hsdp::{Mesh, Model, Options, SchedulerState, Unit, UnitTable};
use mockspore::{Error, Policies};
use sharded::{Training, WIDTH, expected};

/// Units of every sort: several outputs, replicated parameters, plain inputs.
fn mixed(mesh: Mesh, comm_fusion: bool) -> UnitTable {
    let mut norm = Unit::new("norm").with_params(0);
    norm.replicate_params = 1;
    UnitTable {
        units: vec![
            Unit::new("embedding").on_plain_inputs(),
            Unit::new("attention").with_outputs(2).with_params(3),
            norm,
            Unit::new("rotary").on_plain_inputs().with_params(2),
            Unit::new("experts").with_params(2),
            Unit::new("root").on_plain_inputs(),
        ],
        aux_loss_scalers: 0,
        chunk_losses: 0,
        reshard_after_forward: true,
        mesh,
        comm_fusion,
    }
}

fn tables() -> Vec<UnitTable> {
    let meshes = [Mesh::Sharded, Mesh::Replicated];
    let generated = meshes.map(|mesh| {
        UnitTable::generate(Model {
            mesh,
            ..Model::REPORTED
        })
    });
    let mixed = meshes
        .into_iter()
        .flat_map(|mesh| [false, true].map(|fused| mixed(mesh, fused)));
    let presets = [
        UnitTable::seed301(),
        UnitTable::mf_2026_07(),
        UnitTable::mf_2_1_0(),
    ];
    presets.into_iter().chain(generated).chain(mixed).collect()
}

#[test]
fn a_step_makes_what_its_table_says() {
    for table in tables() {
        for micro_batches in [1, 3] {
            let training = Training::fixed(4, &table);
            training.accumulate(micro_batches);
            let step = expected(table.step(micro_batches as u64));
            for rank in 0..4 {
                assert_eq!(training.counts(rank), step);
                assert_eq!(training.left(rank), (0, 0));
                // One final callback is queued by each hook that fires.
                assert_eq!(training.tally(rank, Tally::HookCalls), step[0]);
                assert_eq!(training.tally(rank, Tally::FinalCallbacks), step[0]);
                let ended = |state| state == SchedulerState::Backward;
                assert!(training.models[rank].states().into_iter().all(ended));
                training.models[rank].finish().unwrap();
            }
        }
    }
}

#[test]
fn the_measured_model_issues_what_was_measured() {
    let block = |layer: u64| Unit::new(format!("{layer}")).with_params(2);
    let mut units: Vec<Unit> = (0..12).map(block).collect();
    units[0].input_requires_grad = false;
    units.push(Unit::new("root").with_params(2).on_plain_inputs());
    let table = UnitTable {
        units,
        ..mixed(Mesh::Replicated, false)
    };
    let training = Training::fixed(8, &table);
    training.step();
    // 13 hooks; 11 functions behind the gate; 52 + 26 + 26 collectives.
    assert_eq!(training.counts(7), [13, 11, 104]);
}

#[test]
fn a_sharded_run_has_the_gradients_of_one_rank_bit_for_bit() {
    for comm_fusion in [false, true] {
        let table = mixed(Mesh::Sharded, comm_fusion);
        for ranks in [2, 4] {
            let (whole, sharded) = (Training::fixed(1, &table), Training::fixed(ranks, &table));
            whole.accumulate(ranks);
            sharded.step();
            let (whole, sharded) = (
                whole.whole_grads(0..1, &table),
                sharded.whole_grads(0..ranks, &table),
            );
            assert_eq!(whole, sharded);
            assert!(whole.iter().flatten().flatten().all(|grad| *grad != 0.0));
        }
    }
}

#[test]
fn replicas_hold_the_same_gradients_and_add_them_up() {
    for comm_fusion in [false, true] {
        let table = mixed(Mesh::Replicated, comm_fusion);
        let (whole, sharded) = (Training::fixed(1, &table), Training::fixed(4, &table));
        whole.accumulate(4);
        sharded.step();
        let whole = whole.whole_grads(0..1, &table);
        let rows = [0..2, 2..4].map(|row| sharded.whole_grads(row, &table));
        assert_eq!(rows[0], rows[1]);
        let flat = |grads: &[Vec<Vec<f32>>]| grads.iter().flatten().flatten().copied().collect();
        let (whole, row): (Vec<f32>, Vec<f32>) = (flat(&whole), flat(&rows[0]));
        for (whole, row) in whole.iter().zip(row) {
            // The sum is taken in another order: a few units in the last place.
            assert_relative_eq!(*whole, row, max_relative = 1e-6);
        }
    }
}

#[test]
fn training_lowers_the_loss_alike_on_one_and_on_four_ranks() {
    let table = mixed(Mesh::Sharded, false);
    let parts = |training: &Training, rank: usize| -> Vec<f32> {
        let parts = training.models[rank].parts();
        parts
            .iter()
            .flatten()
            .flat_map(mockspore::Tensor::to_vec)
            .collect()
    };
    let (one, four) = (Training::fixed(1, &table), Training::fixed(4, &table));
    for _ in 0..10 {
        one.accumulate(4);
        // The gradients' mean: one rank has summed over four inputs.
        one.models[0].descend(0.0025);
        four.step();
        four.models.iter().for_each(|model| model.descend(0.01));
    }
    let sharded: Vec<f32> = (0..4).flat_map(|rank| parts(&four, rank)).collect();
    let sum = |values: &[f32]| values.iter().sum::<f32>();
    let replicated: f32 = four.models[0].parts()[2]
        .iter()
        .map(|one| sum(&one.to_vec()))
        .sum();
    // Every rank holds the replicated parameter: count it once.
    assert_relative_eq!(
        sum(&parts(&one, 0)),
        sum(&sharded) - 3.0 * replicated,
        max_relative = 1e-5
    );
}

#[test]
fn prefetched_gathers_change_no_count_and_no_value() {
    let table = mixed(Mesh::Sharded, false);
    let run = |prefetch| {
        let options = Options {
            prefetch,
            ..Options::default()
        };
        let training = Training::new(Policies::fixed(), 2, &table, options);
        training.step();
        (training.counts(0), training.whole_grads(0..2, &table))
    };
    let without = run(0);
    assert_eq!(without, run(1));
    assert_eq!(without, run(9));
}

#[test]
fn a_mesh_that_does_not_fit_is_refused() {
    let runtimes: Vec<_> = (0..3)
        .map(|_| mockspore::Runtime::new(Policies::fixed(), mockspore::Device::Ascend))
        .collect();
    let refused = |mesh, width| {
        let world = mockspore::World::new(&runtimes);
        let options = Options {
            width,
            ..Options::default()
        };
        let made = mockspore::hsdp::fully_shard(&world, &mixed(mesh, false), options, &mut || 1.0);
        matches!(made, Err(Error::Mesh { ranks: 3, .. }))
    };
    // Parts must be equal, and three ranks hold no two replicas.
    assert!(refused(Mesh::Sharded, WIDTH));
    assert!(refused(Mesh::Replicated, 6));
    assert!(!refused(Mesh::Sharded, 6));
}
