//! `mockspore ab`: the mock in this process, a real framework in fresh ones.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mockspore_growth::report::{Compare, Row};
use repros::real::{self, Process};
use repros::registry::Entry;
use repros::runner::Request;
use repros::scenario::{Arm, Scenario};

use crate::args::{Ab, Baseline, Format};
use crate::child::Script;
use crate::commands::{run, scenarios};
use crate::error::Error;
use crate::output::{self, Outcome, print};
use crate::table;

/// Exit code of a measurement that cannot be trusted.
const INVALID: u8 = 3;

/// How often, and for how many steps, the script is run.
struct Plan {
    warmup: u64,
    steps: u64,
    every: u64,
    rounds: u64,
    set: Vec<(String, String)>,
}

/// An arm with the number of processes it gets.
type Rounds<'a> = Vec<(&'a Arm, u64)>;

/// The processes of each arm in round order, or why one of them is unusable.
type ByArm = BTreeMap<String, Result<Vec<Process>, String>>;

/// Runs both sides and prints them beside each other.
pub(crate) fn ab(args: &Ab) -> Result<Outcome, Error> {
    let common = &args.common;
    let mut all = Vec::new();
    for (entry, scenario) in scenarios(&common.names, common.source.scenarios.as_deref())? {
        let script = script_path(&scenario.name, common.source.scenarios.as_deref())?;
        let plan = plan(args, &scenario)?;
        let chosen = run::chosen(&scenario, &common.arms)?;
        let arms = rounds(args, &scenario, &plan, &chosen)?;
        let mut rows = mock_rows(args, entry, &scenario, &arms)?;
        let processes = real_rows(args, &script, &plan, &scenario, &arms, &mut rows)?;
        let compared = compare(args, &scenario, &arms, &processes);
        rows.extend(compared.iter().cloned().map(Row::Compare));
        if let Some(dir) = &common.out {
            output::save(dir, &format!("{}.ab", scenario.name), &rows)?;
        }
        match common.format {
            Format::Json => print(&output::lines(&rows)?)?,
            Format::Table => {
                print(&table::ab(&scenario, &rows, &compared))?;
                if args.baseline == Baseline::Report {
                    print(&anon(&scenario, &arms, &processes))?;
                }
            }
        }
        all.extend(rows);
    }
    eprint!("{}", table::complaints(&all));
    Ok(Outcome::of(&all))
}

fn plan(args: &Ab, scenario: &Scenario) -> Result<Plan, Error> {
    let real = &scenario.real;
    let mut set = args.common.set.clone();
    let (warmup, steps, every, rounds) = match (args.baseline, &real.report_baseline) {
        (Baseline::Clean, _) => (real.warmup, real.steps, real.every, real.rounds),
        (Baseline::Report, Some(report)) => {
            let own = report.set.iter().map(|(name, value)| (name.clone(), value.to_string()));
            set.splice(0..0, own);
            (report.warmup, report.steps, report.every, report.rounds)
        }
        (Baseline::Report, None) => {
            let name = &scenario.name;
            return Err(Error::Usage(format!("scenario '{name}' has no report baseline")));
        }
    };
    Ok(Plan {
        warmup,
        steps,
        every,
        rounds: args.rounds.unwrap_or(rounds),
        set,
    })
}

/// The control first, then the primary arms or, if asked, all that are real.
fn rounds<'a>(
    args: &Ab,
    scenario: &'a Scenario,
    plan: &Plan,
    chosen: &'a [Arm],
) -> Result<Rounds<'a>, Error> {
    let mut arms = vec![(scenario.arm(&scenario.real.control)?, plan.rounds)];
    for arm in chosen {
        let named = !args.common.arms.is_empty();
        match &arm.real {
            None if named => {
                let name = &arm.name;
                return Err(Error::Usage(format!("arm '{name}' has no real counterpart")));
            }
            Some(_) if arm.name == scenario.real.control => {}
            Some(real) if real.primary || named => arms.push((arm, plan.rounds)),
            Some(_) if args.all_arms => arms.push((arm, 1)),
            _ => {}
        }
    }
    Ok(arms)
}

fn mock_rows(
    args: &Ab,
    entry: Entry,
    scenario: &Scenario,
    arms: &Rounds<'_>,
) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for (arm, _) in arms {
        let mut request = Request::arm(scenario, arm, &args.common.set)?;
        request.device = args.device.device();
        request.seed = args.common.seed;
        rows.extend(run::run_arm(entry, scenario, arm, &request, false)?);
    }
    Ok(rows)
}

