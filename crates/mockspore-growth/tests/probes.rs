//! A probe that cannot read is an error, never a 0.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};

use mockspore_growth::probe::jemalloc::Heap;
use mockspore_growth::probe::process;
use mockspore_growth::protocol::{Grid, Recorder};
use mockspore_growth::{Counters, report};

fn scratch(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn without_jemalloc_as_the_allocator_the_heap_probe_refuses() {
    // This test binary has the system's allocator.
    let message = Heap::open().unwrap_err().to_string();
    assert!(
        message.contains("jemalloc is not the global allocator here"),
        "{message}"
    );
}

#[test]
fn a_process_that_cannot_be_read_is_an_error() {
    let message = process::read(Path::new("/proc/0/smaps_rollup"))
        .unwrap_err()
        .to_string();
    assert!(
        message.starts_with("cannot read smaps_rollup: /proc/0/smaps_rollup"),
        "{message}"
    );
    let lacking = scratch("smaps-lacking", "Rss: 12 kB\n");
    let message = process::read(&lacking).unwrap_err().to_string();
    assert!(message.ends_with("no field Anonymous:"), "{message}");
    let garbled = scratch("smaps-garbled", "Rss: x kB\nAnonymous: 4 kB\n");
    assert!(
        process::read(&garbled)
            .unwrap_err()
            .to_string()
            .ends_with("no field Rss:")
    );
    let good = scratch("smaps-good", "Rss: 12 kB\nAnonymous: 4 kB\n");
    let memory = process::read(&good).unwrap();
    assert_eq!((memory.rss, memory.anon), (12 * 1024, 4 * 1024));
}

struct Nothing;

impl Counters for Nothing {
    fn live(&self, _: &str) -> Option<u64> {
        None
    }

    fn live_bytes(&self, _: &str) -> Option<u64> {
        None
    }

    fn for_each_size(&self, _: &mut dyn FnMut(usize, u64)) {}
}

#[test]
fn a_counter_that_does_not_exist_and_a_missed_reading_are_errors() {
    let mut recorder = Recorder::new(vec!["ghost".to_owned()], None, Grid::new(4, 2));
    recorder.base(&Nothing);
    let message = recorder.after(2, &Nothing).unwrap_err().to_string();
    assert_eq!(
        message,
        "cannot read objects: the runtime does not count 'ghost'"
    );
    let message = recorder.into_series().unwrap_err().to_string();
    assert_eq!(message, "0 of 2 readings were taken");
}

#[test]
fn a_bad_line_of_a_result_file_is_named() {
    let good = r#"{"schema_version":1,"record":"sample","scenario":"s","arm":"a","backend":"b","step":1,"phase":"after_step","metrics":{}}"#;
    let message = |name: &str, second: &str| {
        let path = scratch(name, &format!("{good}\n{second}\n"));
        let message = report::read(&path).unwrap_err().to_string();
        let place = format!("{}:2: ", path.display());
        assert!(message.starts_with(&place), "{message}");
        message[place.len()..].to_owned()
    };
    assert!(
        message("cut.jsonl", &good[..60]).ends_with("the line is cut off: run again, or delete it")
    );
    assert!(
        message("text.jsonl", "GLOG says hello").ends_with("each line must be one JSON object")
    );
    assert!(
        message("version.jsonl", r#"{"schema_version":2}"#).starts_with("schema_version is not 1")
    );
    let unknown = message("record.jsonl", r#"{"schema_version":1,"record":"riddle"}"#);
    assert!(unknown.contains("unknown variant `riddle`"), "{unknown}");
    let missing = report::read(Path::new("/nonexistent/rows.jsonl"))
        .unwrap_err()
        .to_string();
    assert!(
        missing.starts_with("/nonexistent/rows.jsonl:1: "),
        "{missing}"
    );
}
