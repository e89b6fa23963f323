//! The `mockspore` command.
//!
//! Exit codes, first that applies: 2 bad usage or input, 3 invalid
//! measurement, 1 a verdict or model differs from the expectation, 0.

mod args;
mod child;
mod commands;
mod error;
mod findings;
mod ladder;
mod notes;
mod output;
mod processes;
mod report_baseline;
mod script;
mod table;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};
use crate::error::Error;
use crate::output::Outcome;

#[cfg(not(feature = "system-alloc"))]
#[global_allocator]
static ALLOCATOR: jemallocator::Jemalloc = jemallocator::Jemalloc;

/// One arena and no background thread: with them `stats.*` is exact after a
/// flush of the thread cache. A reference to bytes has the pointer's shape.
#[cfg(not(feature = "system-alloc"))]
#[allow(unsafe_code, reason = "jemalloc reads its options from this symbol")]
#[unsafe(export_name = "_rjem_malloc_conf")]
static MALLOC_CONF: &[u8; 34] = b"narenas:1,background_thread:false\0";

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match args.command {
        Command::List(list) => commands::list::list(&list),
        Command::Run(run) => commands::run::run(&run),
        Command::Ab(ab) => commands::ab::ab(&ab),
        Command::Explain(explain) => commands::explain::explain(&explain),
    };
    match outcome {
        Ok(Outcome::AsExpected) | Err(Error::ClosedStdout) => ExitCode::SUCCESS,
        Ok(Outcome::Differs) => ExitCode::from(1),
        Ok(Outcome::Invalid) => ExitCode::from(3),
        Err(error) => {
            eprintln!("mockspore: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
