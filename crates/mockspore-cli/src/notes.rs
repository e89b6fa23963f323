//! What stands beneath a table: who holds what, hazards, periods, complaints.

use mockspore::census::Kind;
use mockspore_growth::Verdict;
use mockspore_growth::protocol::THREAD_NET;
use mockspore_growth::report::{Row, VerdictRow};
use serde_json::Value;

use crate::table::verdict;

/// The notes on a run on the mock.
pub(crate) fn of_run(rows: &[Row]) -> String {
    let verdicts = rows.iter().filter_map(|row| match row {
        Row::Verdict(row) => Some(row),
        _ => None,
    });
    let by_arm = verdicts.filter_map(|row| happened(row).or_else(|| period(row)));
    kept(rows) + &by_arm.collect::<String>()
}

/// How often an arm makes something happen that is no block: hazards, and work
/// that becomes more.
fn happened(row: &VerdictRow) -> Option<String> {
    let slope = row.slope_per_step.filter(|slope| slope.value > 0.0)?;
    let times = if slope.lo < slope.hi {
        format!("{} to {} times a step, more each time", slope.lo, slope.hi)
    } else {
        format!("{} times a step", slope.value)
    };
    let hazard = row.metric.starts_with("hazards.");
    let more = row.metric.starts_with("work.") && slope.lo < slope.hi;
    (hazard || more).then(|| format!("{}: {} {times}\n", row.arm, row.metric))
}

/// The period and the floor of a saw-tooth.
fn period(row: &VerdictRow) -> Option<String> {
    let of = |name: &str| row.evidence.get(name).filter(|_| row.metric == THREAD_NET);
    Some(format!(
        "{}: falls every {} steps, to {} B\n",
        row.arm,
        of("period")?,
        of("floor")?
    ))
}

/// Who holds what grows, a line for each kind.
fn kept(rows: &[Row]) -> String {
    let grows = |kind: &&Kind| {
        let metric = format!("objects.{}", kind.name());
        rows.iter().any(|row| match row {
            Row::Verdict(row) => row.metric == metric && row.verdict == Some(Verdict::Growth),
            _ => false,
        })
    };
    let kinds = Kind::ALL.iter().filter(grows);
    let lines = kinds.map(|kind| format!("{} is held by {}\n", kind.name(), kind.held_by()));
    lines.collect()
}

/// What went against the expectation, a line each.
pub(crate) fn complaints(rows: &[Row]) -> String {
    let lines = rows.iter().filter_map(|row| match row {
        Row::Verdict(row) if !row.as_expected && row.finding.is_some() => Some(format!(
            "{}/{} on {}: the finding is not as declared, {}\n",
            row.scenario,
            row.arm,
            row.backend,
            Value::from(row.evidence.clone()),
        )),
        Row::Verdict(row) if !row.as_expected => Some(format!(
            "{}/{} {}: {} (expected {}), model matches: {}, {}\n",
            row.scenario,
            row.arm,
            row.metric,
            row.verdict.map_or_else(String::new, verdict),
            row.expected.map_or_else(String::new, verdict),
            row.model_matches.is_none_or(|matches| matches),
            Value::from(row.evidence.clone()),
        )),
        Row::Compare(row) if !row.as_expected => Some(format!(
            "{}/{} {} on {}: {} (expected {}), {}\n",
            row.scenario,
            row.arm,
            row.metric,
            row.backend,
            verdict(row.verdict),
            verdict(row.expected),
            Value::from(row.evidence.clone()),
        )),
        _ => None,
    });
    lines.collect()
}
