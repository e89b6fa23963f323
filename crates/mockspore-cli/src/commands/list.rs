//! `mockspore list`.

use std::fmt::Write;

use crate::args::List;
use crate::commands::{finding, in_folder};
use crate::error::Error;
use crate::output::{Outcome, print};

/// Prints the scenarios with their knobs and arms.
pub(crate) fn list(args: &List) -> Result<Outcome, Error> {
    let mut text = String::new();
    let dir = args.source.scenarios.as_deref();
    for entry in in_folder(dir) {
        let scenario = entry.scenario(dir)?;
        let mut line = |args: std::fmt::Arguments<'_>| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{args}");
        };
        line(format_args!("{}: {}", scenario.name, scenario.title));
        for (name, knob) in &scenario.knobs {
            let about = knob
                .get("about")
                .and_then(serde_json::Value::as_str)
                .unwrap_or_default();
            let default = knob
                .get("default")
                .map_or_else(String::new, ToString::to_string);
            line(format_args!("  knob {name} = {default}: {about}"));
        }
        for arm in &scenario.arms {
            line(format_args!(
                "  arm {} ({}): {}",
                arm.name,
                arm.role.name(),
                arm.about
            ));
        }
    }
    for (_, scenario) in finding::in_folder(dir)? {
        let (name, title) = (&scenario.name, &scenario.title);
        let arms = scenario.arms.iter().map(|arm| {
            let (name, role, about) = (&arm.name, arm.role.name(), &arm.about);
            format!("  arm {name} ({role}): {about}\n")
        });
        text.extend([format!("{name}: {title}\n")].into_iter().chain(arms));
    }
    print(&text)?;
    Ok(Outcome::AsExpected)
}
