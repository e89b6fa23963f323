//! Findings for people.

use mockspore_growth::report::{Finding, Row};
use repros::finding::Scenario;
use serde_json::{Map, Value};

use crate::table::table;

/// One line per arm, and the report's statements beside what was found.
pub(crate) fn of_run(scenario: &Scenario, rows: &[Row]) -> String {
    let mut lines = table(&["arm", "role", "finding", "as expected"], 4);
    for arm in &scenario.arms {
        add(&mut lines, rows, &arm.name);
    }
    let others = rows.iter().filter_map(|row| match row {
        Row::Run(run) if run.arm.starts_with("mindspore-") => Some(&run.arm),
        _ => None,
    });
    for arm in others {
        add(&mut lines, rows, arm);
    }
    let reported = scenario.reported.iter();
    let reported = reported.map(|one| format!("reported: {}; found: {}\n", one.says, one.found));
    let (name, title) = (&scenario.name, &scenario.title);
    format!("{name}: {title}\n{lines}\n{}", reported.collect::<String>())
}

fn add(lines: &mut comfy_table::Table, rows: &[Row], arm: &str) {
    let run = rows.iter().find_map(|row| match row {
        Row::Run(run) if run.arm == arm => Some(run),
        _ => None,
    });
    let verdict = rows.iter().find_map(|row| match row {
        Row::Verdict(row) if row.arm == arm => Some(row),
        _ => None,
    });
    let (Some(run), Some(verdict)) = (run, verdict) else {
        return;
    };
    let finding = verdict.finding.as_ref().map(in_words).unwrap_or_default();
    let yes = if verdict.as_expected { "yes" } else { "NO" };
    lines.add_row([arm, &run.role, &finding, yes]);
}

/// One line per arm, with a column for the mock and for each real library.
pub(crate) fn ab(scenario: &Scenario, rows: &[Row]) -> String {
    let mut backends: Vec<(&str, &str)> = Vec::new();
    for row in rows {
        if let Row::Run(run) = row
            && !backends.iter().any(|(backend, _)| *backend == run.backend)
        {
            backends.push((&run.backend, &run.version));
        }
    }
    let names = backends.iter().map(|(backend, version)| match *backend {
        "mockspore" => "mock".to_owned(),
        backend => format!("{backend} {version}"),
    });
    let header: Vec<String> = ["arm", "role", "finding on the mock"]
        .map(str::to_owned)
        .into_iter()
        .chain(names)
        .collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut lines = table(&header, header.len());
    for arm in &scenario.arms {
        let of = |backend: &str| {
            rows.iter().find_map(|row| match row {
                Row::Verdict(row) if row.arm == arm.name && row.backend == backend => Some(row),
                _ => None,
            })
        };
        let Some(finding) = of("mockspore").and_then(|row| row.finding.as_ref()) else {
            continue;
        };
        let shown = backends.iter().map(|(backend, _)| match of(backend) {
            None => "-",
            Some(row) if row.as_expected => "as declared",
            Some(_) => "DIFFERS",
        });
        let words = in_words(finding);
        let cells = [arm.name.as_str(), arm.role.name(), words.as_str()];
        lines.add_row(cells.into_iter().chain(shown));
    }
    format!("{}: {}\n{lines}\n", scenario.name, scenario.title)
}

/// A finding in a line.
pub(crate) fn in_words(finding: &Finding) -> String {
    let (_, figures) = finding.parts();
    match finding {
        Finding::RetainedUntil(_) => retained(figures),
        Finding::RegisteredTimes(_) => registered(figures),
        Finding::OutOfBounds(_) => beyond(figures),
    }
}

fn of<'a>(figures: &'a Map<String, Value>, path: &str) -> &'a Value {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let found = figures.get(first).unwrap_or(&Value::Null);
    if rest.is_empty() { found } else { &found[rest] }
}

fn retained(figures: &Map<String, Value>) -> String {
    let of = |path| of(figures, path);
    let until = of("until").as_str().unwrap_or_default();
    if of("held_tensors_per_layer") == 0 {
        return format!("until {until}: nothing is held beyond it");
    }
    format!(
        "until {until}: {} B a layer in the optimizer step, {} nodes, {} ctx ({} MiB in the example)",
        of("in_optimizer_step/value_bytes"),
        of("in_optimizer_step/nodes"),
        of("in_optimizer_step/ctx_objects"),
        of("example_mib_per_layer"),
    )
}

fn registered(figures: &Map<String, Value>) -> String {
    let of = |path| of(figures, path);
    let mut text = format!(
        "{} times, {} refused: {} calls a step, {} hooks after remove(), model {}",
        of("registrations"),
        of("refused"),
        of("calls_per_step"),
        of("hooks_after_remove"),
        if of("model_alive") == true {
            "alive"
        } else {
            "freed"
        },
    );
    text += match of("bias_as_once") {
        Value::Bool(true) => ", bias as if once",
        Value::Bool(false) => ", bias MOVED",
        _ => "",
    };
    match of("would_hang") {
        Value::String(hang) => format!("{text}; {hang}"),
        _ => text,
    }
}

fn beyond(figures: &Map<String, Value>) -> String {
    let pass = |name: &str| {
        let effects = [
            ("refused", "refused"),
            ("harmless_beyond_24", "harmless"),
            ("damaging", "DAMAGING"),
        ];
        let effects = effects.into_iter().filter_map(|(key, word)| {
            let range = of(figures, name)[key].as_array()?;
            Some(format!("{word} {}-{}", range[0], range[1]))
        });
        let effects: Vec<String> = effects.collect();
        if effects.is_empty() {
            "within".to_owned()
        } else {
            effects.join(", ")
        }
    };
    let (forward, backward) = (pass("forward"), pass("backward"));
    let slots = of(figures, "slots");
    if forward == backward {
        return format!("{slots} slots; cores {forward}");
    }
    format!("{slots} slots; forward: cores {forward}; backward: cores {backward}")
}
