//! Steps: named commands with a header each, and a summary.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Instant;

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A command that ended with an error.
    #[error("{step} failed ({status})")]
    Failed {
        /// The step.
        step: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// A command that could not be started.
    #[error("cannot start {step}: {source}")]
    Start {
        /// The step.
        step: String,
        /// Why.
        source: io::Error,
    },
    /// Something that is not as it must be.
    #[error("{0}")]
    Wrong(String),
    /// A file or folder that cannot be used.
    #[error("{}: {source}", path.display())]
    File {
        /// The place.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Runs steps in the checkout and keeps account of them.
#[derive(Debug)]
pub(crate) struct Steps {
    root: PathBuf,
    passed: u32,
    failed: u32,
    skipped: Vec<String>,
}

impl Steps {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self {
            root,
            passed: 0,
            failed: 0,
            skipped: Vec::new(),
        }
    }

    /// The checkout.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Runs a command under a header, with its time.
    pub(crate) fn run(&mut self, step: &str, command: &mut Command) -> Result<(), Error> {
        println!("\n=== {step}");
        let started = Instant::now();
        let status = command.status();
        let seconds = started.elapsed().as_secs_f64();
        let outcome = match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Error::Failed {
                step: step.to_owned(),
                status,
            }),
            Err(source) => Err(Error::Start {
                step: step.to_owned(),
                source,
            }),
        };
        println!(
            "=== {step}: {} in {seconds:.1} s",
            if outcome.is_ok() { "passed" } else { "FAILED" }
        );
        self.count(&outcome);
        outcome
    }

    /// Runs the `mockspore` command twice and compares the bytes.
    pub(crate) fn twice_the_same(&mut self, step: &str, arguments: &[&str]) -> Result<(), Error> {
        println!("\n=== {step}, twice");
        let once = || {
            let output = self.mockspore(arguments).output();
            output.map_err(|source| Error::Start {
                step: step.to_owned(),
                source,
            })
        };
        let (first, second) = (once()?, once()?);
        let outcome = if !first.status.success() {
            Err(Error::Failed {
                step: step.to_owned(),
                status: first.status,
            })
        } else if first.stdout.is_empty() || first.stdout != second.stdout {
            Err(Error::Wrong(format!("{step}: two runs differ")))
        } else {
            println!("=== {step}: {} bytes, identical", first.stdout.len());
            Ok(())
        };
        self.count(&outcome);
        outcome
    }

    /// Reports a step that this platform cannot run.
    pub(crate) fn skip(&mut self, step: &str, why: &str) {
        println!("\n=== {step}: SKIPPED, {why}");
        self.skipped.push(format!("{step}: {why}"));
    }

    /// Fails if the tests left anything behind in the checkout.
    pub(crate) fn clean_tree(&mut self) -> Result<(), Error> {
        println!("\n=== the tree is clean");
        let mut git = Command::new("git");
        let output = git
            .args(["status", "--porcelain"])
            .current_dir(&self.root)
            .output();
        let outcome = match output {
            Ok(output) if output.status.success() && output.stdout.is_empty() => Ok(()),
            Ok(output) if output.status.success() => {
                let left = String::from_utf8_lossy(&output.stdout).into_owned();
                Err(Error::Wrong(format!(
                    "the tree is dirty after the tests:\n{left}"
                )))
            }
            Ok(output) => Err(Error::Failed {
                step: "git status".to_owned(),
                status: output.status,
            }),
            Err(source) => Err(Error::Start {
                step: "git".to_owned(),
                source,
            }),
        };
        self.count(&outcome);
        outcome
    }

    /// Prints what was run, and once more what was not.
    pub(crate) fn summary(&self) {
        println!();
        for skipped in &self.skipped {
            println!("SKIPPED {skipped}");
        }
        let (passed, failed, skipped) = (self.passed, self.failed, self.skipped.len());
        println!("steps: {passed} passed, {failed} failed, {skipped} skipped");
    }

    /// Cargo in the checkout.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO"));
        command.args(arguments).current_dir(&self.root);
        command
    }

    /// The built `mockspore` command.
    pub(crate) fn mockspore(&self, arguments: &[&str]) -> Command {
        let run = [
            "run",
            "--quiet",
            "--release",
            "--package",
            "mockspore-cli",
            "--",
        ];
        let mut command = self.cargo(&run);
        command.args(arguments);
        command
    }

    /// An interpreter in the folder of the Python package.
    pub(crate) fn python(&self, python: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(python);
        command
            .args(arguments)
            .current_dir(self.root.join("python"))
            // Neither caches nor bytecode belong into the checkout.
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("GLOG_v", "3");
        command
    }

    fn count(&mut self, outcome: &Result<(), Error>) {
        match outcome {
            Ok(()) => self.passed += 1,
            Err(_) => self.failed += 1,
        }
    }
}
