//! `mockspore list` and `mockspore run` as a user meets them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;

mod common;

use common::{mockspore, refused, text};

#[test]
fn a_run_is_as_expected_and_prints_a_line_per_arm() {
    let output = mockspore(&["run"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    for arm in [
        "none",
        "dropped",
        "removed",
        "removed_in_callback",
        "erased_with_node",
    ] {
        assert!(table.contains(&format!("| {arm} ")), "{table}");
    }
    assert!(table.contains("GROWTH") && table.contains("PLATEAU"));
    assert!(!table.contains(" NO |"), "{table}");
}

#[test]
fn two_runs_are_byte_identical() {
    let args = ["run", "hook_handle", "--steps", "40", "--format", "json"];
    let (first, second) = (mockspore(&args), mockspore(&args));
    assert!(!first.stdout.is_empty());
    assert_eq!(first.stdout, second.stdout);
}

#[test]
fn rows_have_the_documented_keys_in_order() {
    let output = mockspore(&[
        "run",
        "hook_handle",
        "--arm",
        "dropped",
        "--steps",
        "40",
        "--format",
        "json",
    ]);
    let stdout = text(&output.stdout);
    let line = |record: &str| stdout.lines().find(|line| line.contains(record)).unwrap();
    let run = r#"{"schema_version":1,"record":"run","scenario":"hook_handle","arm":"dropped","role":"defect","backend":"mockspore","version":"2.10.0","mockspore_version":"0.1.0","device":"CPU","seed":1,"knobs":{"hooks_per_step":182,"hook_on":"operator_outputs"},"steps":40}"#;
    assert_eq!(line("\"run\""), run);
    let sample = r#"{"schema_version":1,"record":"sample","scenario":"hook_handle","arm":"dropped","backend":"mockspore","step":2,"phase":"after_step","metrics":{"objects.control_block":364,"objects.hook_entry":364,"objects.leaf_block":1,"heap.thread_net":"#;
    assert!(
        line("\"sample\"").starts_with(sample),
        "{}",
        line("\"sample\"")
    );
    let verdict = r#"{"schema_version":1,"record":"verdict","scenario":"hook_handle","arm":"dropped","backend":"mockspore","metric":"heap.thread_net","verdict":"GROWTH","shape":"linear","slope_per_step":{"value":"#;
    let net = stdout
        .lines()
        .find(|line| line.contains("verdict") && line.contains("thread_net"));
    assert!(net.unwrap().starts_with(verdict), "{net:?}");
}

#[test]
fn results_go_to_a_folder_and_match_stdout() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("results");
    let dir_name = dir.to_str().unwrap();
    let output = mockspore(&[
        "run",
        "hook_handle",
        "--arm",
        "none",
        "--steps",
        "40",
        "--format",
        "json",
        "--out",
        dir_name,
    ]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        fs::read(dir.join("hook_handle.jsonl")).unwrap(),
        output.stdout
    );
}

#[test]
fn a_release_and_the_fixed_preset_choose_every_policy() {
    for version in ["2.7.2", "2.8.0", "2.9.0", "2.10.0"] {
        let output = mockspore(&["run", "hook_handle", "--as", version, "--steps", "40"]);
        let table = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0));
        assert!(
            table.contains(&format!("mindspore-{version}")) && table.contains("GROWTH"),
            "{table}"
        );
    }
    let fixed = text(&mockspore(&["run", "hook_handle", "--as", "fixed", "--steps", "40"]).stdout);
    assert!(
        fixed.contains("mindspore-fixed") && fixed.contains("PLATEAU"),
        "{fixed}"
    );
}

