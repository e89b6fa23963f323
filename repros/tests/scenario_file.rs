//! A scenario's file that cannot be used: file, line, mend.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::PathBuf;

use mockspore::Device;
use mockspore_growth::Verdict;
use repros::Error;
use repros::scenario::Scenario;

const GOOD: &str = include_str!("../hook_handle/scenario.json");

fn parse(text: &str) -> Result<Scenario, Error> {
    Scenario::parse("hook_handle", PathBuf::from("some/scenario.json"), text)
}

/// The message, and the line of the first place where `needle` stands.
fn message(text: &str) -> String {
    parse(text).expect_err("the file is bad").to_string()
}

fn line_of(needle: &str) -> usize {
    let at = GOOD.find(needle).expect("the needle is in the file");
    GOOD[..at].lines().count()
}

#[test]
fn the_shipped_file_is_good() {
    assert_eq!(parse(GOOD).unwrap().name, "hook_handle");
}

#[test]
fn a_truncated_file_says_that_it_is_cut_off() {
    let cut = GOOD[..GOOD.len() / 2].trim_end();
    let message = message(cut);
    let line = cut.lines().count();
    assert!(
        message.starts_with(&format!("some/scenario.json:{line}:")),
        "{message}"
    );
    assert!(
        message.ends_with("the file is cut off: restore it"),
        "{message}"
    );
}

#[test]
fn an_unknown_field_is_named_with_its_line() {
    let message = message(&GOOD.replacen("\"title\"", "\"titel\"", 1));
    let line = line_of("\"title\"");
    assert!(
        message.starts_with(&format!("some/scenario.json:{line}: unknown field `titel`")),
        "{message}"
    );
}

#[test]
fn a_policy_that_does_not_exist_is_found_in_its_arm() {
    let message = message(&GOOD.replacen("erases_with_node\"}", "erases\"}", 1));
    assert!(
        message.contains("arm 'erased_with_node': unknown variant `erases`"),
        "{message}"
    );
}

#[test]
fn a_control_that_is_no_arm_gets_the_near_match() {
    let message = message(&GOOD.replacen("\"control\": \"none\"", "\"control\": \"non\"", 1));
    assert!(
        message.contains("unknown arm 'non': did you mean 'none'?"),
        "{message}"
    );
}

#[test]
fn a_knob_value_out_of_range_is_refused() {
    let message = message(&GOOD.replacen("\"default\": 182", "\"default\": 0", 1));
    assert!(
        message
            .contains("knob 'hooks_per_step' cannot be '0': it is a whole number from 1 to 100000"),
        "{message}"
    );
}

#[test]
fn a_kept_kind_without_a_size_is_refused() {
    let message = message(&GOOD.replacen("\"control_block\": 32, ", "", 1));
    assert!(
        message.contains("keeps 'control_block', which block_bytes lacks"),
        "{message}"
    );
}

#[test]
fn another_schema_version_or_name_is_refused() {
    assert!(
        message(&GOOD.replacen("\"schema_version\": 1", "\"schema_version\": 2", 1))
            .contains("must be 1")
    );
    let renamed = GOOD.replacen("\"name\": \"hook_handle\"", "\"name\": \"hook\"", 1);
    assert!(message(&renamed).contains("the name must be its folder's, 'hook_handle'"));
}

#[test]
fn what_would_switch_a_check_off_is_refused() {
    let rounds = message(&GOOD.replacen("\"rounds\": 3", "\"rounds\": 0", 1));
    assert!(rounds.contains("at least 2 rounds"), "{rounds}");
    let primary = message(&GOOD.replacen(
        "\"primary\": \"hook_entry\"",
        "\"primary\": \"hook_entri\"",
        1,
    ));
    assert!(
        primary.contains("block_bytes lacks 'hook_entri'"),
        "{primary}"
    );
    let twice = message(&GOOD.replacen(
        "\"name\": \"leaf_removed\"",
        "\"name\": \"leaf_dropped\"",
        1,
    ));
    assert!(twice.contains("two arms have one name"), "{twice}");
    let figure = message(&GOOD.replacen("{\"arm\": \"dropped\"", "{\"arm\": \"droped\"", 1));
    assert!(
        figure.contains("unknown arm 'droped': did you mean 'dropped'?"),
        "{figure}"
    );
}

const COLLECTIVES: &str = include_str!("../collective_event/scenario.json");

fn collectives(from: &str, to: &str) -> String {
    assert!(COLLECTIVES.contains(from), "{from}");
    let text = COLLECTIVES.replacen(from, to, 1);
    let parsed = Scenario::parse(
        "collective_event",
        PathBuf::from("some/scenario.json"),
        &text,
    );
    parsed.expect_err("the file is bad").to_string()
}

#[test]
fn what_names_nothing_that_exists_is_refused() {
    for (from, to, why) in [
        (
            r#""ranks": "ranks""#,
            r#""ranks": "rank""#,
            "'rank' must be an integer knob",
        ),
        (
            r#""knob": "acl_residue_bytes""#,
            r#""knob": "residue""#,
            "'residue' must be an integer knob",
        ),
        (
            r#""kind": "retired_events""#,
            r#""kind": "retired""#,
            "the runtime counts no 'retired'",
        ),
        (
            r#""threshold": "threshold""#,
            r#""threshold": "cap""#,
            "'cap' must be an integer knob",
        ),
        (
            r#"{"device_events": {"per_step": 1}}"#,
            r#"{"events": {"per_step": 1}}"#,
            "a peak of 'events'",
        ),
        (
            r#""counts_per_call": {"hazards.destroyed_before_completion": 1}"#,
            r#""counts_per_call": {"hazards.early": 1}"#,
            "counts 'hazards.early', which counters lacks",
        ),
        (
            r#""first_of_step_does_not": {"hazards.reused_before_completion": 1}"#,
            r#""first_of_step_does_not": {"hazards.reused_before_completion": 2}"#,
            "more calls do not count",
        ),
        (
            r#""plan": {"steps": 60, "samples": 60}"#,
            r#""plan": {"steps": 0, "samples": 60}"#,
            "at least 1",
        ),
        (
            r#""warmup": 21, "steps": 30, "every": 1"#,
            r#""warmup": 21, "steps": 30, "every": 7"#,
            "a multiple of every",
        ),
    ] {
        let message = collectives(from, to);
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn what_is_expected_depends_on_device_and_release() {
    let path = PathBuf::from("scenario.json");
    let scenario = Scenario::parse("collective_event", path, COLLECTIVES).unwrap();
    let real = scenario.arm("sync").unwrap().real.clone().unwrap();
    let verdict = |version, device| real.of(version, device).0;
    assert_eq!(verdict("2.10.0", Device::Cpu), Verdict::Plateau);
    assert_eq!(verdict("2.10.0", Device::Ascend), Verdict::Growth);
    assert_eq!(verdict("2.9.0", Device::Ascend), Verdict::Plateau);
}
