//! The reports' own loop: its growth, and what each metric makes of a hook.

use std::fmt::Write;

use mockspore_growth::Verdict;
use mockspore_growth::compare::{Difference, difference};
use repros::real::Process;
use repros::scenario::Scenario;

use crate::processes::{ByArm, Rounds};
use crate::table::{interval, verdict};

const ANON: &str = "proc.anon";

/// Growth per call of each arm by round on anon and on the deciding metric,
/// the differences to the control, and whether each metric shows the defect.
pub(crate) fn text(scenario: &Scenario, arms: &Rounds<'_>, processes: &ByArm) -> String {
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
    text
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