/// Runs the processes round by round, the order rotated in each.
fn real_rows(
    args: &Ab,
    script: &Path,
    plan: &Plan,
    scenario: &Scenario,
    arms: &Rounds<'_>,
    rows: &mut Vec<Row>,
) -> Result<ByArm, Error> {
    let total: u64 = arms.iter().map(|(_, rounds)| rounds).sum();
    let progress = run::progress(total as usize);
    let mut processes = ByArm::new();
    for round in 0..plan.rounds {
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
            progress.set_message(format!("{}/{} round {}", scenario.name, arm.name, round + 1));
            progress.tick();
            let written = one_process(args, script, plan, arm);
            progress.inc(1);
            let process = written.and_then(|written| {
                rows.extend(written.iter().cloned());
                Ok(Process::new(scenario, written)?)
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

fn one_process(args: &Ab, script: &Path, plan: &Plan, arm: &Arm) -> Result<Vec<Row>, Error> {
    let dir = tempfile::tempdir().map_err(Error::file("a temporary folder"))?;
    let mut options = vec![
        ("--backend", args.backend.name().to_owned()),
        ("--device", args.device.name().to_owned()),
        ("--arm", arm.name.clone()),
        ("--steps", plan.steps.to_string()),
        ("--every", plan.every.to_string()),
        ("--warmup", plan.warmup.to_string()),
        ("--seed", args.common.seed.to_string()),
    ];
    if args.baseline == Baseline::Report {
        options.push(("--baseline", "report".to_owned()));
    }
    options.extend(plan.set.iter().map(|(name, value)| ("--set", format!("{name}={value}"))));
    let run = Script {
        python: &args.python,
        path: script,
        args: options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect(),
        timeout: Duration::from_secs(args.timeout),
    };
    run.run(dir.path())
}

fn compare(args: &Ab, scenario: &Scenario, arms: &Rounds<'_>, processes: &ByArm) -> Vec<Compare> {
    let control = &scenario.real.control;
    let judged = arms.iter().filter_map(|(arm, _)| {
        let (own, expectation) = (processes.get(&arm.name)?, arm.real.as_ref()?);
        let row = own.as_ref().map_err(Clone::clone).and_then(|own| {
            let controls = match processes.get(control) {
                _ if arm.name == *control => None,
                Some(Ok(controls)) => Some(&**controls),
                _ => return Err(format!("the control '{control}' has no usable process")),
            };
            let row = real::compare(scenario, arm, expectation, own, controls);
            row.map_err(|error| error.to_string())
        });
        let invalid = |why: String| {
            real::invalid(scenario, arm, args.backend.name(), args.device.name(), &why)
        };
        Some(row.unwrap_or_else(invalid))
    });
    judged.collect()
}

/// Why anon cannot tell the arms apart on the reports' own loop.
fn anon(scenario: &Scenario, arms: &Rounds<'_>, processes: &ByArm) -> String {
    let mut text = "growth per call by round, the reports' own loop\n".to_owned();
    for metric in ["proc.anon", &*scenario.real.metric] {
        for (arm, _) in arms {
            let Some(Ok(own)) = processes.get(&arm.name) else { continue };
            let figures = own.iter().filter_map(|process| process.per_call(metric).ok());
            let figures: Vec<String> = figures.map(|value| format!("{value:9.1}")).collect();
            text += &format!("  {metric:18} {:10} {} B\n", arm.name, figures.join(" "));
        }
    }
    text += "The loop's own growth hides a dropped handle on anon: the arms differ by less than\n\
             the rounds of one arm do. On malloc in use they stay apart.\n";
    text
}

/// The scenario's script: in `--scenarios`, or in the checkout around here.
fn script_path(name: &str, dir: Option<&Path>) -> Result<PathBuf, Error> {
    let file = format!("{name}/repro_{name}_host_memory.py");
    let here = env::current_dir().unwrap_or_default();
    let around = here.ancestors().map(|dir| dir.join("repros"));
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../repros");
    let places: Vec<PathBuf> = match dir {
        Some(dir) => vec![dir.to_owned()],
        None => around.chain([built]).collect(),
    };
    let found = places.iter().map(|place| place.join(&file)).find(|path| path.is_file());
    found.ok_or_else(|| {
        Error::Usage(format!("no {file} here: run it in the checkout, or name --scenarios DIR"))
    })
}
