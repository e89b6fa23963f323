//! `mockspore ab` against stand-ins for the interpreter: what a real framework
//! may write, and every way in which its process can fail.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;

/// A stand-in: a shell script that gets the script and its arguments, with
/// `$arm` and `$out` taken from them. It has no extension of this project.
fn interpreter(name: &str, body: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let head = "#!/bin/sh\n[ \"$1\" = -c ] && exit 1\nwhile [ $# -gt 0 ]; do case $1 in \
                --arm) arm=$2;; --out) out=$2;; esac; shift; done\n";
    fs::write(&path, format!("{head}{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Writes a run of 84 steps in which the dropped arm grows by `bytes` a hook.
fn framework(name: &str, bytes: u32) -> PathBuf {
    let body = format!(
        r#"
row() {{ printf '%s\n' "{{\"schema_version\":1,\"record\":$1}}" >> "$out"; }}
row "\"run\",\"scenario\":\"hook_handle\",\"arm\":\"$arm\",\"role\":\"defect\",\"backend\":\"mindspore\",\"version\":\"2.10.0\",\"mockspore_version\":\"0.1.0\",\"device\":\"CPU\",\"seed\":1,\"knobs\":{{\"hooks_per_step\":182}},\"steps\":84"
[ "$arm" = dropped ] && per={bytes} || per=0
for step in 0 28 56 84; do
  row "\"sample\",\"scenario\":\"hook_handle\",\"arm\":\"$arm\",\"backend\":\"mindspore\",\"step\":$step,\"phase\":\"after_step\",\"metrics\":{{\"libc.malloc_inuse\":$((step * 182 * per + 1000000))}}"
done"#
    );
    interpreter(name, &body)
}

fn ab(python: &Path, more: &[&str]) -> Output {
    Command::new(cargo_bin!("mockspore"))
        .args(["ab", "hook_handle", "--python"])
        .arg(python)
        .args(more)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[track_caller]
fn fails(output: &Output, code: i32, expected: &str) {
    let all = text(&output.stderr) + &text(&output.stdout);
    assert_eq!(output.status.code(), Some(code), "{all}");
    assert!(all.contains(expected), "{all}");
}

#[test]
fn a_framework_that_grows_as_declared_is_confirmed() {
    let output = ab(&framework("grows", 106), &[]);
    let table = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{table}{}",
        text(&output.stderr)
    );
    assert!(
        table.contains("[106.0, 106.0]") && table.contains("2.10.0 on CPU"),
        "{table}"
    );
}

#[test]
fn a_framework_that_does_not_grow_contradicts_the_mock() {
    let output = ab(&framework("cured", 0), &[]);
    fails(
        &output,
        1,
        "hook_handle/dropped libc.malloc_inuse on mindspore: PLATEAU (expected GROWTH)",
    );
}

#[test]
fn a_growth_outside_the_declared_range_is_not_as_expected() {
    fails(&ab(&framework("huge", 400), &[]), 1, "\"in_range\":false");
}

#[test]
fn an_interpreter_that_is_not_there_is_bad_usage() {
    fails(
        &ab(Path::new("/nonexistent/python"), &[]),
        2,
        "--python names an interpreter",
    );
}

#[test]
fn a_framework_that_is_not_installed_is_bad_usage() {
    let python = interpreter(
        "lacking",
        "echo 'has no mindspore: install it there' >&2; exit 2",
    );
    fails(&ab(&python, &[]), 2, "has no mindspore: install it there");
}

#[test]
fn a_process_that_crashes_is_invalid_with_its_last_words() {
    let python = interpreter("crashing", "echo 'terminate called' >&2; kill -SEGV $$");
    let output = ab(&python, &[]);
    fails(&output, 3, "terminate called");
    fails(&output, 3, "INVALID");
}

#[test]
fn one_crashing_arm_does_not_lose_the_others() {
    let good = framework("good", 106);
    let body = format!(
        "[ \"$arm\" = removed ] && exit 9\nexec {} --arm $arm --out $out",
        good.display()
    );
    let output = ab(&interpreter("one-bad", &body), &[]);
    fails(&output, 3, "hook_handle/removed");
    fails(&output, 3, "[106.0, 106.0]");
}

#[test]
fn a_process_that_hangs_is_ended_and_invalid() {
    let python = interpreter("hanging", "exec sleep 60");
    fails(
        &ab(&python, &["--timeout", "1", "--arm", "none"]),
        3,
        "hung: no end after 1 s",
    );
}

#[test]
fn rows_that_are_cut_off_are_invalid_with_file_and_line() {
    let python = interpreter("cut", "printf '{\"schema_version\":1,\"rec' > \"$out\"");
    let output = ab(&python, &[]);
    fails(&output, 3, "rows.jsonl:1: ");
    fails(&output, 3, "the line is cut off");
}

#[test]
fn a_process_without_rows_is_invalid() {
    fails(
        &ab(&interpreter("silent", "exit 0"), &[]),
        3,
        "rows.jsonl:1: ",
    );
    fails(
        &ab(&interpreter("empty", ": > \"$out\""), &[]),
        3,
        "wrote no run row",
    );
}

#[test]
fn a_process_that_stops_reading_early_or_runs_another_arm_is_invalid() {
    let good = framework("whole", 106);
    let body = format!(
        "{} --arm $arm --out $out && head -n 3 \"$out\" > \"$out.x\" && mv \"$out.x\" \"$out\"",
        good.display()
    );
    let output = ab(&interpreter("short", &body), &[]);
    fails(
        &output,
        3,
        "read at steps [0, 28], not on the grid asked for",
    );
    let body = format!("exec {} --arm none --out $out", good.display());
    let output = ab(&interpreter("other-arm", &body), &[]);
    fails(
        &output,
        3,
        "asked for hook_handle/dropped, it ran hook_handle/none",
    );
}

#[test]
fn the_reports_loop_refuses_what_it_does_not_have() {
    let python = framework("report", 106);
    let output = ab(
        &python,
        &["--baseline", "report", "--arm", "one_tensor_dropped"],
    );
    fails(
        &output,
        2,
        "the reports' own loop has no arm 'one_tensor_dropped'",
    );
    let output = ab(
        &python,
        &["--baseline", "report", "--set", "hooks_per_step=5"],
    );
    fails(&output, 2, "the reports' own loop fixes 'hooks_per_step'");
}

#[test]
fn an_arm_without_a_real_counterpart_is_refused() {
    let output = ab(&framework("plain", 106), &["--arm", "erased_with_node"]);
    fails(&output, 2, "arm 'erased_with_node' has no real counterpart");
}

#[test]
fn what_is_left_undone_when_the_time_of_all_is_up_is_invalid() {
    let python = interpreter("slow", "sleep 30");
    let started = std::time::Instant::now();
    let output = ab(&python, &["--within", "1", "--arm", "none"]);
    // Ended as it ran, or not even begun where the machine is slow.
    fails(&output, 3, "INVALID");
    assert!(started.elapsed().as_secs() < 25, "it was not ended");
}

#[test]
fn what_a_process_has_started_ends_with_it() {
    let mark = Path::new(env!("CARGO_TARGET_TMPDIR")).join("orphan");
    let _ = fs::remove_file(&mark);
    let body = format!("(sleep 4; echo alive > {}) & sleep 30", mark.display());
    let output = ab(
        &interpreter("parent", &body),
        &["--timeout", "1", "--arm", "none"],
    );
    fails(&output, 3, "hung");
    std::thread::sleep(std::time::Duration::from_secs(5));
    assert!(!mark.exists(), "the child went on");
}

#[test]
fn a_knob_of_the_mock_has_no_meaning_in_an_ab() {
    let output = Command::new(cargo_bin!("mockspore"))
        .args(["ab", "node_abs_cache", "--set", "drops=7"])
        .output()
        .unwrap();
    fails(&output, 2, "knob 'drops' exists on the mock only");
}
