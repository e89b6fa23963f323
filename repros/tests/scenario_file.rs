//! A scenario's file that cannot be used: file, line, mend.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::PathBuf;

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
