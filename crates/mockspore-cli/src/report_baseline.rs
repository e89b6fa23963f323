//! The reports' own loop: its growth, and what each metric makes of a hook.

use std::fmt::Write;

use mockspore::Device;
use mockspore_growth::Verdict;
use mockspore_growth::compare::{Difference, difference};
use mockspore_growth::report::Row;
use repros::model::Model;
use repros::real::Process;
use repros::registry::Entry;
use repros::runner::Request;
use repros::scenario::Scenario;

use crate::commands::run;
use crate::error::Error;
use crate::processes::{ByArm, Rounds};
use crate::table::{interval, verdict};

const ANON: &str = "proc.anon";
/// Bytes of a block of the CPU memory pool, which lies outside of malloc.
const POOL_BLOCK_BYTES: f64 = 512.0;

/// Growth per call of each arm by round on anon and on the deciding metric,
/// the differences to the control, and whether each metric shows the defect.
pub(crate) fn text(
    device: Device,
    scenario: &Scenario,
    arms: &Rounds<'_>,
    processes: &ByArm,
) -> Result<String, Error> {
    let mut text = "growth per call on the reports' own loop, by round\n".to_owned();
    let deciding = scenario.real.metrics.first().map_or(ANON, String::as_str);
    for metric in [ANON, deciding] {
        let per_call = |arm: &str| figures(processes, arm, metric);
        let control = per_call(&scenario.real.control);
        for (arm, _) in arms {
            let own = per_call(&arm.name);
            let shown: Vec<String> = own.iter().map(|value| format!("{value:.1}")).collect();
            // Writing to a String cannot fail.
            let _ = write!(text, "  {metric:18} {:10} {} B", arm.name, shown.join(" "));
            let found = difference(&own, &control, scenario.real.tolerance_per_call);
            if let (Some(found), true) = (found, arm.name != scenario.real.control) {
                let _ = write!(text, ", {}", against(&found, &scenario.real.control));
            }
            text.push('\n');
        }
    }
    let explained = scenario.real.report_baseline.as_ref();
    if let Some(by) = explained.and_then(|report| report.explained_by.as_ref()) {
        text.push_str(&explanation(device, by)?);
    }
    Ok(text)
}

/// What the mock keeps in the arm that explains the loop's own growth.
fn explanation(device: Device, [name, arm]: &[String; 2]) -> Result<String, Error> {
    let entry = Entry::find(name)?;
    let other = entry.scenario(None)?;
    let arm = other.arm(arm)?;
    let mut request = Request::arm(&other, arm, &[])?;
    request.device = device;
    let model = Model::new(&other, arm, &request.knobs, request.device);
    let rows = run::run_arm(entry, &other, arm, &request, false)?;
    let kept = rows.iter().rev().find_map(|row| match row {
        Row::Sample(sample) => sample.metrics.get(&format!("objects.{}", other.primary)),
        _ => None,
    });
    let calls = (request.steps * model.calls()) as f64;
    let kept = kept.and_then(serde_json::Value::as_f64);
    let missing = || Error::Invalid(format!("{name} counts no {}", other.primary));
    let blocks = kept.ok_or_else(missing)? / calls;
    let malloc = model.glibc_bytes(request.steps) as f64 / calls;
    let pool = blocks * POOL_BLOCK_BYTES;
    Ok(format!(
        "the loop's own growth, by {name}/{} on the mock: {blocks} kernel arguments a call, \
         {malloc:.0} B of malloc in use and {:.0} B of anon\n",
        arm.name,
        malloc + pool,
    ))
}

fn figures(processes: &ByArm, arm: &str, metric: &str) -> Vec<f64> {
    let own = processes.get(arm).and_then(|own| own.as_ref().ok());
    let own = own.into_iter().flatten();
    own.filter_map(|process: &Process| process.per_call(metric).ok())
        .collect()
}

fn against(found: &Difference, control: &str) -> String {
    let shows = match found.verdict {
        Verdict::Growth => "shows growth",
        Verdict::Plateau => "shows none",
        Verdict::Inconclusive | Verdict::Invalid => "cannot tell",
    };
    let slope = found.per_call;
    format!(
        "minus {control} {:+.1} {} B: {} ({shows})",
        slope.value,
        interval(slope),
        verdict(found.verdict)
    )
}
