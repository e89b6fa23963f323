//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

/// Steps that a run may have at most.
const MAX_STEPS: u64 = 1_000_000_000;

/// Reproducers for host-memory lifetime defects, on a mock runtime and on the real framework.
#[derive(Debug, Parser)]
#[command(name = "mockspore", version, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the scenarios and their arms.
    List(List),
    /// Run scenarios on the mock and judge them.
    Run(Run),
    /// Run scenarios on the mock and on a real framework, side by side.
    Ab(Ab),
    /// Say who holds what in a scenario's arms.
    Explain(Explain),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) source: Source,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Source {
    /// Folder to read <NAME>/scenario.json from, instead of the built-in ones.
    #[arg(long, value_name = "DIR")]
    pub(crate) scenarios: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Explain {
    /// The scenario.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Only this arm (may be repeated).
    #[arg(long = "arm", value_name = "ARM")]
    pub(crate) arms: Vec<String>,
    #[command(flatten)]
    pub(crate) source: Source,
}

/// What `run` and `ab` share.
#[derive(Debug, ClapArgs)]
pub(crate) struct Common {
    /// Scenarios to run; all if none is named.
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Run only this arm (may be repeated).
    #[arg(long = "arm", value_name = "ARM")]
    pub(crate) arms: Vec<String>,
    /// Set a knob (may be repeated).
    #[arg(long = "set", value_name = "KNOB=VALUE", value_parser = assignment)]
    pub(crate) set: Vec<(String, String)>,
    /// Seed of the values; results do not depend on the clock.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// What to print on stdout.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// Also write the rows to <DIR>/<NAME>.jsonl.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) source: Source,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Steps of each run, 1 to 1000000000; the scenario's own if not given.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = steps)]
    pub(crate) steps: Option<u64>,
    /// One arm with every policy of a release (2.7.2, 2.8.0, 2.9.0, 2.10.0) or `fixed`.
    #[arg(long = "as", value_name = "VERSION", conflicts_with = "arms")]
    pub(crate) as_version: Option<String>,
    /// Also read jemalloc, `smaps_rollup` and glibc, as observation rows.
    #[arg(long)]
    pub(crate) probe: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Ab {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Interpreter that has the real framework.
    #[arg(long, value_name = "PY", default_value = "python3")]
    pub(crate) python: PathBuf,
    /// Device, of the framework and of the mock.
    #[arg(long, value_enum, default_value_t = DeviceArg::Cpu)]
    pub(crate) device: DeviceArg,
    /// Run the other arms too, one round each.
    #[arg(long)]
    pub(crate) all_arms: bool,
    /// Processes per arm; the scenario's own if not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=100))]
    pub(crate) rounds: Option<u64>,
    /// `clean` has no growth of its own; `report` is the reports' loop.
    #[arg(long, value_enum, default_value_t = Baseline::Clean)]
    pub(crate) baseline: Baseline,
    /// Seconds that one process may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: u64,
    /// Seconds that all processes may take together; what is left undone then is INVALID.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) within: Option<u64>,
}

impl Ab {
    /// What one process may take.
    pub(crate) fn time_limit(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    /// What a process may take that starts when `spent` is gone.
    pub(crate) fn time_left(&self, spent: Duration) -> Duration {
        let all = self.within.map_or(Duration::MAX, Duration::from_secs);
        self.time_limit().min(all.saturating_sub(spent))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for people.
    Table,
    /// JSON lines for machines.
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Baseline {
    Clean,
    Report,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeviceArg {
    #[value(name = "CPU", alias = "cpu")]
    Cpu,
    #[value(name = "Ascend", alias = "ascend")]
    Ascend,
}

impl DeviceArg {
    pub(crate) fn name(self) -> &'static str {
        self.device().name()
    }

    pub(crate) fn device(self) -> mockspore::Device {
        match self {
            Self::Cpu => mockspore::Device::Cpu,
            Self::Ascend => mockspore::Device::Ascend,
        }
    }
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let parts = text
        .split_once('=')
        .filter(|(name, value)| !name.is_empty() && !value.is_empty());
    let (name, value) = parts.ok_or("write it as KNOB=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn steps(text: &str) -> Result<u64, String> {
    let number = text.parse::<u64>().ok();
    let fits = number.filter(|steps| (1..=MAX_STEPS).contains(steps));
    fits.ok_or_else(|| format!("steps are a whole number from 1 to {MAX_STEPS}"))
}
