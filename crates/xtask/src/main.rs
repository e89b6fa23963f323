//! `cargo xtask test`: every test, Rust, Python and real `MindSpore`.
//! `cargo xtask ci`: the same, then format, lints, docs, types.
//! `cargo xtask ab-full`: every arm on real `MindSpore`, and the reports' loop.
//! `cargo xtask speed`: the benchmarks, beside real libraries.
//! `cargo xtask soak`: a million fixed training steps on the mock.

mod environment;
mod speed;
mod steps;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::environment::Environments;
use crate::steps::{Error, Steps};

/// Seconds for one process of the A/B, and for all of them.
const AB_PROCESS_SECONDS: &str = "95";
const AB_SECONDS: &str = "780";
/// Variable with an interpreter that has `PyTorch`.
const TORCH_PYTHON: &str = "MOCKSPORE_TORCH_PYTHON";

#[derive(Debug, Parser)]
#[command(about = "Tests and checks of the whole project")]
struct Args {
    /// Folder for virtual environments; else the variable `MOCKSPORE_CACHE`, else the user's cache folder.
    #[arg(long, global = true, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Interpreter to make them with; else the first of python3.11, 3.12, 3.10.
    #[arg(long, global = true, value_name = "PY")]
    python: Option<PathBuf>,
    /// Release of the real framework.
    #[arg(long, global = true, value_name = "V", default_value = "2.10.0")]
    mindspore: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum Command {
    /// Run all tests, Rust, Python and real framework.
    Test,
    /// Run all tests, then the formatter, lints, docs and type checks.
    Ci,
    /// Run every arm on the real framework, and the reports' own loop.
    AbFull,
    /// Run the benchmarks of a step, and the same on real libraries.
    Speed,
    /// Run a million fixed training steps on the mock.
    Soak,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut steps = Steps::new(root);
    let outcome = run(&args, &mut steps);
    steps.summary();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args, steps: &mut Steps) -> Result<(), Error> {
    if matches!(args.command, Command::Soak) {
        let example = ["run", "--release", "-p", "repros", "--example", "soak"];
        return steps.run("soak", &mut steps.cargo(&example));
    }
    let environments = Environments::new(args.cache.as_deref(), args.python.as_deref())?;
    environments.announce();
    let mut lock = environments.lock()?;
    if lock.try_write().is_err() {
        println!("another run uses these environments: waiting for its end");
    }
    let _held = lock
        .write()
        .map_err(|error| Error::Wrong(format!("the lock: {error}")))?;
    match args.command {
        Command::Soak => Ok(()),
        Command::Speed => {
            let here = environment::has_mindspore_wheels();
            let mindspore = here.then(|| environments.mindspore(&args.mindspore));
            speed::speed(steps, mindspore.transpose()?.as_deref())
        }
        Command::Test => test(args, steps, &environments),
        Command::Ci => {
            test(args, steps, &environments)?;
            check(steps, &environments)
        }
        Command::AbFull => {
            rust_binary(steps)?;
            let wheel = environment::wheel(steps, &environments.dev()?)?;
            with_mindspore(args, steps, &environments, &wheel, |steps, python| {
                steps.run(
                    "ab, every arm",
                    &mut steps.mockspore(&["ab", "--all-arms", "--python", python]),
                )?;
                let report = [
                    "ab",
                    "hook_handle",
                    "--baseline",
                    "report",
                    "--python",
                    python,
                ];
                steps.run("ab, the reports' own loop", &mut steps.mockspore(&report))
            })
        }
    }
}

fn test(args: &Args, steps: &mut Steps, environments: &Environments) -> Result<(), Error> {
    steps.run("cargo test", &mut steps.cargo(&["test", "--workspace"]))?;
    rust_binary(steps)?;
    steps.twice_the_same("the main job", &["run", "--format", "json"])?;
    let dev = environments.dev()?;
    let wheel = environment::wheel(steps, &dev)?;
    environment::install(steps, &dev, &wheel)?;
    steps.run("pytest", &mut steps.python(&dev, &["-m", "pytest"]))?;
    with_torch(steps)?;
    with_mindspore(args, steps, environments, &wheel, |steps, python| {
        let parity = ["-m", "pytest", "-m", "mindspore"];
        steps.run(
            "parity with the real framework",
            &mut steps.python(Path::new(python), &parity),
        )?;
        steps.run(
            "ab",
            &mut steps.mockspore(&[
                "ab",
                "--timeout",
                AB_PROCESS_SECONDS,
                "--within",
                AB_SECONDS,
                "--python",
                python,
            ]),
        )
    })
}

/// Runs the findings on `PyTorch`, where the user names an interpreter that has
/// it: its wheel is too large to be fetched for this.
fn with_torch(steps: &mut Steps) -> Result<(), Error> {
    let Some(python) = env::var_os(TORCH_PYTHON).filter(|python| !python.is_empty()) else {
        let why = format!("optional: {TORCH_PYTHON} names an interpreter that has torch");
        steps.skip("findings on PyTorch", &why);
        return Ok(());
    };
    let python = python.to_string_lossy();
    let findings = ["moe_monitor_register", "ep_combine_handle"];
    let mut ab = steps.mockspore(&["ab", "--python", &python]);
    steps.run("findings on PyTorch", ab.args(findings))
}

fn rust_binary(steps: &mut Steps) -> Result<(), Error> {
    steps.run("the command", &mut steps.cargo(&["build", "--release"]))
}

/// Runs real-framework steps in an environment that has the extension too, or
/// reports loudly why this platform cannot.
fn with_mindspore(
    args: &Args,
    steps: &mut Steps,
    environments: &Environments,
    wheel: &Path,
    real: impl FnOnce(&mut Steps, &str) -> Result<(), Error>,
) -> Result<(), Error> {
    if !environment::has_mindspore_wheels() {
        let platform = format!("{}-{}", env::consts::OS, env::consts::ARCH);
        steps.skip(
            "real framework",
            &format!("there is no mindspore wheel for {platform}"),
        );
        return Ok(());
    }
    let python = environments.mindspore(&args.mindspore)?;
    environment::install(steps, &python, wheel)?;
    real(steps, &python.to_string_lossy())
}

fn check(steps: &mut Steps, environments: &Environments) -> Result<(), Error> {
    let dev = environments.dev()?;
    steps.run("rustfmt", &mut steps.cargo(&["fmt", "--all", "--check"]))?;
    let clippy = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    steps.run("clippy", &mut steps.cargo(&clippy))?;
    let without = [
        "check",
        "--package",
        "mockspore-cli",
        "--features",
        "system-alloc",
    ];
    steps.run("without jemalloc", &mut steps.cargo(&without))?;
    let mut docs = steps.cargo(&[
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
    ]);
    steps.run("docs", docs.env("RUSTDOCFLAGS", "-D warnings"))?;
    let checks: [(&str, &[&str]); 4] = [
        (
            "ruff format",
            &["-m", "ruff", "format", "--check", ".", "../repros"],
        ),
        ("ruff", &["-m", "ruff", "check", ".", "../repros"]),
        ("mypy", &["-m", "mypy"]),
        ("stubtest", &["-m", "mypy.stubtest", "mockspore._mockspore"]),
    ];
    for (name, arguments) in checks {
        steps.run(name, &mut steps.python(&dev, arguments))?;
    }
    steps.clean_tree()
}
