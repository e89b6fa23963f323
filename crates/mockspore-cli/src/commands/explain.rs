//! `mockspore explain`: who holds what.

use mockspore::census::Kind;
use mockspore_growth::report::{Row, VerdictRow};
use repros::finding::{self, Scenario as FindingScenario};
use repros::runner::Request;
use repros::scenario::{Arm, Scenario};
use serde_json::{Map, Value};

use crate::args::Explain;
use crate::commands::run::run_arm;
use crate::commands::slope;
use crate::error::Error;
use crate::findings::in_words;
use crate::output::{Outcome, print};

/// Steps that show what a step keeps.
const STEPS: u64 = 45;

/// Prints each arm of a scenario with its policies and what it holds.
pub(crate) fn explain(args: &Explain) -> Result<Outcome, Error> {
    let dir = args.source.scenarios.as_deref();
    let wanted = |name: &String| args.arms.is_empty() || args.arms.contains(name);
    if let Some(entry) = finding::Entry::find(&args.name) {
        let scenario = entry.scenario(dir)?;
        known(&args.arms, |arm| scenario.arm(arm).map(drop))?;
        let mut text = head(&scenario.name, &scenario.title, &scenario.sources);
        for arm in scenario.arms.iter().filter(|arm| wanted(&arm.name)) {
            text += &of_finding(entry, &scenario, arm)?;
        }
        print(&text)?;
        return Ok(Outcome::AsExpected);
    }
    let entry = slope(&args.name)?;
    let scenario = entry.scenario(dir)?;
    known(&args.arms, |arm| scenario.arm(arm).map(drop))?;
    let mut text = head(&scenario.name, &scenario.title, &scenario.sources);
    for arm in scenario.arms.iter().filter(|arm| wanted(&arm.name)) {
        let mut request = Request::arm(&scenario, arm, &[])?;
        request.steps = request.steps.min(STEPS);
        let rows = run_arm(entry, &scenario, arm, &request, false)?;
        text += &of_arm(&scenario, arm, &rows);
    }
    print(&text)?;
    Ok(Outcome::AsExpected)
}

fn known(
    arms: &[String],
    find: impl Fn(&str) -> Result<(), repros::Error>,
) -> Result<(), repros::Error> {
    arms.iter().try_for_each(|arm| find(arm))
}

fn head(name: &str, title: &str, sources: &[String]) -> String {
    let sources = sources.iter().map(|source| format!("models {source}\n"));
    format!("{name}: {title}\n{}", sources.collect::<String>())
}

/// An arm's name, role and line, and the policies that make it.
fn title(name: &str, role: &str, about: &str, policies: &Map<String, Value>) -> String {
    let policies = policies.iter();
    let policies = policies.map(|(policy, value)| format!("  policy {policy} = {value}\n"));
    format!(
        "\n{name} ({role}): {about}\n{}",
        policies.collect::<String>()
    )
}

/// The kinds that an arm keeps after some steps.
fn of_arm(scenario: &Scenario, arm: &Arm, rows: &[Row]) -> String {
    let mut text = title(&arm.name, arm.role.name(), &arm.about, &arm.policies);
    let lines = Kind::ALL.iter().filter_map(|kind| {
        let metric = format!("objects.{}", kind.name());
        let of = |row: &&VerdictRow| row.metric == metric;
        let row = rows.iter().find_map(|row| match row {
            Row::Verdict(row) => Some(row).filter(of),
            _ => None,
        })?;
        let slope = row.slope_per_step.filter(|slope| slope.value > 0.0)?;
        let (name, times, holder) = (kind.name(), slope.value, kind.held_by());
        Some(format!(
            "  {name}: {times} more each step, held by {holder}\n"
        ))
    });
    let lines: String = lines.collect();
    if lines.is_empty() {
        text += "  keeps nothing from step to step\n";
        return text;
    }
    let arrays = scenario.arrays.iter().map(|array| {
        let holder = Kind::ALL.iter().find(|kind| kind.name() == array.kind);
        let holder = holder.map_or("", |kind| kind.held_by());
        format!(
            "  {}: {} B a slot, held by {holder}\n",
            array.kind, array.slot_bytes
        )
    });
    text + &lines + &arrays.collect::<String>()
}

/// What an arm shows, and who holds it.
fn of_finding(
    entry: finding::Entry,
    scenario: &FindingScenario,
    arm: &finding::Arm,
) -> Result<String, Error> {
    let request = finding::Request::arm(scenario, arm)?;
    let (_, observed) = finding::run(entry, scenario, arm, &request)?;
    let text = title(&arm.name, arm.role.name(), &arm.about, &arm.policies);
    let finding = in_words(&observed.finding);
    let lines = [&finding].into_iter().chain(&observed.holders);
    let lines = lines.map(|line| format!("  {line}\n"));
    Ok(text + &lines.collect::<String>())
}
