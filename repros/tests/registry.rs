//! Every scenario is whole, and every fix is needed.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use mockspore::{Device, Policies, Version};
use mockspore_growth::report::Row;
use repros::finding::FINDINGS;
use repros::registry::{Entry, REGISTRY};
use repros::runner::{self, Request};
use repros::scenario::{Arm, Role, Scenario};

fn scenarios() -> impl Iterator<Item = (Entry, Scenario)> {
    REGISTRY
        .into_iter()
        .map(|entry| (entry, entry.scenario(None).unwrap()))
}

fn run(entry: Entry, scenario: &Scenario, arm: &Arm, change: impl Fn(&mut Request)) -> Vec<Row> {
    let mut request = Request::arm(scenario, arm, &[]).unwrap();
    request.steps = request.steps.min(45);
    change(&mut request);
    // Objects only: bytes are judged in the heap_* tests.
    runner::run(entry, scenario, arm, &request, None, &mut || Ok(None)).unwrap()
}

fn as_expected(rows: &[Row]) -> bool {
    rows.iter().all(|row| match row {
        Row::Verdict(verdict) => verdict.as_expected,
        _ => true,
    })
}

#[test]
fn each_scenario_has_all_its_files_under_its_one_name() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    for entry in REGISTRY {
        let name = entry.name;
        let script = format!("repro_{name}_host_memory.py");
        for file in ["README.md", "scenario.json", "mock.rs", &script] {
            assert!(
                folder.join(name).join(file).is_file(),
                "{name} lacks {file}"
            );
        }
        let readme = fs::read_to_string(folder.join(name).join("README.md")).unwrap();
        assert!(readme.lines().count() <= 40, "{name}/README.md is too long");
    }
    let folders = fs::read_dir(folder).unwrap().filter_map(|place| {
        let path = place.unwrap().path();
        path.join("scenario.json")
            .is_file()
            .then(|| path.file_name().unwrap().to_owned())
    });
    for name in folders {
        assert!(
            REGISTRY.iter().any(|entry| entry.name == name)
                || FINDINGS.iter().any(|entry| entry.name == name),
            "{name:?} is not registered"
        );
    }
}

#[test]
fn each_arm_keeps_the_objects_it_declares() {
    for (entry, scenario) in scenarios() {
        for arm in &scenario.arms {
            let rows = run(entry, &scenario, arm, |_| ());
            assert!(
                as_expected(&rows),
                "{}/{}: {rows:#?}",
                scenario.name,
                arm.name
            );
        }
    }
}

#[test]
fn an_arm_whose_fix_is_taken_out_is_not_as_it_declares() {
    for (entry, scenario) in scenarios() {
        let roles = [Role::Fix, Role::Workaround];
        let cured: Vec<&Arm> = scenario
            .arms
            .iter()
            .filter(|arm| roles.contains(&arm.role))
            .collect();
        for arm in cured {
            let defective = Policies::mindspore(Version::V2_10_0);
            let rows = run(entry, &scenario, arm, |request| {
                request.policies = defective;
            });
            assert!(
                !as_expected(&rows),
                "{}/{} stays green",
                scenario.name,
                arm.name
            );
        }
    }
}

#[test]
fn each_defect_has_a_control_and_a_cure_and_each_bound_its_proof() {
    for (_, scenario) in scenarios() {
        let has = |role| scenario.arms.iter().any(|arm| arm.role == role);
        assert!(has(Role::Control), "{}", scenario.name);
        assert_eq!(has(Role::Defect), has(Role::Fix), "{}", scenario.name);
        // What only looks like a defect: too brief a look, and one without the bound.
        let bounded = has(Role::Bounded) && has(Role::ShortWindow);
        let proved = bounded && has(Role::PositiveControl);
        assert!(has(Role::Defect) || proved, "{}", scenario.name);
    }
}

#[test]
fn seeds_change_values_and_no_figure() {
    for (entry, scenario) in scenarios() {
        let arm = scenario
            .arms
            .iter()
            .find(|arm| arm.role != Role::Control)
            .unwrap();
        let figures = |seed| {
            let rows = run(entry, &scenario, arm, |request| request.seed = seed);
            rows.into_iter()
                .filter(|row| !matches!(row, Row::Run(_)))
                .collect::<Vec<_>>()
        };
        assert_eq!(figures(1), figures(2));
    }
}

#[test]
fn an_arm_that_can_be_compared_says_what_each_device_shows() {
    for (entry, scenario) in scenarios() {
        let real = |arm: &&Arm| arm.real.is_some();
        for arm in scenario.arms.iter().filter(real) {
            let unsupported = arm.real.as_ref().map(|real| &*real.unsupported_on).unwrap();
            let supported = Device::ALL
                .into_iter()
                .filter(|device| !unsupported.contains(device));
            for device in supported {
                let rows = run(entry, &scenario, arm, |request| {
                    if device != arm.device {
                        // With what fits there.
                        request.knobs = scenario.knobs(arm, &scenario.real.set()).unwrap();
                    }
                    request.device = device;
                });
                assert!(
                    as_expected(&rows),
                    "{}/{} on {device:?}",
                    scenario.name,
                    arm.name
                );
            }
        }
    }
}

#[test]
fn what_explains_a_baseline_is_an_arm() {
    for (_, scenario) in scenarios() {
        let report = scenario.real.report_baseline.as_ref();
        if let Some([name, arm]) = report.and_then(|report| report.explained_by.clone()) {
            Entry::find(&name)
                .unwrap()
                .scenario(None)
                .unwrap()
                .arm(&arm)
                .unwrap();
        }
    }
}

#[test]
fn every_integer_knob_can_have_another_value() {
    for (entry, scenario) in scenarios() {
        for (knob, spec) in &scenario.knobs {
            let Some(default) = spec["default"].as_u64() else {
                continue;
            };
            if spec.get("arm_only").is_some() || spec.get("mock_only").is_some() {
                continue;
            }
            let other = if default > 1 { default / 2 + 1 } else { 2 };
            let set = [(knob.clone(), other.to_string())];
            let free = |arm: &&Arm| !arm.knobs.contains_key(knob);
            for arm in scenario.arms.iter().filter(free) {
                let mut request = Request::arm(&scenario, arm, &set).unwrap();
                request.steps = arm.plan.unwrap_or(scenario.plan).steps.min(100);
                let rows = runner::run(entry, &scenario, arm, &request, None, &mut || Ok(None));
                let rows = rows.unwrap();
                let model = |row: &Row| match row {
                    Row::Verdict(row) => row.model_matches == Some(true),
                    _ => true,
                };
                assert!(
                    rows.iter().all(model),
                    "{}/{} {set:?}",
                    scenario.name,
                    arm.name
                );
            }
        }
    }
}