#[test]
fn a_run_too_short_to_decide_is_not_as_expected() {
    let output = mockspore(&["run", "hook_handle", "--arm", "dropped", "--steps", "3"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("INCONCLUSIVE (expected GROWTH)") && stderr.contains("\"needed\":8"),
        "{stderr}"
    );
}

#[test]
fn a_rehash_after_the_last_reading_changes_no_figure() {
    // The last reading is at step 56; at step 57 the bucket array grows.
    for steps in ["57", "235", "955"] {
        let output = mockspore(&["run", "--arm", "dropped", "--steps", steps]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
}

#[test]
fn a_knob_that_an_arm_sets_itself_cannot_be_set() {
    let message = refused(&["run", "--arm", "none", "--set", "hook_on=one_tensor"]);
    assert!(message.contains("arm 'none' sets it itself"), "{message}");
}

#[test]
fn probes_add_observations_and_change_no_verdict() {
    let output = mockspore(&[
        "run",
        "hook_handle",
        "--arm",
        "dropped",
        "--steps",
        "40",
        "--format",
        "json",
        "--probe",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let stdout = text(&output.stdout);
    let observed = stdout
        .lines()
        .filter(|line| line.contains("\"observation\""))
        .count();
    assert_eq!(observed, 20);
    for metric in [
        "heap.allocated",
        "heap.active",
        "heap.resident",
        "proc.anon",
        "proc.rss",
        "libc.malloc_inuse",
    ] {
        assert!(stdout.contains(&format!("\"{metric}\":")), "{metric}");
    }
}

#[test]
fn unknown_names_get_the_near_match() {
    let cases: [(&[&str], &str); 5] = [
        (
            &["run", "hook_handel"],
            "unknown scenario 'hook_handel': did you mean 'hook_handle'?",
        ),
        (
            &["run", "--arm", "droped"],
            "unknown arm 'droped': did you mean 'dropped'?",
        ),
        (
            &["run", "--set", "hooks_per_stp=3"],
            "unknown knob 'hooks_per_stp': did you mean 'hooks_per_step'?",
        ),
        (
            &["run", "--as", "2.10"],
            "unknown version '2.10': did you mean '2.10.0'?",
        ),
        (
            &["run", "--as", "zebra"],
            "unknown version 'zebra': there are: 2.7.2, 2.8.0, 2.9.0, 2.10.0, fixed",
        ),
    ];
    for (args, expected) in cases {
        let message = refused(args);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn steps_and_knob_values_out_of_range_are_refused() {
    for steps in ["0", "-5", "many", "1000000001", "1.5", ""] {
        let message = refused(&["run", "--steps", steps]);
        assert!(
            message.contains("steps are a whole number from 1 to 1000000000"),
            "{message}"
        );
    }
    let message = refused(&["run", "--set", "hooks_per_step=0"]);
    assert!(
        message.contains("it is a whole number from 1 to 100000"),
        "{message}"
    );
    let message = refused(&["run", "--arm", "dropped", "--set", "hook_on=ceiling"]);
    assert!(
        message.contains("it is one of nothing, operator_outputs"),
        "{message}"
    );
    assert!(refused(&["run", "--set", "hooks_per_step"]).contains("write it as KNOB=VALUE"));
}

#[test]
fn a_damaged_scenario_is_named_with_file_and_line() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("damaged");
    fs::create_dir_all(dir.join("hook_handle")).unwrap();
    let path = dir.join("hook_handle/scenario.json");
    fs::write(&path, "{\n  \"schema_version\": 1,\n  \"name\": ").unwrap();
    let message = refused(&["run", "--scenarios", dir.to_str().unwrap()]);
    assert!(
        message.contains(&format!("{}:3: ", path.display())),
        "{message}"
    );
    assert!(message.contains("restore it"), "{message}");
    let message = refused(&["list", "--scenarios", "/nonexistent"]);
    assert!(
        message.contains("--scenarios names the folder"),
        "{message}"
    );
}

#[test]
fn a_closed_stdout_ends_in_silence() {
    let mut child = Command::new(cargo_bin!("mockspore"))
        .args(["run", "--steps", "40", "--format", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), text(&output.stderr).as_str()),
        (Some(0), "")
    );
}

#[test]
fn list_names_every_scenario_knob_and_arm() {
    let listed = text(&mockspore(&["list"]).stdout);
    for line in [
        "hook_handle: ",
        "  knob hooks_per_step = 182: ",
        "  arm erased_with_node (fix): ",
    ] {
        assert!(listed.contains(line), "{listed}");
    }
}
