//! Tables for people.

use comfy_table::{CellAlignment, Table, presets};
use mockspore::Device;
use mockspore_growth::protocol::{THREAD_NET, UNATTRIBUTED};
use mockspore_growth::report::{Compare, Row, Run, Sample, VerdictRow};
use mockspore_growth::{Shape, Slope, Verdict};
use repros::model::Model;
use repros::real::Window;
use repros::scenario::{Knobs, Scenario, Unit};

use crate::{ladder, notes};

pub(crate) fn table(header: &[&str], left: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(header);
    for column in table.column_iter_mut().skip(left) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// One line per arm of a run on the mock.
pub(crate) fn run(scenario: &Scenario, rows: &[Row]) -> String {
    let header = [
        "arm",
        "role",
        "steps",
        "verdict",
        "shape",
        "objects/call",
        "bytes/call",
        "array bytes/call",
        "unattributed",
        "model",
        "as expected",
    ];
    let mut table = table(&header, 5);
    for arm in arms(rows) {
        let net = arm.verdict(THREAD_NET);
        let per_call = net.and_then(|row| row.per_call);
        let figure =
            |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.3}"));
        let unattributed = arm.last.and_then(|last| last.metrics.get(UNATTRIBUTED));
        table.add_row([
            arm.run.arm.clone(),
            arm.run.role.clone(),
            arm.run.steps.to_string(),
            or_dash(net.and_then(|row| row.verdict).map(verdict)),
            or_dash(net.and_then(|row| row.shape).map(shape)),
            figure(per_call.map(|p| p.objects)),
            figure(per_call.map(|p| p.bytes)),
            figure(per_call.map(|p| p.array_bytes)),
            or_dash(unattributed.map(ToString::to_string)),
            yes(arm
                .verdicts
                .iter()
                .all(|row| row.model_matches == Some(true))),
            yes(arm.verdicts.iter().all(|row| row.as_expected)),
        ]);
    }
    let (notes, ladder) = (notes::of_run(rows), ladder::of_run(scenario, rows));
    format!(
        "{}: {}\n{table}\n{notes}{ladder}",
        scenario.name, scenario.title
    )
}

/// Mock and real side by side, with the reported figures. "predicted" is what
/// the mock's model makes of the real metric (objects, or the same blocks in
/// glibc's chunks) over the steps that the real side reads.
pub(crate) fn ab(
    scenario: &Scenario,
    window: impl Fn(&str) -> Window,
    rows: &[Row],
    compared: &[Compare],
) -> String {
    let header = [
        "arm",
        "role",
        "mock",
        "real",
        "objects/call",
        "mock B/call",
        "predicted/call",
        "real/call",
        "95 % interval",
        "reported",
        "Python on mock",
        "as expected",
    ];
    let mut table = table(&header, 4);
    let of = |arm: &str, backend: &str| {
        compared
            .iter()
            .find(|row| row.arm == arm && row.backend == backend)
    };
    // A process of the Python module writes a run row too, but no verdict.
    for arm in arms(rows)
        .into_iter()
        .filter(|arm| !arm.verdicts.is_empty())
    {
        let name = &*arm.run.arm;
        let net = arm.verdict(THREAD_NET);
        let per_call = net.and_then(|row| row.per_call);
        let (real, python) = (of(name, "mindspore"), of(name, "mockspore"));
        let slope = real.and_then(|row| row.difference_per_call);
        let reported = scenario.reported.iter().filter(|figure| figure.arm == name);
        let reported: Vec<String> = reported
            .map(|figure| format!("{} {}", figure.value, figure.unit))
            .collect();
        let expected = [real, python]
            .into_iter()
            .flatten()
            .all(|row| row.as_expected);
        table.add_row([
            name.to_owned(),
            arm.run.role.clone(),
            or_dash(net.and_then(|row| row.verdict).map(verdict)),
            or_dash(real.map(|row| verdict(row.verdict))),
            or_dash(per_call.map(|p| format!("{:.3}", p.objects))),
            or_dash(per_call.map(|p| format!("{:.1}", p.bytes + p.array_bytes))),
            or_dash(predicted(scenario, arm.run, window(name)).map(|bytes| format!("{bytes:.1}"))),
            or_dash(slope.map(|slope| format!("{:.1}", slope.value))),
            or_dash(slope.map(interval)),
            or_dash((!reported.is_empty()).then(|| reported.join(", "))),
            or_dash(python.map(|row| if row.as_expected { "exact" } else { "DIFFERS" }.to_owned())),
            yes(arm.verdicts.iter().all(|row| row.as_expected) && expected),
        ]);
    }
    let sides = compared.first().map_or_else(String::new, |first| {
        format!(
            "mock against {} {} on {}, {} compared with arm '{}'\n",
            first.backend, first.version, first.device, first.metric, first.control
        )
    });
    format!("{}: {}\n{sides}{table}\n", scenario.name, scenario.title)
}

/// What the real metric is predicted to show per call between two steps.
fn predicted(scenario: &Scenario, run: &Run, window: Window) -> Option<f64> {
    let knobs = Knobs::from_row(&run.knobs);
    let arm = scenario
        .arm(&run.arm)
        .ok()
        .filter(|_| scenario.real.predicts)?;
    let model = Model::new(scenario, arm, &knobs, Device::named(&run.device)?);
    let at = |step| match scenario.real.unit {
        Unit::MallocBytes => model.glibc_bytes(step),
        Unit::Objects => model.objects(&scenario.primary, step),
    };
    let calls = (window.to - window.from) * model.calls();
    Some((at(window.to) - at(window.from)) as f64 / calls as f64)
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// A verdict as results spell it.
pub(crate) fn verdict(verdict: Verdict) -> String {
    let name = match verdict {
        Verdict::Growth => "GROWTH",
        Verdict::Plateau => "PLATEAU",
        Verdict::Inconclusive => "INCONCLUSIVE",
        Verdict::Invalid => "INVALID",
    };
    name.to_owned()
}

/// A shape as results spell it.
fn shape(shape: Shape) -> String {
    let name = serde_json::to_value(shape).unwrap_or_default();
    name.as_str().unwrap_or_default().to_owned()
}

/// A slope's interval.
pub(crate) fn interval(slope: Slope) -> String {
    format!("[{:.1}, {:.1}]", slope.lo, slope.hi)
}

fn yes(value: bool) -> String {
    if value { "yes" } else { "NO" }.to_owned()
}

struct ArmRows<'a> {
    run: &'a Run,
    verdicts: Vec<&'a VerdictRow>,
    last: Option<&'a Sample>,
}

impl<'a> ArmRows<'a> {
    fn verdict(&self, metric: &str) -> Option<&'a VerdictRow> {
        self.verdicts
            .iter()
            .copied()
            .find(|row| row.metric == metric)
    }
}

fn arms(rows: &[Row]) -> Vec<ArmRows<'_>> {
    let mut arms: Vec<ArmRows<'_>> = Vec::new();
    for row in rows {
        match row {
            Row::Run(run) if run.backend == "mockspore" => arms.push(ArmRows {
                run,
                verdicts: Vec::new(),
                last: None,
            }),
            Row::Sample(sample) if sample.backend == "mockspore" => {
                if let Some(arm) = arms.last_mut() {
                    arm.last = Some(sample);
                }
            }
            Row::Verdict(verdict) => {
                if let Some(arm) = arms.last_mut() {
                    arm.verdicts.push(verdict);
                }
            }
            _ => {}
        }
    }
    arms
}
