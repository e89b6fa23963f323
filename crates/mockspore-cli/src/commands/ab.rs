//! `mockspore ab`: the mock in this process, a real framework in fresh ones.

use std::time::Instant;

use mockspore_growth::report::{Compare, Row};
use repros::real;
use repros::registry::Entry;
use repros::runner::Request;
use repros::scenario::Scenario;

use crate::args::{Ab, Baseline, Format};
use crate::commands::{ab_finding, run, selected};
use crate::error::Error;
use crate::output::{self, Outcome, print};
use crate::processes::{self, ByArm, Plan, Rounds};
use crate::report_baseline;
use crate::{notes, script, table};

const MINDSPORE: &str = "mindspore";
const MOCKSPORE: &str = "mockspore";

/// Runs both sides and prints them beside each other.
pub(crate) fn ab(args: &Ab) -> Result<Outcome, Error> {
    let common = &args.common;
    let mut all = Vec::new();
    let started = Instant::now();
    let mut planned = Vec::new();
    for one in selected(common)? {
        let unfit = one.scenario.real.report_baseline.is_none();
        if args.baseline == Baseline::Report && common.names.is_empty() && unfit {
            continue;
        }
        // Whatever is wrong with the request is found before any process runs.
        let plan = Plan::new(args, &one.scenario)?;
        processes::rounds(args, &one.scenario, &plan, &one.arms)?;
        planned.push((one, plan));
    }
    let findings = ab_finding::planned(args)?;
    if planned.is_empty() && findings.is_empty() {
        let why = "nothing of this runs on a real library".to_owned();
        return Err(Error::Usage(why));
    }
    for (one, plan) in &planned {
        let (entry, scenario) = (one.entry, &one.scenario);
        let script = script::path(&scenario.name, common.source.scenarios.as_deref())?;
        let arms = processes::rounds(args, scenario, plan, &one.arms)?;
        let mut rows = mock_rows(args, entry, scenario, plan, &arms)?;
        let mut run = |backend, plan: &Plan, arms: &Rounds<'_>| {
            let script = processes::Source {
                args,
                script: &script,
                plan,
                backend,
                started,
            };
            processes::run_rounds(&script, scenario, arms, &mut rows)
        };
        let processes = run(MINDSPORE, plan, &arms)?;
        let mut compared = compare(args, scenario, plan, &arms, &processes);
        if args.baseline == Baseline::Clean
            && script::has_extension(&args.python, args.time_limit())
        {
            let once: Rounds<'_> = arms.iter().map(|&(arm, _)| (arm, 1)).collect();
            let python = run(MOCKSPORE, &plan.on_mock(scenario), &once)?;
            compared.extend(compare_mock(args, scenario, plan, &once, &python));
        }
        rows.extend(compared.iter().cloned().map(Row::Compare));
        if let Some(dir) = &common.out {
            output::save(dir, &format!("{}.ab", scenario.name), &rows)?;
        }
        match common.format {
            Format::Json => print(&output::lines(&rows)?)?,
            Format::Table => {
                print(&table::ab(
                    scenario,
                    |arm| plan.window_of(scenario, arm),
                    &rows,
                    &compared,
                ))?;
                if args.baseline == Baseline::Report {
                    print(&report_baseline::text(
                        args.device.device(),
                        scenario,
                        &arms,
                        &processes,
                    )?)?;
                }
            }
        }
        all.extend(rows);
    }
    let mut without = Vec::new();
    for (entry, scenario) in &findings {
        let (rows, libraries) = ab_finding::run(args, *entry, scenario, started)?;
        if libraries == 0 && !common.names.is_empty() {
            without.push(&*scenario.name);
        }
        all.extend(rows);
    }
    if !without.is_empty() {
        let names = without.join(", ");
        let why = format!("{names}: ran on no real library, which is no pass");
        return Err(Error::Invalid(why));
    }
    eprint!("{}", notes::complaints(&all));
    Ok(Outcome::of(&all))
}

fn mock_rows(
    args: &Ab,
    entry: Entry,
    scenario: &Scenario,
    plan: &Plan,
    arms: &Rounds<'_>,
) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for (arm, _) in arms {
        let mut request = Request::arm(scenario, arm, &plan.set)?;
        request.device = args.device.device();
        request.seed = args.common.seed;
        rows.extend(run::run_arm(entry, scenario, arm, &request, false)?);
    }
    Ok(rows)
}

fn compare(
    args: &Ab,
    scenario: &Scenario,
    plan: &Plan,
    arms: &Rounds<'_>,
    processes: &ByArm,
) -> Vec<Compare> {
    let control = &scenario.real.control;
    let judged = arms.iter().filter_map(|(arm, _)| {
        let expectation = arm.real.as_ref()?;
        let none = Err("no process ran".to_owned());
        let own = processes.get(&arm.name).unwrap_or(&none);
        // The reports' own loop grows by itself: only differences are judged.
        if args.baseline == Baseline::Report && arm.name == *control && own.is_ok() {
            return None;
        }
        let row = own.as_ref().map_err(Clone::clone).and_then(|own| {
            let controls = match processes.get(control) {
                _ if arm.name == *control => None,
                Some(Ok(controls)) => Some(&**controls),
                _ => return Err(format!("the control '{control}' has no usable process")),
            };
            let row = real::compare(scenario, arm, expectation, own, controls, plan.window(arm));
            row.map_err(|error| error.to_string())
        });
        let invalid =
            |why: String| real::invalid(scenario, arm, MINDSPORE, args.device.name(), &why);
        Some(row.unwrap_or_else(invalid))
    });
    judged.collect()
}

/// The same scripts on the Python module of the mock, which must be exact.
fn compare_mock(
    args: &Ab,
    scenario: &Scenario,
    plan: &Plan,
    arms: &Rounds<'_>,
    processes: &ByArm,
) -> Vec<Compare> {
    let judged = arms.iter().filter_map(|(arm, _)| {
        let own = processes.get(&arm.name)?;
        let row = own.as_ref().map_err(Clone::clone).and_then(|own| {
            let row = real::compare_mock(scenario, arm, plan.window(arm), own);
            row.map_err(|error| error.to_string())
        });
        let invalid =
            |why: String| real::invalid(scenario, arm, MOCKSPORE, args.device.name(), &why);
        Some(row.unwrap_or_else(invalid))
    });
    judged.collect()
}
