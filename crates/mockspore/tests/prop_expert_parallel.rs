//! Random routing tables, worlds and wait orders: values are a dense model's
//! under every policy, and what stays behind is what the formula says.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use mockspore::census::Kind;
use mockspore::moe::expert_parallel::{ExpertParallel, Mesh, Options, Routing};
use mockspore::{CombineHandle, Device, Error, Policies, Runtime, Tensor, ops};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

const HIDDEN: usize = 3;
const POLICIES: [CombineHandle; 6] = [
    CombineHandle::KeptOnModule,
    CombineHandle::LocalHandle,
    CombineHandle::ClearedAfterWait,
    CombineHandle::OneShotSlot,
    CombineHandle::KeptForDebug,
    CombineHandle::DebugUnset,
];

fn config() -> ProptestConfig {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../proptest-regressions/mockspore/prop_expert_parallel.txt"
    );
    ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file))),
        ..ProptestConfig::with_cases(200)
    }
}

/// A world, its rows and the order in which its ranks wait.
#[derive(Debug, Clone)]
struct Case {
    options: Options,
    experts: usize,
    rows: Vec<Vec<(usize, f32)>>,
    order: Vec<usize>,
}

fn case() -> impl Strategy<Value = Case> {
    let shape = (
        1_usize..4,
        1_usize..4,
        1_usize..3,
        1_usize..3,
        any::<[bool; 2]>(),
    );
    shape.prop_flat_map(|(oep, iep, tp, local, [async_combine, deredundency])| {
        let mesh = Mesh {
            oep,
            iep,
            tp: if deredundency { 1 } else { tp },
        };
        let options = Options {
            mesh,
            async_combine,
            deredundency,
        };
        let experts = mesh.ep() * local;
        let row = (0..experts, prop_oneof![Just(0.5_f32), Just(1.0), Just(2.0)]);
        let ranks = vec(vec(row, 0..9), mesh.ep());
        let order = Just((0..mesh.ep()).collect::<Vec<_>>()).prop_shuffle();
        (ranks, order).prop_map(move |(mut rows, order)| {
            if deredundency {
                // Ranks that are gathered have as many rows.
                let least = rows.iter().map(Vec::len).min().unwrap_or_default();
                for rows in &mut rows {
                    rows.truncate(least);
                }
            }
            Case {
                options,
                experts,
                rows,
                order,
            }
        })
    })
}

struct World {
    runtime: Runtime,
    layer: ExpertParallel,
    weights: Vec<Tensor>,
    inputs: Vec<Tensor>,
    sens: Vec<Tensor>,
    routing: Routing,
}

/// Small whole numbers: sums in any order are exact.
fn numbers(runtime: &Runtime, rows: usize, from: usize) -> Tensor {
    let values: Vec<f32> = (0..rows * HIDDEN)
        .map(|at| ((from + 5 * at) % 7) as f32)
        .collect();
    runtime.tensor(&values, &[rows, HIDDEN]).unwrap()
}

fn leaf(tensor: Tensor) -> Tensor {
    tensor.requires_grad_();
    tensor
}

fn world(case: &Case, policy: CombineHandle) -> World {
    let policies = Policies {
        combine_handle: policy,
        ..Policies::fixed()
    };
    let runtime = Runtime::new(policies, Device::Cpu);
    let mesh = case.options.mesh;
    let weights: Vec<Tensor> = (0..mesh.tp)
        .map(|share| leaf(numbers(&runtime, case.experts, share)))
        .collect();
    let rows = |rank: usize| case.rows[rank].len();
    let inputs = (0..mesh.ep()).map(|rank| leaf(numbers(&runtime, rows(rank), 3 + rank)));
    let sens = (0..mesh.ep()).map(|rank| numbers(&runtime, rows(rank), 2 * rank));
    runtime.set_grad_flag(true);
    World {
        layer: ExpertParallel::new(&runtime, case.options, weights.clone()).unwrap(),
        inputs: inputs.collect(),
        sens: sens.collect(),
        routing: Routing::new(mesh, case.experts, &case.rows).unwrap(),
        weights,
        runtime,
    }
}

fn dense(case: &Case, world: &World) -> Vec<Tensor> {
    let of_rank = |(rank, input): (usize, &Tensor)| {
        let rows = world.routing.experts_of(rank);
        let product = |share| ops::mul(input, &ops::index_select(share, rows)?);
        let shares = world.weights.iter().map(product);
        let sum = shares
            .reduce(|sum, one| ops::add(&sum?, &one?))
            .unwrap()
            .unwrap();
        if !case.options.deredundency {
            return sum;
        }
        let by = world.routing.coefficients_of(rank);
        let by = world.runtime.tensor(by, &[by.len(), 1]).unwrap();
        ops::mul(&sum, &by).unwrap()
    };
    world.inputs.iter().enumerate().map(of_rank).collect()
}

