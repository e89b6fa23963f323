//! Random programs: the hook map holds exactly what the policies say.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod program;

use mockspore::census::Kind;
use mockspore::{HookMap, HookRelease};
use program::{Op, World, all_policies, programs};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

fn config() -> ProptestConfig {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../proptest-regressions/mockspore/prop_hooks.txt"
    );
    ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file))),
        ..ProptestConfig::with_cases(512)
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_map_holds_what_the_account_says_after_every_operation(program in programs()) {
        for policies in all_policies() {
            let mut world = World::new(policies);
            for &op in &program {
                world.apply(op);
                prop_assert_eq!(world.runtime.hook_entries(), world.entries.len(), "{:?} {:?}", policies, op);
                prop_assert_eq!(world.runtime.live(Kind::HookEntry), world.entries.len() as u64);
            }
        }
    }

    #[test]
    fn after_a_backward_a_fixed_caller_has_exactly_its_live_handles_in_the_map(program in programs()) {
        for policies in all_policies() {
            if policies.hook_release == HookRelease::Dropped || policies.hook_map != HookMap::KeepsDead {
                continue;
            }
            let mut world = World::new(policies);
            // Without clear_res a live handle always has its entry.
            for &op in program.iter().filter(|op| !matches!(op, Op::ClearRes)) {
                world.apply(op);
                let live = world.handles.len();
                prop_assert_eq!(world.runtime.hook_entries(), live + world.pending());
                if world.ended_a_backward(op) {
                    prop_assert_eq!(world.pending(), 0);
                }
            }
        }
    }

    #[test]
    // A caller that removes at the end of *some* backward decides which hooks
    // run at all, so hooks here replace the gradient by an equal one.
    fn policies_never_change_a_gradient(program in programs()) {
        let gradients = all_policies().into_iter().map(|policies| {
            let mut world = World::new(policies);
            for &op in &program {
                world.apply(op);
            }
            world.gradients
        });
        let all: Vec<Vec<u32>> = gradients.collect();
        for other in &all[1..] {
            prop_assert_eq!(other, &all[0]);
        }
    }

    #[test]
    fn the_map_erases_no_hook_before_it_has_run(program in programs()) {
        // Equal callers, so the same hooks are to run, and they change gradients.
        for pair in all_policies().chunks(3).next().unwrap_or_default() {
            let outcomes = [HookMap::KeepsDead, HookMap::ErasesWithNode].map(|hook_map| {
                let mut world = World::new(mockspore::Policies { hook_map, ..*pair });
                world.hooks_scale = true;
                for &op in &program {
                    world.apply(op);
                }
                (world.calls.get(), world.gradients)
            });
            prop_assert_eq!(&outcomes[0], &outcomes[1]);
        }
    }

    #[test]
    fn nothing_is_left_when_every_tensor_is_dropped_and_the_map_cleared(program in programs()) {
        for policies in all_policies() {
            let mut world = World::new(policies);
            for &op in &program {
                world.apply(op);
            }
            world.drop_everything();
            world.runtime.clear_res();
            let left = world.runtime.census().live_total();
            prop_assert_eq!(left, world.runtime.live(Kind::HookBuckets), "{:?}", policies);
        }
    }
}
