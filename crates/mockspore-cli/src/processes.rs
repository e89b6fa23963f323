//! The processes of `ab`: which run, in which order, with which arguments.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use mockspore_growth::report::Row;
use repros::real::{Process, Window};
use repros::scenario::{Arm, Scenario};

use crate::args::{Ab, Baseline};
use crate::child::Script;
use crate::error::Error;
use crate::output;

/// Exit code of a measurement that cannot be trusted.
const INVALID: u8 = 3;

/// How often, and for how many steps, the script is run.
#[derive(Clone)]
pub(crate) struct Plan {
    baseline: Baseline,
    warmup: u64,
    steps: u64,
    every: u64,
    pub(crate) rounds: u64,
    pub(crate) set: Vec<(String, String)>,
}

/// An arm with the number of processes it gets.
pub(crate) type Rounds<'a> = Vec<(&'a Arm, u64)>;

/// The processes of each arm in round order, or why one of them is unusable.
pub(crate) type ByArm = BTreeMap<String, Result<Vec<Process>, String>>;

impl Plan {
    /// The scenario's plan with what the command line changes.
    ///
    /// # Errors
    /// [`Error::Usage`] if the scenario lacks the baseline asked for.
    pub(crate) fn new(args: &Ab, scenario: &Scenario) -> Result<Self, Error> {
        let real = &scenario.real;
        let mut set = args.common.set.clone();
        let mock_only = |name: &String| {
            let knob = scenario.knobs.get(name);
            knob.is_some_and(|knob| knob.get("mock_only").is_some())
        };
        if let Some((knob, _)) = set.iter().find(|(name, _)| mock_only(name)) {
            return Err(Error::Usage(format!(
                "knob '{knob}' exists on the mock only: it has no meaning in an A/B"
            )));
        }
        let (warmup, steps, every, rounds) = match (args.baseline, &real.report_baseline) {
            (Baseline::Clean, _) => (real.warmup, real.steps, real.every, real.rounds),
            (Baseline::Report, Some(report)) => {
                let own = report
                    .set
                    .iter()
                    .map(|(name, value)| (name.clone(), value.to_string()));
                if let Some((knob, _)) = set.iter().find(|(name, _)| report.set.contains_key(name))
                {
                    return Err(Error::Usage(format!(
                        "the reports' own loop fixes '{knob}'"
                    )));
                }
                set.extend(own);
                (report.warmup, report.steps, report.every, report.rounds)
            }
            (Baseline::Report, None) => {
                let name = &scenario.name;
                return Err(Error::Usage(format!(
                    "scenario '{name}' has no report baseline"
                )));
            }
        };
        add(&mut set, real.set());
        Ok(Self {
            baseline: args.baseline,
            warmup,
            steps,
            every,
            rounds: args.rounds.unwrap_or(rounds),
            set,
        })
    }

    /// The same plan where the script runs on the mock.
    pub(crate) fn on_mock(&self, scenario: &Scenario) -> Self {
        let mut plan = self.clone();
        let own = scenario.real.set_on_mock();
        plan.set
            .retain(|(name, _)| own.iter().all(|(other, _)| other != name));
        add(&mut plan.set, own);
        plan
    }

    /// The same by name; the scenario's own if there is no such arm.
    pub(crate) fn window_of(&self, scenario: &Scenario, arm: &str) -> Window {
        let arm = scenario.arm(arm).unwrap_or(&scenario.arms[0]);
        self.window(arm)
    }

    /// The steps between which a process of `arm` reads.
    pub(crate) fn window(&self, arm: &Arm) -> Window {
        let own = arm.real.as_ref().and_then(|real| real.plan);
        let own = own.filter(|_| self.baseline == Baseline::Clean);
        let (warmup, steps, every) = own.map_or((self.warmup, self.steps, self.every), |own| {
            (own.warmup, own.steps, own.every)
        });
        Window {
            from: warmup,
            to: warmup + steps,
            every,
        }
    }
}

/// Adds knobs that are not set yet.
fn add(set: &mut Vec<(String, String)>, more: Vec<(String, String)>) {
    for (name, value) in more {
        if !set.iter().any(|(own, _)| *own == name) {
            set.push((name, value));
        }
    }
}

