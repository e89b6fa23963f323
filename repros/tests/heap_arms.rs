//! Every arm of every scenario, bytes included: as declared, twice the same,
//! and red when its cure is taken out.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use jemallocator::Jemalloc;
use mockspore::{Device, Policies, Version};
use mockspore_growth::probe::jemalloc::Heap;
use mockspore_growth::protocol::THREAD_NET;
use mockspore_growth::report::{Row, VerdictRow, to_line};
use repros::registry::{Entry, REGISTRY};
use repros::runner::{self, Request};
use repros::scenario::{Arm, Role, Scenario};

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn run(
    entry: Entry,
    scenario: &Scenario,
    arm: &Arm,
    device: Device,
    policies: Option<Policies>,
) -> Vec<Row> {
    // On another device than its own, the arm runs with what fits there.
    let set = if device == arm.device {
        Vec::new()
    } else {
        scenario.real.set()
    };
    let mut request = Request::arm(scenario, arm, &set).unwrap();
    request.device = device;
    request.steps = request.steps.min(45);
    request.policies = policies.unwrap_or(request.policies);
    let heap = Some(Heap::open().unwrap());
    runner::run(entry, scenario, arm, &request, heap, &mut || Ok(None)).unwrap()
}

fn net(rows: &[Row]) -> &VerdictRow {
    let verdicts = rows.iter().filter_map(|row| match row {
        Row::Verdict(verdict) => Some(verdict),
        _ => None,
    });
    verdicts
        .into_iter()
        .find(|row| row.metric == THREAD_NET)
        .unwrap()
}

#[test]
fn every_arm_is_as_declared_twice_and_red_without_its_cure() {
    let defective = Policies::mindspore(Version::V2_10_0);
    for entry in REGISTRY {
        let scenario = entry.scenario(None).unwrap();
        for arm in &scenario.arms {
            let lines = |rows: &[Row]| {
                rows.iter()
                    .map(|row| to_line(row).unwrap())
                    .collect::<Vec<_>>()
            };
            let others = arm.on.keys().copied();
            for device in [arm.device].into_iter().chain(others) {
                let rows = run(entry, &scenario, arm, device, None);
                for row in &rows {
                    if let Row::Verdict(verdict) = row {
                        assert!(verdict.as_expected, "{device:?} {verdict:#?}");
                    }
                }
                let again = run(entry, &scenario, arm, device, None);
                assert_eq!(lines(&rows), lines(&again));
            }
            if matches!(arm.role, Role::Fix | Role::Workaround) {
                let without = run(entry, &scenario, arm, arm.device, Some(defective));
                assert!(
                    !net(&without).as_expected,
                    "{}/{} stays green",
                    scenario.name,
                    arm.name
                );
            }
        }
    }
}
