//! Random collectives: the registry, the hazards and the values under each way
//! to end an event.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod collectives;

use collectives::{ALL, Bench, CAP, Op, programs};
use mockspore::EventRelease;
use mockspore::census::{Kind, Tally};
use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, TestCaseError, TestError, TestRunner};

fn config() -> ProptestConfig {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../proptest-regressions/mockspore/prop_collectives.txt"
    );
    ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file))),
        ..ProptestConfig::with_cases(512)
    }
}

const HAZARDS: [Tally; 5] = [
    Tally::DestroyedBeforeWait,
    Tally::DestroyedBeforeCompletion,
    Tally::ReusedBeforeCompletion,
    Tally::DestroyedTwice,
    Tally::WaitedAfterDestroy,
];

/// Entries that the registry must have; a range where a pool may keep some.
fn expected(bench: &Bench) -> std::ops::RangeInclusive<usize> {
    let live = bench.live();
    match bench.release() {
        EventRelease::NeverErased => bench.issued..=bench.issued,
        EventRelease::ErasedByManager => live..=live,
        EventRelease::OnWait => {
            let unwaited = bench.live_unwaited();
            unwaited..=unwaited
        }
        EventRelease::OnCompletion => live + bench.unswept()..=live + bench.unswept(),
        EventRelease::Pooled { .. } => live + bench.unswept()..=live + bench.unswept() + CAP,
        EventRelease::PooledUnchecked { .. } => live..=live + bench.unswept() + CAP,
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_registry_holds_what_the_account_says(program in programs()) {
        for release in ALL {
            let mut bench = Bench::new(release);
            for &op in &program {
                bench.apply(op);
                let entries = bench.ranks()[0].device_events();
                prop_assert!(expected(&bench).contains(&entries), "{release:?} {op:?}: {entries}, {:?}", expected(&bench));
            }
        }
    }

    #[test]
    fn under_every_fix_nothing_outlives_its_handle_and_its_work(program in programs()) {
        for release in &ALL[1..] {
            let mut bench = Bench::new(*release);
            bench.run(&program);
            bench.finish();
            let kept = match release {
                EventRelease::Pooled { .. } | EventRelease::PooledUnchecked { .. } => CAP,
                _ => 0,
            };
            let rank = &bench.ranks()[0];
            prop_assert!(rank.device_events() <= kept, "{release:?}");
            prop_assert_eq!(rank.live(Kind::Event), rank.device_events() as u64);
        }
    }

    #[test]
    fn the_safe_fixes_have_no_hazard_in_either_sense(program in programs()) {
        for release in [EventRelease::OnCompletion, EventRelease::Pooled { cap: CAP as u32 }] {
            let mut bench = Bench::new(release);
            bench.run(&program);
            bench.finish();
            for hazard in HAZARDS {
                prop_assert_eq!(bench.hazard(hazard), 0, "{:?} {:?}", release, hazard);
            }
        }
    }

    #[test]
    fn what_is_destroyed_too_early_is_predicted_exactly(program in programs()) {
        for release in [EventRelease::NeverErased, EventRelease::ErasedByManager, EventRelease::OnWait] {
            let mut bench = Bench::new(release);
            // A caller's own event is destroyed at once, by its own wish.
            let own = |op: &Op| !matches!(op, Op::UseEvent);
            bench.run(&program.iter().copied().filter(own).collect::<Vec<_>>());
            bench.finish();
            prop_assert_eq!(bench.hazard(Tally::DestroyedBeforeCompletion), bench.early, "{:?}", release);
            prop_assert_eq!(bench.hazard(Tally::DestroyedBeforeWait), bench.unwaited, "{:?}", release);
            prop_assert_eq!(bench.hazard(Tally::DestroyedTwice), 0);
        }
    }

    #[test]
    fn policies_never_change_a_value(program in programs()) {
        let values = ALL.map(|release| {
            let mut bench = Bench::new(release);
            bench.run(&program);
            bench.values
        });
        for other in &values[1..] {
            prop_assert_eq!(other, &values[0]);
        }
    }
}

/// Searches for a program that is unsafe under `release`; the smallest found.
fn unsafe_program(release: EventRelease, hazard: Tally) -> Option<Vec<Op>> {
    let mut runner = TestRunner::deterministic();
    let outcome = runner.run(&programs(), |program| {
        let mut bench = Bench::new(release);
        bench.run(&program);
        match bench.hazard(hazard) {
            0 => Ok(()),
            times => Err(TestCaseError::fail(format!("{times} times"))),
        }
    });
    match outcome {
        Err(TestError::Fail(_, program)) => Some(program),
        _ => None,
    }
}

#[test]
fn a_random_search_finds_what_each_eager_fix_breaks() {
    let found = |release, hazard| unsafe_program(release, hazard).map(|program| program.len());
    // Issue, wait on one stream, wait on another.
    assert_eq!(
        found(EventRelease::OnWait, Tally::WaitedAfterDestroy),
        Some(3)
    );
    // Issue, drop.
    assert_eq!(
        found(EventRelease::ErasedByManager, Tally::DestroyedBeforeWait),
        Some(2)
    );
    // Issue, drop, issue.
    let unchecked = EventRelease::PooledUnchecked { cap: CAP as u32 };
    assert_eq!(found(unchecked, Tally::ReusedBeforeCompletion), Some(3));
    // And not what is safe.
    let pooled = EventRelease::Pooled { cap: CAP as u32 };
    assert_eq!(found(pooled, Tally::ReusedBeforeCompletion), None);
    assert_eq!(
        found(EventRelease::OnCompletion, Tally::DestroyedBeforeCompletion),
        None
    );
}
