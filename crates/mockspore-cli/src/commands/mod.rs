//! One file per command.

pub(crate) mod ab;
mod ab_finding;
pub(crate) mod explain;
mod finding;
pub(crate) mod list;
pub(crate) mod run;

use std::path::Path;

use repros::finding::FINDINGS;
use repros::registry::{Entry, REGISTRY};
use repros::scenario::{Arm, Scenario};

use crate::args::Common;
use crate::error::Error;

/// A scenario and those of its arms that were asked for.
struct Selected {
    entry: Entry,
    scenario: Scenario,
    arms: Vec<Arm>,
}

/// The entry of a scenario with a slope.
///
/// # Errors
/// If the name is unknown: with the near match among all scenarios.
fn slope(name: &str) -> Result<Entry, Error> {
    Entry::find(name).map_err(|_| {
        let findings = FINDINGS.iter().map(|entry| entry.name);
        let all = REGISTRY.iter().map(|entry| entry.name).chain(findings);
        repros::Error::unknown("scenario", name, all).into()
    })
}

/// The named scenarios that have a slope, with the named arms. Where no scenario
/// is named, those that have one of the arms and all of the knobs.
fn selected(common: &Common) -> Result<Vec<Selected>, Error> {
    let named = !common.names.is_empty();
    let dir = common.source.scenarios.as_deref();
    let entries = if named {
        let slopes = common.names.iter();
        let slopes = slopes.filter(|name| finding::Entry::find(name).is_none());
        slopes.map(|name| slope(name)).collect::<Result<_, _>>()?
    } else {
        in_folder(dir)
    };
    let loaded = entries
        .into_iter()
        .map(|entry| Ok((entry, entry.scenario(dir)?)));
    let mut loaded = loaded.collect::<Result<Vec<(Entry, Scenario)>, Error>>()?;
    if named {
        for (_, scenario) in &loaded {
            common
                .arms
                .iter()
                .try_for_each(|arm| scenario.arm(arm).map(drop))?;
        }
    } else {
        known(common, &loaded)?;
        loaded.retain(|(_, scenario)| {
            let has_arm = common.arms.iter().any(|arm| scenario.arm(arm).is_ok());
            let mut knobs = common.set.iter();
            let has_knobs = knobs.all(|(knob, _)| scenario.knobs.contains_key(knob));
            (common.arms.is_empty() || has_arm) && has_knobs
        });
    }
    let others = finding::with_arms(common)?;
    let left_out = common.arms.iter().find(|arm| {
        let has = |(_, scenario): &(Entry, Scenario)| scenario.arm(arm).is_ok();
        let other = |(_, scenario): &finding::Loaded| scenario.arm(arm).is_ok();
        !loaded.iter().any(has) && !others.iter().any(other)
    });
    let nothing = loaded.is_empty() && others.is_empty();
    if nothing || left_out.is_some() {
        let what = left_out.map_or("the knobs set", |arm| &**arm);
        return Err(Error::Usage(format!(
            "no scenario has '{what}' and all of the knobs set"
        )));
    }
    let selected = loaded.into_iter().map(|(entry, scenario)| {
        let wanted = |arm: &&Arm| common.arms.is_empty() || common.arms.contains(&arm.name);
        let arms = scenario.arms.iter().filter(wanted).cloned().collect();
        Selected {
            entry,
            scenario,
            arms,
        }
    });
    Ok(selected.collect())
}

/// The built-in scenarios, or those that the user's folder has; all of them if
/// it has none, so that the first one missing is named.
fn in_folder(dir: Option<&Path>) -> Vec<Entry> {
    let there = |entry: &Entry| dir.is_none_or(|dir| dir.join(entry.name).is_dir());
    let found: Vec<Entry> = REGISTRY.into_iter().filter(there).collect();
    if found.is_empty() {
        return REGISTRY.to_vec();
    }
    found
}

/// Whether each arm and knob asked for exists somewhere.
fn known(common: &Common, loaded: &[(Entry, Scenario)]) -> Result<(), Error> {
    let all = || loaded.iter().map(|(_, scenario)| scenario);
    let others = finding::loaded(common)?;
    for name in &common.arms {
        let other = others
            .iter()
            .any(|(_, scenario)| scenario.arm(name).is_ok());
        if !other && !all().any(|scenario| scenario.arm(name).is_ok()) {
            let arms = all()
                .flat_map(|scenario| &scenario.arms)
                .map(|arm| &*arm.name);
            let others = others.iter().flat_map(|(_, scenario)| &scenario.arms);
            let others = others.map(|arm| &*arm.name);
            return Err(repros::Error::unknown("arm", name, arms.chain(others)).into());
        }
    }
    for (name, _) in &common.set {
        if !all().any(|scenario| scenario.knobs.contains_key(name)) {
            let knobs = all().flat_map(|scenario| scenario.knobs.keys());
            return Err(repros::Error::unknown("knob", name, knobs.map(|knob| &**knob)).into());
        }
    }
    Ok(())
}