/// The control first, then the primary arms or, if asked, all that are real.
///
/// # Errors
/// [`Error::Usage`] for a named arm without a real counterpart.
pub(crate) fn rounds<'a>(
    args: &Ab,
    scenario: &'a Scenario,
    plan: &Plan,
    chosen: &'a [Arm],
) -> Result<Rounds<'a>, Error> {
    let mut arms = vec![(scenario.arm(&scenario.real.control)?, plan.rounds)];
    let named = !args.common.arms.is_empty();
    let report = scenario.real.report_baseline.as_ref();
    let in_loop = |arm: &Arm| report.is_none_or(|report| report.arms.contains(&arm.name));
    for arm in chosen {
        let Some(real) = &arm.real else {
            if named {
                let name = &arm.name;
                return Err(Error::Usage(format!(
                    "arm '{name}' has no real counterpart"
                )));
            }
            continue;
        };
        if real.unsupported_on.contains(&args.device.device()) {
            let (name, device) = (&arm.name, args.device.name());
            let what = format!("{}/{name}: unsupported on {device}", scenario.name);
            if named {
                return Err(Error::Invalid(format!("{what}, which is no pass")));
            }
            eprintln!("{what}, not run");
            continue;
        }
        let listed = arms.iter().any(|(other, _)| other.name == arm.name);
        if args.baseline == Baseline::Report && !in_loop(arm) {
            if named {
                let name = &arm.name;
                return Err(Error::Usage(format!(
                    "the reports' own loop has no arm '{name}'"
                )));
            }
        } else if !listed && (real.primary || named) {
            arms.push((arm, plan.rounds));
        } else if !listed && args.all_arms {
            // The windows of a saw-tooth are no pairs: it takes whole runs.
            let rounds = real.falls.map_or(1, |_| plan.rounds);
            arms.push((arm, rounds));
        }
    }
    Ok(arms)
}

/// Runs the processes round by round, the order rotated in each.
///
/// # Errors
/// [`Error::Usage`] if the interpreter or its framework is not there. A
/// measurement that cannot be trusted ends its own arm only.
pub(crate) fn run_rounds(
    source: &Source<'_>,
    scenario: &Scenario,
    arms: &Rounds<'_>,
    rows: &mut Vec<Row>,
) -> Result<ByArm, Error> {
    let total: u64 = arms.iter().map(|(_, rounds)| rounds).sum();
    let progress = output::progress(total as usize);
    let mut processes = ByArm::new();
    for round in 0..source.plan.rounds {
        let mut order: Vec<&Arm> = arms
            .iter()
            .filter(|&&(_, rounds)| round < rounds)
            .map(|&(arm, _)| arm)
            .collect();
        let shift = round as usize % order.len().max(1);
        order.rotate_left(shift);
        for arm in order {
            let so_far = processes.entry(arm.name.clone()).or_insert(Ok(Vec::new()));
            let Ok(usable) = so_far else { continue };
            progress.set_message(format!(
                "{}/{} round {}",
                scenario.name,
                arm.name,
                round + 1
            ));
            progress.tick();
            let written = one_process(source, arm);
            progress.inc(1);
            let process = written.and_then(|written| {
                rows.extend(written.iter().cloned());
                Ok(Process::new(
                    scenario,
                    arm,
                    source.plan.window(arm),
                    written,
                )?)
            });
            match process {
                Ok(process) => usable.push(process),
                // The other arms go on: one bad process must not lose them.
                Err(error) if error.exit_code() == INVALID => *so_far = Err(error.to_string()),
                Err(error) => return Err(error),
            }
        }
    }
    progress.finish_and_clear();
    Ok(processes)
}

/// What every process of an `ab` run has in common.
pub(crate) struct Source<'a> {
    pub(crate) args: &'a Ab,
    pub(crate) script: &'a Path,
    pub(crate) plan: &'a Plan,
    pub(crate) backend: &'a str,
    /// When the first process of all scenarios was started.
    pub(crate) started: Instant,
}

fn one_process(source: &Source<'_>, arm: &Arm) -> Result<Vec<Row>, Error> {
    let Source {
        args, script, plan, ..
    } = source;
    let window = plan.window(arm);
    let timeout = args.time_left(source.started.elapsed());
    if timeout.is_zero() {
        let why = "not started: the time of all processes (--within) is used up";
        return Err(Error::Invalid(why.to_owned()));
    }
    let dir = tempfile::tempdir().map_err(Error::file("a temporary folder"))?;
    let mut options = vec![
        ("--backend", source.backend.to_owned()),
        ("--device", args.device.name().to_owned()),
        ("--arm", arm.name.clone()),
        ("--steps", (window.to - window.from).to_string()),
        ("--every", window.every.to_string()),
        ("--warmup", window.from.to_string()),
        ("--seed", args.common.seed.to_string()),
    ];
    if args.baseline == Baseline::Report {
        // With the queues on, as the reports ran it.
        options.push(("--baseline", "report".to_owned()));
        options.push(("--pipeline", "async".to_owned()));
    }
    options.extend(
        plan.set
            .iter()
            .map(|(name, value)| ("--set", format!("{name}={value}"))),
    );
    let run = Script {
        python: &args.python,
        path: script,
        args: options
            .into_iter()
            .flat_map(|(name, value)| [name.to_owned(), value])
            .collect(),
        timeout,
    };
    run.run(dir.path())
}
