//! Which rows a rank sends, and in which order the experts see them.

use crate::moe::expert_parallel::module::Options;
use crate::moe::expert_parallel::routing::{Mesh, Routing};

/// What one rank sends: the expert, place and coefficient of each row, and how
/// many go to each rank.
pub(super) struct Plan {
    experts: Vec<usize>,
    pub(super) indices: Vec<usize>,
    pub(super) coefficients: Vec<f32>,
    pub(super) splits: Vec<usize>,
}

impl Plan {
    /// Every rank's.
    pub(super) fn of_all(routing: &Routing, options: &Options) -> Vec<Self> {
        let ranks = options.mesh.ep();
        (0..ranks)
            .map(|rank| Self::of(routing, options, rank))
            .collect()
    }

    fn of(routing: &Routing, options: &Options, rank: usize) -> Self {
        let Mesh { oep, iep, .. } = options.mesh;
        let ranks = oep * iep;
        let local = routing.experts / ranks;
        let mut rows: Vec<(usize, usize, f32)> = Vec::new();
        if options.deredundency {
            let own = rank / iep;
            let range = own * iep * local..(own + 1) * iep * local;
            for o in 0..oep {
                let peer = o * iep + rank % iep;
                let first = o * routing.rows(peer);
                let all = routing.by_rank[peer]
                    .iter()
                    .zip(&routing.coefficients[peer]);
                let own = all
                    .enumerate()
                    .filter(|(_, (expert, _))| range.contains(expert));
                rows.extend(own.map(|(index, (&expert, &by))| (expert, first + index, by)));
            }
            rows.sort_by_key(|&(expert, index, _)| (expert, index));
        } else {
            let all = routing.by_rank[rank].iter().enumerate();
            rows.extend(all.map(|(index, &expert)| (expert, index, 1.0)));
        }
        let mut splits = vec![0; ranks];
        for &(expert, ..) in &rows {
            splits[expert / local] += 1;
        }
        Self {
            experts: rows.iter().map(|row| row.0).collect(),
            indices: rows.iter().map(|row| row.1).collect(),
            coefficients: rows.iter().map(|row| row.2).collect(),
            splits,
        }
    }
}

/// The experts of the rows that a rank receives, as they arrive.
fn received(plans: &[Plan], rank: usize) -> Vec<usize> {
    let from = |plan: &Plan| {
        let start: usize = plan.splits[..rank].iter().sum();
        plan.experts[start..start + plan.splits[rank]].to_vec()
    };
    plans.iter().flat_map(from).collect()
}

/// The same, as the experts see them.
pub(super) fn seen(plans: &[Plan], rank: usize) -> Vec<usize> {
    let mut experts = received(plans, rank);
    experts.sort_unstable();
    experts
}

/// Where each index stands.
pub(super) fn inverse(indices: &[usize]) -> Vec<usize> {
    let mut places = vec![0; indices.len()];
    for (place, &index) in indices.iter().enumerate() {
        places[index] = place;
    }
    places
}

/// The received row that comes at each place, by expert.
pub(super) fn permuted(plans: &[Plan], rank: usize) -> Vec<usize> {
    let received = received(plans, rank);
    let mut order: Vec<usize> = (0..received.len()).collect();
    order.sort_by_key(|&index| received[index]);
    order
}
