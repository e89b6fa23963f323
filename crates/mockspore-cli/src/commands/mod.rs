//! One file per command.

pub(crate) mod ab;
pub(crate) mod list;
pub(crate) mod run;

use std::path::Path;

use repros::registry::{Entry, REGISTRY};
use repros::scenario::Scenario;

use crate::error::Error;

/// The named scenarios, or all of them.
fn scenarios(names: &[String], dir: Option<&Path>) -> Result<Vec<(Entry, Scenario)>, Error> {
    let entries = if names.is_empty() {
        REGISTRY.to_vec()
    } else {
        let found = names.iter().map(|name| Entry::find(name));
        found.collect::<Result<_, _>>()?
    };
    let loaded = entries
        .into_iter()
        .map(|entry| Ok((entry, entry.scenario(dir)?)));
    loaded.collect()
}
