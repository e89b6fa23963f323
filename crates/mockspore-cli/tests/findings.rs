//! Scenarios without a slope, and `explain`, as a user meets them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

mod common;

use common::{mockspore, refused, text};

const NAMES: [&str; 3] = [
    "moe_monitor_register",
    "ep_combine_handle",
    "mega_moe_core_bound",
];

/// A folder with one scenario's file, changed.
fn changed(place: &str, name: &str, change: impl Fn(String) -> String) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(place);
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../repros");
    let file = format!("{name}/scenario.json");
    let text = fs::read_to_string(built_in.join(&file)).unwrap();
    fs::create_dir_all(folder.join(name)).unwrap();
    fs::write(folder.join(&file), change(text)).unwrap();
    folder
}

#[test]
fn a_run_prints_them_beside_the_others() {
    let output = mockspore(&["run"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let tables = text(&output.stdout);
    for name in NAMES.into_iter().chain(["hook_handle"]) {
        assert!(tables.contains(&format!("{name}: ")), "{name}");
    }
    assert!(tables.contains("reported: "), "{tables}");
    assert!(!tables.contains(" NO "), "{tables}");
}

#[test]
fn a_verdict_row_carries_the_finding_and_two_runs_are_byte_identical() {
    for name in NAMES {
        let args = ["run", name, "--format", "json"];
        let (first, second) = (mockspore(&args), mockspore(&args));
        assert_eq!(first.stdout, second.stdout);
        let stdout = text(&first.stdout);
        let rows = stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let verdicts: Vec<Value> = rows
            .filter(|row: &Value| row["record"] == "verdict")
            .collect();
        assert!(!verdicts.is_empty());
        for row in verdicts {
            assert_eq!(row["finding"], row["expected_finding"]);
            assert!(row.get("verdict").is_none(), "{row}");
        }
    }
}

#[test]
fn a_finding_that_is_not_as_declared_ends_with_1_and_names_the_figure() {
    let folder = changed("another_finding", "moe_monitor_register", |text| {
        text.replacen("\"calls_per_step\": 1", "\"calls_per_step\": 3", 1)
    });
    let folder = folder.to_string_lossy();
    let output = mockspore(&["run", "moe_monitor_register", "--scenarios", &folder]);
    assert_eq!(output.status.code(), Some(1));
    let complaint = text(&output.stderr);
    let figure = "\"differs\":{\"calls_per_step\":[3,1]}";
    assert!(complaint.contains(figure), "{complaint}");
    assert!(text(&output.stdout).contains("NO"));
}

#[test]
fn a_damaged_file_is_named_with_its_line() {
    let cases: [(&str, &str, &str); 6] = [
        (
            "\"registrations\": 5}",
            "\"registrations\": 500}",
            "it is a whole number from 1 to 100, not 500",
        ),
        (
            "\"schedule\": \"apart\"",
            "\"schedule\": \"appart\"",
            "it is one of together, apart",
        ),
        (
            "\"twice\", \"role\"",
            "\"once\", \"role\"",
            "two arms have the name",
        ),
        (
            "\"registrations\": 2}",
            "\"regs\": 2}",
            "sets 'regs', which knobs lacks",
        ),
        ("\"replaces\"}", "\"replacs\"}", "unknown variant `replacs`"),
        (
            "\"fixed\": \"replaces\"",
            "\"fixed\": \"replacse\"",
            "did you mean 'replaces'?",
        ),
    ];
    for (index, (from, to, says)) in cases.into_iter().enumerate() {
        let place = format!("damaged_finding_{index}");
        let folder = changed(&place, "moe_monitor_register", |text| {
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        });
        let folder = folder.to_string_lossy();
        let error = refused(&["run", "moe_monitor_register", "--scenarios", &folder]);
        assert!(error.contains("scenario.json:"), "{error}");
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn what_they_do_not_have_is_refused() {
    let error = refused(&["run", "ep_combine_handle", "--set", "rows=3"]);
    assert!(error.contains("set their knobs themselves"), "{error}");
    let error = refused(&["run", "ep_combine_handle", "--steps", "3"]);
    assert!(error.contains("leave --steps out"), "{error}");
    let error = refused(&["run", "ep_combine_handle", "--arm", "kept_on_modul"]);
    assert!(error.contains("did you mean 'kept_on_module'?"), "{error}");
    let error = refused(&["run", "ep_combine_handel"]);
    assert!(
        error.contains("did you mean 'ep_combine_handle'?"),
        "{error}"
    );
    let ascend = ["ab", "mega_moe_core_bound", "--device", "Ascend"];
    assert!(refused(&ascend).contains("on the CPU"));
}

#[test]
fn a_preset_chooses_the_policy() {
    for (version, shows) in [("2.10.0", "model alive"), ("fixed", "model freed")] {
        let output = mockspore(&["run", "moe_monitor_register", "--as", version]);
        assert_eq!(output.status.code(), Some(0));
        let table = text(&output.stdout);
        assert!(table.contains(&format!("mindspore-{version}")), "{table}");
        assert!(table.contains(shows), "{table}");
    }
}

#[test]
fn explain_says_who_holds_what() {
    let cases = [
        (
            "hook_handle",
            "dropped",
            "hook_entry: 182 more each step, held by",
        ),
        ("hook_handle", "none", "keeps nothing"),
        (
            "moe_monitor_register",
            "twice",
            "1 hooks, each -> lambda -> callback -> model",
        ),
        (
            "ep_combine_handle",
            "kept_deredundency",
            "_ep_combine_handle._combined",
        ),
        ("ep_combine_handle", "local_handle", "kept by contract"),
        (
            "mega_moe_core_bound",
            "unchecked",
            "the atomic-add area from entry 6 on",
        ),
    ];
    for (name, arm, says) in cases {
        let output = mockspore(&["explain", name, "--arm", arm]);
        assert_eq!(output.status.code(), Some(0));
        let explained = text(&output.stdout);
        assert!(explained.contains(says), "{explained}");
        assert!(explained.contains(&format!("\n{arm} (")), "{explained}");
    }
    let error = refused(&["explain", "hook_handle", "--arm", "droped"]);
    assert!(error.contains("did you mean 'dropped'?"), "{error}");
    assert!(refused(&["explain", "hook_handel"]).contains("did you mean 'hook_handle'?"));
}

/// A stand-in for an interpreter; `$library` and `$out` are its arguments.
fn interpreter(name: &str, body: &str) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let head = "#!/bin/sh\nwhile [ $# -gt 0 ]; do case $1 in \
                --library) library=$2;; --out) out=$2;; esac; shift; done\n";
    fs::write(&path, format!("{head}{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_string_lossy().into_owned()
}

#[test]
fn an_ab_without_the_library_is_no_pass_and_says_what_is_missing() {
    let absent = interpreter(
        "absent",
        "echo 'x: unsupported: no torch: get it' >&2; exit 3",
    );
    let output = mockspore(&["ab", "moe_monitor_register", "--python", &absent]);
    assert_eq!(output.status.code(), Some(3));
    let error = text(&output.stderr);
    assert!(
        error.contains("SKIPPED: moe_monitor_register on torch"),
        "{error}"
    );
    assert!(error.contains("no torch: get it"), "{error}");
}

#[test]
fn an_ab_with_another_finding_ends_with_1() {
    let row = r#"{"schema_version":1,"record":"verdict","scenario":"moe_monitor_register","arm":"once","backend":"torch","metric":"finding","finding":{"registered_times":{"calls_per_step":2}},"shape":null,"slope_per_step":null,"per_call":null,"bound":null,"model_matches":null,"expected_finding":{"registered_times":{"calls_per_step":1}},"as_expected":false,"evidence":{}}"#;
    let run = r#"{"schema_version":1,"record":"run","scenario":"moe_monitor_register","arm":"once","role":"control","backend":"torch","version":"9.9","mockspore_version":"0.1.0","device":"CPU","seed":1,"knobs":{},"steps":1}"#;
    let body = format!("printf '%s\\n' '{run}' '{row}' > \"$out\"; exit 1");
    let differs = interpreter("differs", &body);
    let output = mockspore(&[
        "ab",
        "moe_monitor_register",
        "--arm",
        "once",
        "--python",
        &differs,
    ]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(
        table.contains("torch 9.9") && table.contains("DIFFERS"),
        "{table}"
    );
    // A crash is not a finding, whatever its exit code.
    let crash = interpreter("crash", "echo Traceback >&2; exit 1");
    let output = mockspore(&["ab", "moe_monitor_register", "--python", &crash]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("Traceback"));
}
