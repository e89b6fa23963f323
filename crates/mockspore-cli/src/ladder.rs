//! What the mock keeps in a step, by cause, beside a report's ladder of fixes.

use mockspore::Device;
use mockspore_growth::report::{Row, Run};
use repros::model::Model;
use repros::scenario::{Cause, Knobs, Ladder, Scenario};

use crate::table::table;

const KIB: f64 = 1024.0;

/// The ladder of a run that has all its rungs; nothing otherwise.
pub(crate) fn of_run(scenario: &Scenario, rows: &[Row]) -> String {
    let ladder = scenario.ladder.as_ref();
    let printed = ladder.and_then(|ladder| print(scenario, ladder, rows));
    printed.unwrap_or_default()
}

fn print(scenario: &Scenario, ladder: &Ladder, rows: &[Row]) -> Option<String> {
    let runs = rows.iter().filter_map(|row| match row {
        Row::Run(run) if run.backend == "mockspore" => Some(run),
        _ => None,
    });
    let runs: Vec<&Run> = runs.collect();
    let causes = ladder.causes.iter();
    let names = causes.map(|cause| cause.name.as_str());
    let header: Vec<&str> = ["arm"]
        .into_iter()
        .chain(names)
        .chain(["sum", "reported", "difference"])
        .collect();
    let mut table = table(&header, 1);
    let mut first = Vec::new();
    for rung in &ladder.rungs {
        let run = runs.iter().find(|run| run.arm == rung.arm)?;
        let kib = kib_per_step(scenario, &ladder.causes, run)?;
        let sum: f64 = kib.iter().sum();
        let figures = kib.iter().chain([&sum, &rung.reported_kib]);
        let figures = figures.map(|figure| format!("{figure:.1}"));
        let difference = format!("{:+.1}", sum - rung.reported_kib);
        table.add_row(
            [rung.arm.clone()]
                .into_iter()
                .chain(figures)
                .chain([difference]),
        );
        if first.is_empty() {
            first = kib;
        }
    }
    let reported: Vec<f64> = ladder.rungs.iter().map(|rung| rung.reported_kib).collect();
    // What each rung has less than the one before it; the last is left over.
    let left = reported.iter().skip(1).chain([&0.0]);
    let reported: Vec<f64> = reported
        .iter()
        .zip(left)
        .map(|(all, left)| all - left)
        .collect();
    table.add_row(["share".to_owned()].into_iter().chain(shares(&first)));
    table.add_row(
        ["share, reported".to_owned()]
            .into_iter()
            .chain(shares(&reported)),
    );
    Some(format!("\nKiB of one rank's step, by cause\n{table}\n"))
}

fn shares(parts: &[f64]) -> impl Iterator<Item = String> {
    let sum: f64 = parts.iter().sum();
    parts
        .iter()
        .map(move |part| format!("{:.0} %", 100.0 * part / sum))
}

/// What one rank keeps in a step on average, for each cause. The model is what
/// the run's readings were compared with.
fn kib_per_step(scenario: &Scenario, causes: &[Cause], run: &Run) -> Option<Vec<f64>> {
    let arm = scenario.arm(&run.arm).ok()?;
    let knobs = Knobs::from_row(&run.knobs);
    let model = Model::new(scenario, arm, &knobs, Device::named(&run.device)?);
    let steps = (run.steps * model.ranks()) as f64;
    let of_cause = |cause: &Cause| {
        let kinds = cause.kinds.iter();
        let bytes: u64 = kinds.map(|kind| model.bytes_of(kind, run.steps)).sum();
        bytes as f64 / steps / KIB
    };
    Some(causes.iter().map(of_cause).collect())
}
