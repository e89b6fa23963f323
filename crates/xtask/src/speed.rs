//! `cargo xtask speed`: the mock's benchmarks beside real libraries, in one run.

use std::env;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::TORCH_PYTHON;
use crate::steps::{Error, Steps};

/// Benchmarks of the mock: what each is called here and by criterion.
const MOCK: [(&str, &str); 5] = [
    ("182 hooks and 133 applies", "step"),
    ("their blocks alone", "blocks_of_step"),
    ("seed301 step, 1 rank", "seed301_step/ranks/1"),
    ("seed301 step, 2 ranks", "seed301_step/ranks/2"),
    ("seed301 step, 8 ranks", "seed301_step/ranks/8"),
];

/// Runs the benchmarks, then the same chain on each library that is here.
pub(crate) fn speed(steps: &mut Steps, mindspore: Option<&Path>) -> Result<(), Error> {
    for bench in ["step", "hsdp"] {
        let arguments = ["bench", "-p", "mockspore", "--bench", bench];
        steps.run(bench, &mut steps.cargo(&arguments))?;
    }
    let mut lines = Vec::new();
    for (name, id) in MOCK {
        lines.push((name.to_owned(), estimate(steps.root(), id)?));
    }
    let mock = lines[0].1;
    let torch = env::var_os(TORCH_PYTHON).filter(|python| !python.is_empty());
    let real = [
        ("mindspore", mindspore),
        ("mindspore_synchronized", mindspore),
        ("torch", torch.as_ref().map(Path::new)),
    ];
    for (library, python) in real {
        let Some(python) = python else {
            steps.skip(library, "no interpreter that has it");
            continue;
        };
        let name = format!("182 hooks and 133 applies, {library}");
        lines.push((name, chain(steps, python, library)?));
    }
    println!("\n| what | us | against the mock's chain |\n|---|---|---|");
    for (name, us) in lines {
        println!("| {name} | {us:.1} | {:.2} |", us / mock);
    }
    Ok(())
}

/// Criterion's median in microseconds.
fn estimate(root: &Path, id: &str) -> Result<f64, Error> {
    let path = root
        .join("target/criterion")
        .join(id)
        .join("new/estimates.json");
    let wrong = |why: String| Error::Wrong(format!("{}: {why}", path.display()));
    let text = fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
    let all: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let median = all["median"]["point_estimate"].as_f64();
    let median = median.ok_or_else(|| wrong("there is no median".to_owned()))?;
    Ok(median / 1e3)
}

/// One step of the chain on a real library, in microseconds.
fn chain(steps: &Steps, python: &Path, library: &str) -> Result<f64, Error> {
    let script = steps.root().join("crates/mockspore/benches/step.py");
    let script = script.to_string_lossy();
    let output = steps.python(python, &[&script, library]).output();
    let output = output.map_err(|source| Error::Start {
        step: library.to_owned(),
        source,
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text
        .lines()
        .last()
        .and_then(|line| line.trim().parse().ok());
    let wrong = || {
        let words = String::from_utf8_lossy(&output.stderr);
        Error::Wrong(format!("{library} printed no time:\n{words}"))
    };
    last.ok_or_else(wrong)
}
