//! The command, run as a user runs it.

use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;

pub(crate) fn mockspore(args: &[&str]) -> Output {
    Command::new(cargo_bin!("mockspore"))
        .args(args)
        .output()
        .unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs a request that must be refused; its message.
pub(crate) fn refused(args: &[&str]) -> String {
    let output = mockspore(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?} printed results");
    text(&output.stderr)
}
