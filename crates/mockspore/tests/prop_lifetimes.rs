//! Random programs: what is alive is what the policies say, and no policy
//! changes a number.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod lifetimes;

use lifetimes::programs::with_one_input;
use lifetimes::{Account, LIMITS, World, all_policies, programs};
use mockspore::census::Kind;
use mockspore::{AbstractCache, Policies, Runtime};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

fn config() -> ProptestConfig {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../proptest-regressions/mockspore/prop_lifetimes.txt"
    );
    ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file))),
        ..ProptestConfig::with_cases(256)
    }
}

/// The same as the account, read from the census.
fn census(runtime: &Runtime, base: &Base) -> Account {
    let top_cells = runtime.live(Kind::TopCell);
    Account {
        tuples: runtime.live(Kind::NeedsInputGrad),
        // A kept forward keeps its one output.
        abandoned: runtime.live(Kind::Tensor) - base.tensors - top_cells,
        arguments: runtime.live(Kind::PoolBlock),
        abstracts: runtime.live(Kind::AbstractEntry),
        top_cells,
        nodes: runtime.live(Kind::OpNode),
    }
}

struct Base {
    tensors: u64,
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_alive_is_what_the_account_says_after_every_operation(program in programs()) {
        for policies in all_policies() {
            let mut world = World::new(policies);
            let base = Base { tensors: world.runtime.live(Kind::Tensor) };
            for &op in &program {
                world.apply(op);
                prop_assert_eq!(census(&world.runtime, &base), world.account, "{:?} {:?}", policies, op);
                prop_assert_eq!(world.runtime.abstract_entries() as u64, world.account.abstracts);
                for kind in [Kind::FunctionCtx, Kind::SavedTensors, Kind::PlaceHolder, Kind::RecomputeFrame] {
                    prop_assert_eq!(world.runtime.live(kind), 0, "{:?} {:?}", kind, op);
                }
            }
            world.runtime.clear_res();
        }
    }

    #[test]
    fn the_cache_keeps_within_its_cap_unless_it_has_none(program in programs()) {
        for policies in all_policies() {
            let mut world = World::new(policies);
            for &op in &program {
                world.apply(op);
                if policies.abstract_cache == AbstractCache::Bounded {
                    prop_assert!(world.runtime.abstract_entries() <= LIMITS.threshold);
                }
            }
            world.runtime.clear_res();
        }
    }

    #[test]
    fn the_fixed_preset_keeps_nothing_that_grows(program in programs()) {
        let mut world = World::new(Policies::fixed());
        let base = Base {
            tensors: world.runtime.live(Kind::Tensor),
        };
        world.run(&program);
        let alive = census(&world.runtime, &base);
        prop_assert_eq!((alive.tuples, alive.abandoned, alive.arguments), (0, 0, 0));
        prop_assert!(alive.top_cells <= 1);
        world.runtime.clear_res();
    }

    #[test]
    fn policies_never_change_a_value_or_a_gradient(program in programs()) {
        // One input, so that callers that clear the field see the same.
        let program: Vec<_> = program.into_iter().map(with_one_input).collect();
        let values = all_policies().into_iter().map(|policies| {
            let mut world = World::new(policies);
            world.run(&program);
            world.runtime.clear_res();
            world.values
        });
        let all: Vec<Vec<u32>> = values.collect();
        for other in &all[1..] {
            prop_assert_eq!(other, &all[0]);
        }
    }
}
