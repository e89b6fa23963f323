//! The load monitor's rule, on one rank and on two.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use mockspore::census::Tally;
use mockspore::moe::{Member, MoeModel, MoeMonitorCallback, Optimizer};
use mockspore::{Device, Error, Policies, Runtime, World};

const RATE: f32 = 0.5;

struct Rank {
    runtime: Runtime,
    model: MoeModel,
    callback: MoeMonitorCallback,
    optimizer: Optimizer,
}

/// Ranks that sum their counts, each with its hook.
fn ranks(count: usize, recomputations: u32) -> Vec<Rank> {
    let runtimes: Vec<Runtime> = (0..count)
        .map(|_| Runtime::new(Policies::fixed(), Device::Cpu))
        .collect();
    let all: Vec<usize> = (0..count).collect();
    let group = World::new(&runtimes).group(&all).unwrap();
    let rank = |(member, runtime): (usize, Runtime)| {
        let model = MoeModel::new(&runtime, 2, 4).unwrap();
        let group = group.clone();
        let groups = vec![Member { group, member }];
        let callback = MoeMonitorCallback::new(&runtime, &model, RATE, recomputations, groups);
        let optimizer = Optimizer::new(&runtime);
        callback.register(&optimizer).unwrap();
        Rank {
            runtime,
            model,
            callback,
            optimizer,
        }
    };
    runtimes.into_iter().enumerate().map(rank).collect()
}

fn step(ranks: &[Rank], tokens: &[[f32; 4]]) {
    for (rank, tokens) in ranks.iter().zip(tokens) {
        rank.model.forward(tokens, 0.25).unwrap();
    }
    for rank in ranks {
        rank.optimizer.step().unwrap();
    }
}

#[test]
fn the_bias_moves_against_the_load_and_the_counters_begin_anew() {
    let ranks = ranks(1, 1);
    step(&ranks, &[[8.0, 0.0, 4.0, 4.0]]);
    for layer in ranks[0].model.layers() {
        assert_eq!(layer.expert_bias(), [-RATE, RATE, 0.0, 0.0]);
        assert_eq!(layer.tokens_per_expert(), [0.0; 4]);
    }
    // Three below the mean: the moves are centred.
    step(&ranks, &[[0.0, 0.0, 0.0, 8.0]]);
    let bias = ranks[0].model.layers()[0].expert_bias();
    assert_eq!(bias, [-RATE + 0.25, RATE + 0.25, 0.25, -0.75]);
    assert_eq!(ranks[0].callback.last_mean_aux_loss(), Some(0.25));
}

#[test]
fn ranks_move_the_same_way_by_the_sum_of_their_counts() {
    let two = ranks(2, 1);
    step(&two, &[[8.0, 0.0, 1.0, 1.0], [0.0, 2.0, 3.0, 3.0]]);
    let one = ranks(1, 1);
    step(&one, &[[8.0, 2.0, 4.0, 4.0]]);
    for rank in &two {
        let bias = rank.model.layers()[1].expert_bias();
        assert_eq!(bias, one[0].model.layers()[1].expert_bias());
        assert_eq!(rank.runtime.census().tally(Tally::Collectives), 2);
    }
    // What waits behind the first collective still comes before the second.
    for _ in 0..3 {
        step(&two, &[[1.0, 0.0, 0.0, 0.0], [0.0, 9.0, 0.0, 0.0]]);
    }
    let biases = two.iter().map(|rank| rank.model.layers()[0].expert_bias());
    let biases: Vec<Vec<f32>> = biases.collect();
    assert_eq!(biases[0], biases[1]);
}

#[test]
fn a_second_registration_keeps_the_order_of_collectives_and_updates() {
    let two = ranks(2, 1);
    let again = ranks(2, 1);
    for rank in &again {
        // Another callback of the same model: two updates a step.
        let groups = rank.callback.groups().to_vec();
        let other = MoeMonitorCallback::new(&rank.runtime, &rank.model, RATE, 1, groups);
        other.register(&rank.optimizer).unwrap();
    }
    for tokens in [
        [[5.0, 1.0, 0.0, 0.0], [0.0, 0.0, 7.0, 2.0]],
        [[1.0; 4], [3.0, 2.0, 1.0, 0.0]],
    ] {
        step(&two, &tokens);
        step(&again, &tokens);
    }
    for (one, other) in two.iter().zip(&again) {
        let (one, other) = (&one.model.layers()[0], &other.model.layers()[0]);
        assert_eq!(one.expert_bias(), other.expert_bias());
    }
}

#[test]
fn counts_of_recomputed_forwards_are_divided() {
    let (once, twice) = (ranks(1, 1), ranks(1, 2));
    step(&once, &[[6.0, 2.0, 3.0, 1.0]]);
    step(&twice, &[[12.0, 4.0, 6.0, 2.0]]);
    let bias = |ranks: &[Rank]| ranks[0].model.layers()[0].expert_bias();
    assert_eq!(bias(&once), bias(&twice));
}

#[test]
fn remove_is_idempotent_and_counts_must_fit() {
    let ranks = ranks(1, 1);
    ranks[0].callback.remove();
    ranks[0].callback.remove();
    assert_eq!(ranks[0].optimizer.hooks(), 0);
    let short = ranks[0].model.forward(&[1.0], 0.0);
    let expected = Error::TokenCounts {
        experts: 4,
        given: 1,
    };
    assert_eq!(short.unwrap_err().to_string(), expected.to_string());
    // Outliving its optimizer, a handle removes nothing.
    let lone = Optimizer::new(&ranks[0].runtime);
    let handle = lone.register_step_post_hook(|| Ok(()));
    drop(lone);
    handle.remove();
}
