//! The launch on the mock: each core count is put to the host's checks, and
//! what is launched writes its group lists into a guarded config.

use mockspore::mega_moe::{
    Attributes, Damage, Image, Layout, NUM_WORKERS_CUBE, Pass, TilingTable, classify,
    launched_cores, validate_num_cube_cores,
};
use mockspore::{Error, Policies};
use mockspore_growth::report::Finding;
use serde_json::{Map, Value, json};

use crate::finding::{Observed, Setting};

/// Tokens that each list ends with.
const TOKENS: u32 = 4096;
/// Ranks that share the experts.
const EP: i64 = 8;

fn layout(setting: &Setting<'_>) -> Result<Layout, Error> {
    let integer = |name| setting.integer(name);
    match setting.choice("layout") {
        "dense" => Layout::dense(integer("tasks"), integer("events"), integer("experts")),
        _ => Ok(Layout::Fixed),
    }
}

/// Runs an arm.
pub(crate) fn observe(setting: &Setting<'_>) -> Result<Observed, Error> {
    let (layout, experts) = (layout(setting)?, setting.integer("experts"));
    let cores = setting.integer("from_cores")..=setting.integer("to_cores");
    let workers = written(layout, *cores.end(), experts)?;
    let mut found = Map::new();
    for pass in Pass::ALL {
        let launched = cores.clone().map(|count| {
            let launched = launched_cores(&setting.policies, pass, count as i64, &of(experts));
            (count, launched.ok())
        });
        let launched: Vec<(u64, Option<u64>)> = launched.collect();
        found.insert(pass.name().to_owned(), by_count(&launched, &workers));
    }
    found.insert("slots".to_owned(), layout.slots().into());
    let refused = |&count: &u64| validate_num_cube_cores(&setting.policies, count as i64).is_err();
    found.insert(
        "validator_refuses".to_owned(),
        range(cores.clone().filter(refused)),
    );
    for table in TilingTable::ALL {
        let past = past_table(&setting.policies, table, cores.clone())?;
        found.insert(format!("past_{}", table.name()), past);
    }
    found.insert("by_worker".to_owned(), grouped(&workers).into());
    let mut observed = Observed::of(Finding::OutOfBounds(found));
    observed.holders = grouped(&workers).iter().map(in_words).collect();
    Ok(observed)
}

/// Attributes that pass: the tiling lets no more than 16 experts through.
fn of(experts: u64) -> Attributes {
    Attributes {
        rank_id: 0,
        ep: EP,
        expert_num: EP * experts.clamp(1, 16) as i64,
        hidden_size: 7168,
        seq_size: i64::from(TOKENS),
    }
}

/// What each worker alone really damages; an error if that is not what it is
/// classified as.
fn written(layout: Layout, workers: u64, experts: u64) -> Result<Vec<Damage>, Error> {
    let mut image = Image::new(layout, workers, experts)?;
    let mut all = Vec::with_capacity(workers as usize);
    for worker in 0..workers {
        image.write_group_list(worker, experts, 0, TOKENS)?;
        let damage = image.damage(worker)?;
        image.repair();
        let predicted = classify(layout, worker, experts)?;
        if damage != predicted {
            let why = format!("worker {worker}: {damage:?} was classified as {predicted:?}");
            return Err(Error::Raised(why.into()));
        }
        all.push(damage);
    }
    if !image.is_intact_before_the_lists() {
        return Err(Error::Raised("a list is written before its area".into()));
    }
    Ok(all)
}

/// What becomes of each core count: refused, or launched with some effect.
fn by_count(launched: &[(u64, Option<u64>)], workers: &[Damage]) -> Value {
    let counts = |wanted: &dyn Fn(u64) -> bool| {
        let fits = launched
            .iter()
            .filter(|(_, cores)| cores.is_some_and(wanted));
        range(fits.map(|&(count, _)| count))
    };
    let damages = |cores: u64| workers[..cores as usize].iter().any(|damage| damage.any());
    let refused = launched.iter().filter(|(_, cores)| cores.is_none());
    json!({
        "refused": range(refused.map(|&(count, _)| count)),
        "harmless_beyond_24": counts(&|cores| cores > NUM_WORKERS_CUBE && !damages(cores)),
        "damaging": counts(&damages),
    })
}

/// Core counts with which a core writes behind a table built for 24.
fn past_table(
    policies: &Policies,
    table: TilingTable,
    cores: impl Iterator<Item = u64>,
) -> Result<Value, Error> {
    let mut past = Vec::new();
    for count in cores {
        let launches = |pass| launched_cores(policies, pass, count as i64, &of(16)).is_ok();
        let beyond = table.past_bytes(count - 1, NUM_WORKERS_CUBE)? > 0;
        if beyond && Pass::ALL.into_iter().any(launches) {
            past.push(count);
        }
    }
    Ok(range(past.into_iter()))
}

/// The first and the last of consecutive numbers; `null` for none.
fn range(mut numbers: impl Iterator<Item = u64>) -> Value {
    let Some(first) = numbers.next() else {
        return Value::Null;
    };
    json!([first, numbers.last().unwrap_or(first)])
}

/// Workers that damage the same, together.
fn grouped(workers: &[Damage]) -> Vec<Value> {
    let mut groups: Vec<(u64, u64, Damage)> = Vec::new();
    for (worker, &damage) in (0..).zip(workers) {
        match groups.last_mut() {
            Some((_, last, same)) if *same == damage => *last = worker,
            _ => groups.push((worker, worker, damage)),
        }
    }
    let group = |(from, to, damage): (u64, u64, Damage)| {
        json!({
            "workers": [from, to],
            "atomic_from": damage.atomic_from,
            "past_image_bytes": damage.past_image_bytes,
        })
    };
    groups.into_iter().map(group).collect()
}

fn in_words(group: &Value) -> String {
    let atomic = match &group["atomic_from"] {
        Value::Null => "nothing of the atomic-add area".to_owned(),
        entry => format!("the atomic-add area from entry {entry} on"),
    };
    format!(
        "workers {}: overwrite {atomic}, {} B behind the config",
        group["workers"], group["past_image_bytes"]
    )
}
