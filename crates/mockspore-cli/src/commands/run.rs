//! `mockspore run`: the mock alone.

use mockspore::Policies;
use mockspore_growth::probe::jemalloc::Heap;
use mockspore_growth::probe::{malloc, process};
use mockspore_growth::report::Row;
use repros::registry::Entry;
use repros::runner::{self, Observed, Request};
use repros::scenario::{Arm, NOT_OFFERED, Scenario};

use crate::args::{Format, Run};
use crate::commands::{Selected, finding, selected};
use crate::error::Error;
use crate::output::{self, Outcome, print};
use crate::{findings, notes, table};

/// Runs the arms asked for and prints what was judged.
pub(crate) fn run(args: &Run) -> Result<Outcome, Error> {
    let common = &args.common;
    let mut planned = Vec::new();
    for Selected {
        entry,
        scenario,
        arms,
    } in selected(common)?
    {
        let arms = plan(args, &scenario, arms)?;
        planned.push((entry, scenario, arms));
    }
    let findings = finding::with_arms(common)?;
    if let (Some(_), Some((_, scenario)), false) =
        (args.steps, findings.first(), common.names.is_empty())
    {
        let name = &scenario.name;
        let why = format!("'{name}' has no steps to choose: its arms run once, leave --steps out");
        return Err(Error::Usage(why));
    }
    let progress = output::progress(planned.iter().map(|(_, _, arms)| arms.len()).sum());
    let mut all = Vec::new();
    for (entry, scenario, arms) in &planned {
        let mut rows = Vec::new();
        for (arm, request) in arms {
            progress.set_message(format!("{}/{}", scenario.name, request.name));
            rows.extend(run_arm(*entry, scenario, arm, request, args.probe)?);
            progress.inc(1);
        }
        if let Some(dir) = &common.out {
            output::save(dir, &scenario.name, &rows)?;
        }
        match common.format {
            Format::Json => print(&output::lines(&rows)?)?,
            Format::Table => print(&table::run(scenario, &rows))?,
        }
        all.extend(rows);
    }
    for (entry, scenario) in &findings {
        progress.set_message(scenario.name.clone());
        let runs = finding::run(args, *entry, scenario)?;
        let rows: Vec<Row> = runs.into_iter().flat_map(|(rows, _)| rows).collect();
        if let Some(dir) = &common.out {
            output::save(dir, &scenario.name, &rows)?;
        }
        match common.format {
            Format::Json => print(&output::lines(&rows)?)?,
            Format::Table => print(&findings::of_run(scenario, &rows))?,
        }
        all.extend(rows);
    }
    progress.finish_and_clear();
    eprint!("{}", notes::complaints(&all));
    Ok(Outcome::of(&all))
}

/// The arms to run, each with the declared arm whose expectation it must meet.
fn plan(args: &Run, scenario: &Scenario, arms: Vec<Arm>) -> Result<Vec<(Arm, Request)>, Error> {
    let common = &args.common;
    let mut requests = Vec::new();
    if let Some(version) = &args.as_version {
        match as_version(scenario, version, &common.set)? {
            Some(request) => requests.push(request),
            None => eprintln!("{}: not offered by {version}", scenario.name),
        }
    } else {
        for arm in arms {
            let request = Request::arm(scenario, &arm, &common.set)?;
            requests.push((arm, request));
        }
    }
    for (_, request) in &mut requests {
        request.seed = common.seed;
        request.steps = args.steps.unwrap_or(request.steps);
    }
    Ok(requests)
}

/// One arm with every policy of a preset and the scenario's default knobs;
/// none where the release lacks what the scenario needs.
fn as_version(
    scenario: &Scenario,
    version: &str,
    set: &[(String, String)],
) -> Result<Option<(Arm, Request)>, Error> {
    let policies = Policies::preset(version).ok_or_else(|| no_version(version))?;
    let like = scenario.releases.get(version).ok_or_else(|| {
        Error::Usage(format!(
            "scenario '{}' declares nothing for '{version}'",
            scenario.name
        ))
    })?;
    if like == NOT_OFFERED {
        return Ok(None);
    }
    let mut arm = scenario.arm(like)?.clone();
    arm.knobs.clear();
    let mut request = Request::arm(scenario, &arm, set)?;
    request.name = format!("mindspore-{version}");
    version.clone_into(&mut request.version);
    request.policies = policies;
    Ok(Some((arm, request)))
}

/// The error for a version that is not known, with the near match.
pub(super) fn no_version(version: &str) -> Error {
    let names: Vec<&str> = Policies::preset_names().collect();
    let hint = match repros::near(version, names.iter().copied()) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("there are: {}", names.join(", ")),
    };
    Error::Usage(format!("unknown version '{version}': {hint}"))
}

/// Runs one arm on the mock.
pub(crate) fn run_arm(
    entry: Entry,
    scenario: &Scenario,
    arm: &Arm,
    request: &Request,
    probe: bool,
) -> Result<Vec<Row>, Error> {
    let heap = || {
        // Without jemalloc the byte metrics are absent, not 0.
        let opened = (!cfg!(feature = "system-alloc")).then(Heap::open);
        opened.transpose().map_err(repros::Error::from)
    };
    let observer = if probe { heap()? } else { None };
    let mut observe = || {
        let metrics = probe.then(|| observation(observer.as_ref()));
        metrics.transpose().map_err(repros::Error::from)
    };
    Ok(runner::run(
        entry,
        scenario,
        arm,
        request,
        heap()?,
        &mut observe,
    )?)
}

/// What `--probe` adds: second opinions that differ from run to run.
fn observation(heap: Option<&Heap>) -> Result<Observed, mockspore_growth::Error> {
    let stats = heap.map(Heap::stats).transpose()?;
    let memory = process::own()?;
    Ok([
        stats.map(|stats| ("heap.allocated", stats.allocated)),
        stats.map(|stats| ("heap.active", stats.active)),
        stats.map(|stats| ("heap.resident", stats.resident)),
        Some(("proc.anon", memory.anon)),
        Some(("proc.rss", memory.rss)),
        Some(("libc.malloc_inuse", malloc::in_use()?)),
    ])
}
