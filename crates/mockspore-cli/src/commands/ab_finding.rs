//! `mockspore ab` of scenarios that are judged by their finding.

use std::collections::BTreeSet;
use std::time::Instant;

use mockspore::Device;
use mockspore_growth::report::Row;
use repros::finding::{self, Entry, Request, Scenario};

use crate::args::{Ab, Baseline, Format};
use crate::child::Script;
use crate::commands::finding::{Loaded, with_arms};
use crate::error::Error;
use crate::findings;
use crate::output::{self, print};
use crate::script;

/// Begins a script's message about what is not to be had here.
const UNSUPPORTED: &str = "unsupported: ";

/// Those that were asked for and can run on a real library.
pub(super) fn planned(args: &Ab) -> Result<Vec<Loaded>, Error> {
    let common = &args.common;
    let all = with_arms(common)?;
    let elsewhere = args.device.device() != Device::Cpu || args.baseline == Baseline::Report;
    if !elsewhere {
        return Ok(all);
    }
    if let (Some((_, scenario)), false) = (all.first(), common.names.is_empty()) {
        let name = &scenario.name;
        let why = format!("'{name}' has one real side: on the CPU, without a baseline");
        return Err(Error::Usage(why));
    }
    for (_, scenario) in &all {
        eprintln!("{}: runs on the CPU only, not run", scenario.name);
    }
    Ok(Vec::new())
}

/// Runs the mock, then the script on each library that is here, and prints
/// both; the rows, and on how many libraries it ran.
pub(super) fn run(
    args: &Ab,
    entry: Entry,
    scenario: &Scenario,
    started: Instant,
) -> Result<(Vec<Row>, usize), Error> {
    let common = &args.common;
    let wanted = |arm: &&finding::Arm| {
        let named = common.arms.is_empty() || common.arms.contains(&arm.name);
        named && !arm.real.is_empty()
    };
    let arms: Vec<&finding::Arm> = scenario.arms.iter().filter(wanted).collect();
    let mut rows = Vec::new();
    for arm in &arms {
        let mut request = Request::arm(scenario, arm)?;
        request.seed = common.seed;
        rows.extend(finding::run(entry, scenario, arm, &request)?.0);
    }
    let path = script::path(&scenario.name, common.source.scenarios.as_deref())?;
    let libraries: BTreeSet<&String> = arms.iter().flat_map(|arm| arm.real.keys()).collect();
    let mut ran = 0;
    for library in &libraries {
        let script = Script {
            python: &args.python,
            path: &path,
            args: vec!["--library".to_owned(), (*library).clone()],
            timeout: args.time_left(started.elapsed()),
        };
        let dir = tempfile::tempdir().map_err(Error::file("a temporary folder"))?;
        match script.run(dir.path()) {
            Ok(written) => {
                ran += 1;
                let chosen = |row: &Row| arms.iter().any(|arm| of_arm(row, &arm.name));
                rows.extend(written.into_iter().filter(chosen));
            }
            Err(Error::Invalid(why)) if why.contains(UNSUPPORTED) => {
                let why = why.split(UNSUPPORTED).last().unwrap_or_default().trim();
                eprintln!("SKIPPED: {} on {library}: {why}", scenario.name);
            }
            Err(error) => return Err(error),
        }
    }
    if let Some(dir) = &common.out {
        output::save(dir, &format!("{}.ab", scenario.name), &rows)?;
    }
    match common.format {
        Format::Json => print(&output::lines(&rows)?)?,
        Format::Table => print(&findings::ab(scenario, &rows))?,
    }
    Ok((rows, ran))
}

fn of_arm(row: &Row, arm: &str) -> bool {
    match row {
        Row::Run(row) => row.arm == arm,
        Row::Verdict(row) => row.arm == arm,
        _ => false,
    }
}
