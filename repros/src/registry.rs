//! The built-in scenarios.

use std::path::Path;

use crate::error::Error;
use crate::mock::{Mock, Setting};
use crate::scenario::{Scenario, file};

type Build = fn(&Setting<'_>) -> Result<Box<dyn Mock>, mockspore::Error>;

/// A scenario that can run on the mock.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The one name: of folder, module, script, file and report.
    pub name: &'static str,
    json: &'static str,
    build: Build,
}

/// The entry of a folder, named once.
macro_rules! entry {
    ($name:ident) => {
        Entry {
            name: stringify!($name),
            json: include_str!(concat!("../", stringify!($name), "/scenario.json")),
            build: crate::$name::build,
        }
    };
}

/// All scenarios, in the order they are listed and run.
pub const REGISTRY: [Entry; 10] = [
    entry!(hook_handle),
    entry!(parameter_hook),
    entry!(needs_input_grad),
    entry!(collective_event),
    entry!(node_abs_cache),
    entry!(recompute_residue),
    entry!(op_exception_output),
    entry!(kernel_argument),
    entry!(ready_top_cell),
    entry!(hsdp_step),
];

impl Entry {
    /// The entry of `name`.
    ///
    /// # Errors
    /// [`Error::Unknown`] with the near match.
    pub fn find(name: &str) -> Result<Self, Error> {
        let found = REGISTRY.into_iter().find(|entry| entry.name == name);
        found.ok_or_else(|| Error::unknown("scenario", name, REGISTRY.map(|entry| entry.name)))
    }

    /// Builds the step of an arm.
    ///
    /// # Errors
    /// What the runtime raises while tensors are made.
    pub fn build(self, setting: &Setting<'_>) -> Result<Box<dyn Mock>, mockspore::Error> {
        (self.build)(setting)
    }

    /// Its `scenario.json`: the built-in one, or `<dir>/<name>/scenario.json`.
    ///
    /// # Errors
    /// [`Error::Scenario`] with file and line.
    pub fn scenario(self, dir: Option<&Path>) -> Result<Scenario, Error> {
        let (path, text) = file::read(self.name, dir, self.json)?;
        Scenario::parse(self.name, path, &text)
    }
}