/// Values of the outputs, then of every gradient.
fn values(world: &World, outputs: &[Tensor]) -> Vec<Vec<f32>> {
    let mut values: Vec<Vec<f32>> = outputs.iter().map(Tensor::to_vec).collect();
    let sens = Some(&world.sens[..]);
    world.runtime.run_backward(outputs, sens, false).unwrap();
    let leaves = world.inputs.iter().chain(&world.weights);
    let grads = leaves.map(|leaf| leaf.take_grad().map(|grad| grad.to_vec()));
    values.extend(grads.map(Option::unwrap_or_default));
    values
}

/// Bytes of a storage: two counts and the values, in whole words.
fn storage(rows: usize) -> u64 {
    (16 + 4 * HIDDEN * rows).next_multiple_of(8) as u64
}

/// Storages that a handle of `rank` keeps: what came back, and the sum.
fn kept(case: &Case, world: &World, rank: usize) -> u64 {
    let Mesh { oep, iep, .. } = case.options.mesh;
    let own = storage(case.rows[rank].len());
    if !case.options.deredundency {
        return own;
    }
    let local = case.experts / (oep * iep);
    let outer = rank / iep;
    let range = outer * iep * local..(outer + 1) * iep * local;
    let peers = (0..oep).map(|o| world.routing.experts_of(o * iep + rank % iep));
    let sent = peers
        .flatten()
        .filter(|expert| range.contains(expert))
        .count();
    own + storage(sent)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn values_are_dense_and_what_stays_is_the_formula(case in case()) {
        for policy in POLICIES {
            let world = world(&case, policy);
            let before = world.runtime.census().counts(Kind::Storage).live_bytes;
            let outputs = world.layer.forward(&world.inputs, &world.routing, &case.order).unwrap();
            let sharded = values(&world, &outputs);
            drop(outputs);
            let after = world.runtime.census().counts(Kind::Storage).live_bytes;
            prop_assert_eq!(&sharded, &values(&world, &dense(&case, &world)), "{:?}", policy);
            let stays = matches!(policy, CombineHandle::KeptOnModule | CombineHandle::KeptForDebug);
            let ranks = 0..case.rows.len();
            let stays = stays && case.options.async_combine;
            let own = ranks.clone().filter(|_| stays);
            let expected: u64 = own.map(|rank| kept(&case, &world, rank)).sum();
            prop_assert_eq!(after - before, expected, "{:?}", policy);
            for rank in ranks {
                prop_assert!(world.layer.dispatch_context(rank).is_some());
                let handle = world.layer.combine_handle(rank);
                prop_assert_eq!(handle.is_some(), stays);
                if let Some(handle) = handle {
                    // Waiting again returns the same.
                    prop_assert_eq!(handle.wait().unwrap().to_vec(), sharded[rank].clone());
                }
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_an_error() {
    let mesh = Mesh {
        oep: 2,
        iep: 1,
        tp: 1,
    };
    let rows = [vec![(0, 1.0)], vec![(1, 1.0), (3, 1.0)]];
    let table = Routing::new(mesh, 4, &rows).unwrap();
    assert!(
        Routing::new(mesh, 3, &rows).is_err(),
        "3 experts on 2 ranks"
    );
    assert!(
        Routing::new(mesh, 2, &rows).is_err(),
        "there is no expert 3"
    );
    assert!(
        Routing::new(mesh, 4, &rows[..1]).is_err(),
        "a rank has no rows"
    );
    let runtime = Runtime::new(Policies::fixed(), Device::Cpu);
    let options = |deredundency, tp| Options {
        mesh: Mesh { tp, ..mesh },
        async_combine: true,
        deredundency,
    };
    let weights = |tp| (0..tp).map(|_| numbers(&runtime, 4, 0)).collect::<Vec<_>>();
    let made = |deredundency, tp: usize| {
        ExpertParallel::new(&runtime, options(deredundency, tp), weights(tp))
    };
    assert!(made(true, 2).is_err(), "deredundency with tp");
    assert!(ExpertParallel::new(&runtime, options(false, 2), weights(1)).is_err());
    let inputs = [numbers(&runtime, 1, 0), numbers(&runtime, 2, 0)];
    let uneven = made(true, 1).unwrap().dispatch(&inputs, &table);
    assert!(matches!(uneven, Err(Error::Routing { .. })));
    let plain = made(false, 1).unwrap();
    let early = plain.combine(&inputs, &[0, 1]);
    assert!(
        matches!(early, Err(Error::Routing { .. })),
        "no dispatch before it"
    );
    let once = plain.forward(&inputs, &table, &[0]);
    assert!(
        matches!(once, Err(Error::Routing { .. })),
        "rank 1 does not wait"
    );
    assert!(ops::index_select(&inputs[0], &[1]).is_err());
}
