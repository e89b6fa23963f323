//! Which scenarios, arms and releases a run covers.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{mockspore, refused, text};

/// The scenarios of a run, by the rows it prints.
fn scenarios(args: &[&str]) -> Vec<String> {
    let output = mockspore(args);
    let rows = text(&output.stdout);
    let runs = rows.lines().filter(|row| row.contains(r#""record":"run""#));
    let name = |row: &str| {
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        format!(
            "{}/{}",
            row["scenario"].as_str().unwrap(),
            row["arm"].as_str().unwrap()
        )
    };
    runs.map(name).collect()
}

#[test]
fn an_arm_or_a_knob_chooses_the_scenarios_that_have_it() {
    let json = ["--format", "json"];
    let with = |more: &[&str]| scenarios(&[&["run"], more, &json].concat());
    assert_eq!(
        with(&["--arm", "owned_outputs"]),
        [
            "recompute_residue/owned_outputs",
            "op_exception_output/owned_outputs"
        ]
    );
    assert_eq!(
        with(&["--arm", "sync", "--arm", "sum"]),
        ["collective_event/sync", "kernel_argument/sum"]
    );
    assert_eq!(
        with(&["--set", "acl_residue_bytes=190", "--arm", "sync"]),
        ["collective_event/sync"]
    );
    let message = refused(&["run", "hook_handle", "--arm", "sync"]);
    assert!(message.contains("unknown arm 'sync'"), "{message}");
    let message = refused(&["run", "--arm", "sync", "--set", "layers=3"]);
    assert!(
        message.contains("no scenario has 'sync' and all of the knobs set"),
        "{message}"
    );
}

#[test]
fn what_a_release_does_not_offer_is_said_and_is_no_failure() {
    let output = mockspore(&["run", "recompute_residue", "--as", "2.7.2"]);
    assert_eq!(output.status.code(), Some(0));
    let said = text(&output.stderr);
    assert!(
        said.contains("recompute_residue: not offered by 2.7.2"),
        "{said}"
    );
    for version in ["2.7.2", "2.8.0", "2.9.0", "2.10.0", "fixed"] {
        let output = mockspore(&["run", "--as", version]);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{version}: {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn the_unexplained_part_of_a_collective_makes_the_reported_figure() {
    let args = [
        "run",
        "--arm",
        "sync",
        "--set",
        "acl_residue_bytes=190",
        "--format",
        "json",
    ];
    let output = mockspore(&args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let rows = text(&output.stdout);
    let verdict = rows
        .lines()
        .find(|row| row.contains(r#""metric":"heap.thread_net","verdict""#));
    let verdict: serde_json::Value = serde_json::from_str(verdict.unwrap()).unwrap();
    let of = |part: &str| verdict["per_call"][part].as_f64().unwrap();
    let kib = (of("bytes") + of("array_bytes")) / 1024.0;
    assert!((0.25..=0.28).contains(&kib), "{kib} KiB/call");
}
