//! The tables of units against the counts that were reported and measured.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use mockspore::hsdp::{Mesh, Model, StepCounts, Unit, UnitTable};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

fn counts(table: &UnitTable) -> [u64; 4] {
    let step = table.step(1);
    [
        step.hooks,
        step.post_backward_functions,
        step.aux_loss_scalers,
        step.chunk_losses,
    ]
}

#[test]
fn the_presets_have_the_counts_of_their_sources() {
    assert_eq!(counts(&UnitTable::seed301()), [182, 122, 10, 1]);
    assert_eq!(counts(&UnitTable::mf_2026_07()), [84, 82, 10, 1]);
    assert_eq!(counts(&UnitTable::mf_2_1_0()), [26, 24, 10, 1]);
    assert_eq!(UnitTable::seed301().step(1).applies(), 133);
}

#[test]
fn without_expert_parallelism_the_experts_are_no_unit() {
    let model = Model {
        expert_parallel: 1,
        ..Model::REPORTED
    };
    assert_eq!(counts(&UnitTable::generate(model)), [74, 72, 10, 1]);
}

#[test]
fn a_prediction_head_adds_a_layer_a_scaler_and_a_loss() {
    let model = Model {
        multi_token_heads: 1,
        ..Model::REPORTED
    };
    assert_eq!(counts(&UnitTable::generate(model)), [91, 89, 11, 2]);
}

/// So many blocks of two linear layers, and a root with two of its own.
fn measured(layers: u64, mesh: Mesh) -> UnitTable {
    let block = |layer: u64| Unit::new(format!("{layer}")).with_params(2);
    let mut units: Vec<Unit> = (0..layers).map(block).collect();
    // The first block and the root see the model's own input.
    units[0].input_requires_grad = false;
    units.push(Unit::new("root").with_params(2).on_plain_inputs());
    UnitTable {
        units,
        aux_loss_scalers: 0,
        chunk_losses: 0,
        reshard_after_forward: true,
        mesh,
        comm_fusion: false,
    }
}

#[test]
fn the_formulas_give_the_rows_that_were_measured() {
    let step = measured(12, Mesh::Replicated).step(1);
    let expected = StepCounts {
        hooks: 13,
        // With the gate on inputs that require grad; 13 units without it.
        post_backward_functions: 11,
        all_gathers: 52,
        reduce_scatters: 26,
        all_reduces: 26,
        ..StepCounts::default()
    };
    assert_eq!(step, expected);
    assert_eq!(measured(12, Mesh::Replicated).units.len(), 13);
    let sharded = measured(2, Mesh::Sharded).step(1);
    assert_eq!(
        (sharded.hooks, sharded.all_gathers, sharded.reduce_scatters),
        (3, 12, 6)
    );
    assert_eq!(sharded.all_reduces, 0);
}

fn config() -> ProptestConfig {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../proptest-regressions/mockspore/unit_table.txt"
    );
    ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file))),
        ..ProptestConfig::with_cases(200)
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_generated_table_follows_the_wrap_list(
        layers in 1_u64..40, dense in 0_u64..40, ep in 1_u64..16, mtp in 0_u64..3, micro in 1_u64..5,
    ) {
        let model = Model {
            layers,
            dense_layers: dense.min(layers),
            expert_parallel: ep,
            multi_token_heads: mtp,
            mesh: Mesh::Sharded,
        };
        let step = UnitTable::generate(model).step(micro);
        let blocks = layers + mtp;
        let moe = blocks - model.dense_layers;
        let applies = 5 * blocks + moe * (1 + u64::from(ep > 1)) + 2;
        prop_assert_eq!(step.post_backward_functions, micro * applies);
        // Embedding and root have outputs that require grad, and plain inputs.
        prop_assert_eq!(step.hooks, micro * (applies + 2));
        prop_assert_eq!(step.aux_loss_scalers, micro * moe);
        prop_assert_eq!(step.chunk_losses, micro * (1 + mtp));
        prop_assert_eq!(step.all_gathers, 2 * micro * (applies + 2));
        prop_assert_eq!(step.reduce_scatters, applies + 2);
    }
}
