//! Scenarios without a slope: every arm as it declares, and every fix needed.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use mockspore::{Policies, Version};
use mockspore_growth::report::{Row, VerdictRow, to_line};
use repros::finding::{self, Entry, FINDINGS, Request, Scenario};
use repros::scenario::Role;

fn scenarios() -> impl Iterator<Item = (Entry, Scenario)> {
    FINDINGS
        .into_iter()
        .map(|entry| (entry, entry.scenario(None).unwrap()))
}

fn run(entry: Entry, scenario: &Scenario, arm: &str, change: impl Fn(&mut Request)) -> Vec<Row> {
    let arm = scenario.arm(arm).unwrap();
    let mut request = Request::arm(scenario, arm).unwrap();
    change(&mut request);
    finding::run(entry, scenario, arm, &request).unwrap().0
}

fn verdict(rows: &[Row]) -> &VerdictRow {
    let mut verdicts = rows.iter().filter_map(|row| match row {
        Row::Verdict(verdict) => Some(verdict),
        _ => None,
    });
    verdicts.next().unwrap()
}

fn lines(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|row| to_line(row).unwrap()).collect()
}

#[test]
fn each_has_all_its_files_under_its_one_name() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    for Entry { name, .. } in FINDINGS {
        let script = format!("repro_{name}_host_memory.py");
        for file in ["README.md", "scenario.json", "mock.rs", &script] {
            let there = folder.join(name).join(file).is_file();
            assert!(there, "{name} lacks {file}");
        }
        let readme = fs::read_to_string(folder.join(name).join("README.md")).unwrap();
        assert!(readme.lines().count() <= 40, "{name}/README.md is too long");
        // The headings of the memory scan.
        for heading in [
            "Reachability",
            "Refutations tried",
            "What stands",
            "Effect",
            "Fix",
        ] {
            let there = readme.contains(&format!("## {heading}"));
            assert!(there, "{name}/README.md lacks '{heading}'");
        }
    }
}

#[test]
fn each_arm_shows_the_finding_it_declares_twice_the_same() {
    for (entry, scenario) in scenarios() {
        for arm in &scenario.arms {
            let rows = run(entry, &scenario, &arm.name, |_| ());
            let row = verdict(&rows);
            assert!(
                row.as_expected,
                "{}/{}: {:#?}",
                scenario.name,
                arm.name,
                row.evidence.get("differs")
            );
            let again = run(entry, &scenario, &arm.name, |_| ());
            assert_eq!(lines(&rows), lines(&again));
        }
    }
}

#[test]
fn other_values_show_the_same() {
    for (entry, scenario) in scenarios() {
        for arm in &scenario.arms {
            for seed in 2..6 {
                let rows = run(entry, &scenario, &arm.name, |request| request.seed = seed);
                let row = verdict(&rows);
                assert!(row.as_expected, "{}/{} {seed}", scenario.name, arm.name);
            }
        }
    }
}

#[test]
fn an_arm_whose_fix_is_taken_out_is_not_as_it_declares() {
    let defective = Policies::mindspore(Version::V2_10_0);
    for (entry, scenario) in scenarios() {
        for arm in scenario.arms.iter().filter(|arm| arm.role == Role::Fix) {
            let rows = run(entry, &scenario, &arm.name, |request| {
                request.policies = defective;
            });
            let green = verdict(&rows).as_expected;
            assert!(!green, "{}/{} stays green", scenario.name, arm.name);
        }
    }
}

#[test]
fn each_defect_has_a_control_and_a_cure() {
    for (_, scenario) in scenarios() {
        for role in [Role::Control, Role::Defect, Role::Fix] {
            let has = scenario.arms.iter().any(|arm| arm.role == role);
            assert!(has, "{} has no {role:?}", scenario.name);
        }
    }
}

#[test]
fn each_release_shows_the_finding_of_the_arm_it_is_declared_like() {
    for (entry, scenario) in scenarios() {
        for name in Policies::preset_names() {
            let like = &scenario.releases[name];
            let mut arm = scenario.arm(like).unwrap().clone();
            arm.policies.clear();
            let mut request = Request::arm(&scenario, &arm).unwrap();
            request.policies = Policies::preset(name).unwrap();
            let (rows, _) = finding::run(entry, &scenario, &arm, &request).unwrap();
            assert!(verdict(&rows).as_expected, "{} {name}", scenario.name);
        }
    }
}
