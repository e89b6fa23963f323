//! Random trees of units and random schedules: counts, handles, gradients.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod sharded;

use mockspore::census::Tally;
use mockspore::hsdp::{Mesh, Options, Unit, UnitTable};
use mockspore::{BackwardPreHook, HookMap, Policies};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use sharded::{MicroBatch, Training, expected};

fn config() -> ProptestConfig {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../proptest-regressions/mockspore/prop_hsdp.txt"
    );
    ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file))),
        ..ProptestConfig::with_cases(200)
    }
}

fn unit() -> impl Strategy<Value = Unit> {
    (1_u64..4, 0_u64..4, 0_u64..3, 1_u64..3, any::<bool>()).prop_map(
        |(outputs, sharded, replicated, forwards, gated)| {
            let mut unit = Unit::new("unit").with_outputs(outputs);
            // Outputs of plain inputs require grad through a parameter only.
            unit.sharded_params = sharded.max(u64::from(!gated));
            unit.replicate_params = replicated;
            unit.forwards = forwards;
            unit.input_requires_grad = gated;
            unit
        },
    )
}

fn table() -> impl Strategy<Value = UnitTable> {
    (vec(unit(), 0..8), any::<[bool; 3]>()).prop_map(|(mut units, [reshard, replicas, fused])| {
        // What ends a recomputed block runs forward once.
        if let Some(last) = units.last_mut() {
            last.forwards = 1;
        }
        units.insert(0, Unit::new("embedding").on_plain_inputs());
        units.push(Unit::new("root").on_plain_inputs());
        UnitTable {
            units,
            aux_loss_scalers: 0,
            chunk_losses: 0,
            reshard_after_forward: reshard,
            mesh: if replicas {
                Mesh::Replicated
            } else {
                Mesh::Sharded
            },
            comm_fusion: fused,
        }
    })
}

/// What a trainer may do next.
#[derive(Debug, Clone, Copy)]
enum Op {
    Forward,
    /// Of one of the pending micro-batches.
    Backward(usize),
    /// Drops one: an evaluation, or an exception between forward and backward.
    Abandon(usize),
}

fn schedule() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        3 => Just(Op::Forward),
        3 => (0_usize..8).prop_map(Op::Backward),
        1 => (0_usize..8).prop_map(Op::Abandon),
    ];
    vec(op, 1..24)
}

/// The caller's fix alone; the map keeps what is not removed.
fn caller_fix() -> Policies {
    Policies {
        hook_map: HookMap::KeepsDead,
        backward_pre_hook: BackwardPreHook::ReleasedWithBackward,
        ..Policies::fixed()
    }
}

fn pick(pending: &mut Vec<MicroBatch>, index: usize) -> Option<MicroBatch> {
    let index = index.checked_rem(pending.len())?;
    Some(pending.remove(index))
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_step_makes_what_the_formulas_say(
        table in table(), ranks in prop::sample::select(vec![1_usize, 2, 4]), micro_batches in 1_usize..4,
    ) {
        let training = Training::fixed(ranks, &table);
        training.accumulate(micro_batches);
        let mut step = table.step(micro_batches as u64);
        if ranks == 1 && table.mesh == Mesh::Replicated {
            // One rank has no replicas.
            step.all_reduces = table.units.iter().map(|unit| unit.replicate_params).sum();
        }
        for rank in 0..ranks {
            prop_assert_eq!(training.counts(rank), expected(step));
            prop_assert_eq!(training.left(rank), (0, 0));
            prop_assert_eq!(training.tally(rank, Tally::BackwardWithoutUnshard), 0);
            training.models[rank].finish().unwrap();
        }
    }

    #[test]
    fn a_sharded_run_has_the_gradients_of_one_rank(
        table in table(), ranks in prop::sample::select(vec![2_usize, 4]),
    ) {
        let table = UnitTable { mesh: Mesh::Sharded, ..table };
        let (whole, sharded) = (Training::fixed(1, &table), Training::fixed(ranks, &table));
        whole.accumulate(ranks);
        sharded.step();
        prop_assert_eq!(whole.whole_grads(0..1, &table), sharded.whole_grads(0..ranks, &table));
    }

    #[test]
    fn handles_live_as_long_as_their_micro_batch(
        table in table(), schedule in schedule(), unused_outputs in 0_usize..3,
    ) {
        let options = Options { unused_outputs, ..Options::default() };
        let training = Training::new(caller_fix(), 1, &table, options);
        let single = table.units.iter().map(|unit| unit.outputs).sum::<u64>();
        let (mut pending, mut abandoned, mut backwards) = (Vec::new(), 0, 0);
        for op in schedule {
            match op {
                Op::Forward => {
                    pending.push(training.forward(0, 0));
                    abandoned = 0;
                }
                Op::Backward(index) => {
                    if let Some(batch) = pick(&mut pending, index) {
                        training.backward(batch);
                        backwards += 1;
                        // A root's callback releases those that can come no more.
                        abandoned = 0;
                    }
                }
                Op::Abandon(index) => {
                    abandoned += u64::from(pick(&mut pending, index).is_some());
                }
            }
            let (entries, held) = training.left(0);
            prop_assert_eq!(entries, single * (pending.len() as u64 + abandoned));
            prop_assert_eq!(entries, held as u64);
        }
        for batch in pending {
            training.backward(batch);
            backwards += 1;
        }
        if backwards > 0 && abandoned == 0 {
            prop_assert_eq!(training.left(0), (0, 0));
        }
        training.step();
        prop_assert_eq!(training.left(0), (0, 0));
        // Each used hook fires once in each backward, and no other does: those
        // of a recomputed forward are on outputs that no gradient comes to.
        let several = table.units[..table.units.len() - 1].iter().filter(|unit| unit.outputs > 1);
        let fires = single - several.take(unused_outputs).count() as u64;
        prop_assert_eq!(training.tally(0, Tally::HookCalls), (backwards + 1) * fires);
        prop_assert_eq!(training.tally(0, Tally::BackwardWithoutUnshard), 0);
    }

    #[test]
    fn whoever_has_the_handles_the_gradients_are_the_same(table in table()) {
        let grads = [
            BackwardPreHook::Dropped,
            BackwardPreHook::ReleasedWithBackward,
            BackwardPreHook::RemovedOnFiring,
            BackwardPreHook::RemovedInFunctionBackward,
            BackwardPreHook::ClearedByAnyRoot,
        ].map(|backward_pre_hook| {
            let policies = Policies { backward_pre_hook, ..caller_fix() };
            let training = Training::new(policies, 2, &table, Options::default());
            training.step();
            training.whole_grads(0..1, &table)
        });
        prop_assert!(grads.windows(2).all(|pair| pair[0] == pair[1]));
    }
}
