//! Whether a process shows the saw-tooth that is declared.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use mockspore_growth::report::{Row, Run, Sample};
use repros::real::{Process, Window};
use repros::registry::Entry;
use repros::scenario::Falls;
use serde_json::{Map, json};

const DECLARED: Falls = Falls {
    period: 2500,
    bytes: [2_900_000.0, 3_300_000.0],
};

/// Readings every 500 calls: 1,290 B a call, falling by `size` every `period` calls.
fn process(period: u64, size: f64) -> Process {
    let scenario = Entry::find("node_abs_cache")
        .unwrap()
        .scenario(None)
        .unwrap();
    let arm = scenario.arm("bounded").unwrap();
    let mut knobs = Map::new();
    knobs.insert("norms_per_step".to_owned(), 500.into());
    let mut rows = vec![Row::Run(Run {
        scenario: "node_abs_cache".to_owned(),
        arm: "bounded".to_owned(),
        role: "bounded".to_owned(),
        backend: "mindspore".to_owned(),
        version: "2.10.0".to_owned(),
        mockspore_version: "0.1.0".to_owned(),
        device: "CPU".to_owned(),
        seed: 1,
        knobs,
        steps: 20,
    })];
    rows.extend((0..=20_u64).map(|step| {
        let calls = 500 * step;
        let value = 1290.0 * calls as f64 - size * (calls / period) as f64;
        let mut metrics = Map::new();
        metrics.insert("libc.malloc_inuse".to_owned(), json!(value));
        Row::Sample(Sample {
            scenario: "node_abs_cache".to_owned(),
            arm: "bounded".to_owned(),
            backend: "mindspore".to_owned(),
            step,
            phase: "after_step".to_owned(),
            metrics,
        })
    }));
    let window = Window {
        from: 11,
        to: 31,
        every: 1,
    };
    Process::new(&scenario, arm, window, rows).unwrap()
}

fn shows(period: u64, size: f64) -> bool {
    process(period, size)
        .shows("libc.malloc_inuse", DECLARED)
        .unwrap()
}

#[test]
fn falls_of_the_declared_size_and_period_are_shown() {
    assert!(shows(2500, 3_100_000.0));
}

#[test]
fn too_small_too_large_too_rare_or_no_falls_are_not() {
    assert!(!shows(2500, 1_600_000.0));
    assert!(!shows(2500, 4_000_000.0));
    assert!(!shows(5000, 3_100_000.0));
    assert!(!shows(1000, 3_100_000.0));
    assert!(!shows(1_000_000, 0.0));
}
