//! Scenarios that are judged by their finding: which ones, and their runs.

use std::path::Path;

use mockspore::Policies;
use mockspore_growth::report::Row;
pub(super) use repros::finding::Entry;
use repros::finding::{self, FINDINGS, Observed, Request, Scenario};

use crate::args::{Common, Run};
use crate::error::Error;

/// A scenario as read.
pub(super) type Loaded = (Entry, Scenario);

/// All that are built in, or that the user's folder has.
pub(super) fn in_folder(dir: Option<&Path>) -> Result<Vec<Loaded>, Error> {
    let there = |entry: &Entry| dir.is_none_or(|dir| dir.join(entry.name).is_dir());
    let entries = FINDINGS.into_iter().filter(there);
    let loaded = entries.map(|entry| Ok((entry, entry.scenario(dir)?)));
    loaded.collect()
}

/// The named ones, or all.
pub(super) fn loaded(common: &Common) -> Result<Vec<Loaded>, Error> {
    let dir = common.source.scenarios.as_deref();
    if common.names.is_empty() {
        return in_folder(dir);
    }
    let named = common.names.iter().filter_map(|name| Entry::find(name));
    let loaded = named.map(|entry| Ok((entry, entry.scenario(dir)?)));
    loaded.collect()
}

/// Those of them that have one of the arms asked for; none where a knob is set,
/// as their arms set all knobs themselves.
pub(super) fn with_arms(common: &Common) -> Result<Vec<Loaded>, Error> {
    let mut all = loaded(common)?;
    if let (Some((knob, _)), Some((_, scenario))) = (common.set.first(), all.first())
        && !common.names.is_empty()
    {
        return Err(Error::Usage(format!(
            "'{knob}' cannot be set: the arms of '{}' set their knobs themselves, choose one with --arm",
            scenario.name
        )));
    }
    if !common.names.is_empty() {
        for (_, scenario) in &all {
            let known = |arm: &String| scenario.arm(arm).map(drop);
            common.arms.iter().try_for_each(known)?;
        }
    }
    let has = |scenario: &Scenario| common.arms.iter().any(|arm| scenario.arm(arm).is_ok());
    all.retain(|(_, scenario)| common.set.is_empty() && (common.arms.is_empty() || has(scenario)));
    Ok(all)
}

/// What the arms of one scenario show.
pub(super) fn run(
    args: &Run,
    entry: Entry,
    scenario: &Scenario,
) -> Result<Vec<(Vec<Row>, Observed)>, Error> {
    let common = &args.common;
    if let Some(version) = &args.as_version {
        let policies = Policies::preset(version).ok_or_else(|| super::run::no_version(version))?;
        let like = scenario.releases.get(version).ok_or_else(|| {
            let name = &scenario.name;
            Error::Usage(format!(
                "scenario '{name}' declares nothing for '{version}'"
            ))
        })?;
        let arm = scenario.arm(like)?;
        let mut request = Request::arm(scenario, arm)?;
        request.name = format!("mindspore-{version}");
        version.clone_into(&mut request.version);
        request.policies = policies;
        request.seed = common.seed;
        return Ok(vec![finding::run(entry, scenario, arm, &request)?]);
    }
    let wanted = scenario
        .arms
        .iter()
        .filter(|arm| common.arms.is_empty() || common.arms.contains(&arm.name));
    let runs = wanted.map(|arm| {
        let mut request = Request::arm(scenario, arm)?;
        request.seed = common.seed;
        Ok(finding::run(entry, scenario, arm, &request)?)
    });
    runs.collect()
}
