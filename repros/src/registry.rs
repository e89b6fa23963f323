//! The built-in scenarios.

use std::fs;
use std::path::Path;

use crate::error::Error;
use crate::mock::{Mock, Setting};
use crate::scenario::Scenario;
use crate::{
    collective_event, hook_handle, kernel_argument, needs_input_grad, node_abs_cache,
    op_exception_output, parameter_hook, ready_top_cell, recompute_residue,
};

type Build = fn(&Setting<'_>) -> Result<Box<dyn Mock>, mockspore::Error>;

/// A scenario that can run on the mock.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The one name: of folder, module, script, file and report.
    pub name: &'static str,
    json: &'static str,
    build: Build,
}

/// All scenarios, in the order they are listed and run.
pub const REGISTRY: [Entry; 9] = [
    Entry {
        name: "hook_handle",
        json: include_str!("../hook_handle/scenario.json"),
        build: hook_handle::build,
    },
    Entry {
        name: "parameter_hook",
        json: include_str!("../parameter_hook/scenario.json"),
        build: parameter_hook::build,
    },
    Entry {
        name: "needs_input_grad",
        json: include_str!("../needs_input_grad/scenario.json"),
        build: needs_input_grad::build,
    },
    Entry {
        name: "collective_event",
        json: include_str!("../collective_event/scenario.json"),
        build: collective_event::build,
    },
    Entry {
        name: "node_abs_cache",
        json: include_str!("../node_abs_cache/scenario.json"),
        build: node_abs_cache::build,
    },
    Entry {
        name: "recompute_residue",
        json: include_str!("../recompute_residue/scenario.json"),
        build: recompute_residue::build,
    },
    Entry {
        name: "op_exception_output",
        json: include_str!("../op_exception_output/scenario.json"),
        build: op_exception_output::build,
    },
    Entry {
        name: "kernel_argument",
        json: include_str!("../kernel_argument/scenario.json"),
        build: kernel_argument::build,
    },
    Entry {
        name: "ready_top_cell",
        json: include_str!("../ready_top_cell/scenario.json"),
        build: ready_top_cell::build,
    },
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
        let file = format!("{}/scenario.json", self.name);
        match dir {
            None => Scenario::parse(self.name, Path::new("repros").join(file), self.json),
            Some(dir) => {
                let path = dir.join(file);
                let text = fs::read_to_string(&path).map_err(|error| Error::Scenario {
                    path: path.clone(),
                    line: 1,
                    why: format!("{error}; --scenarios names the folder that holds the scenarios"),
                })?;
                Scenario::parse(self.name, path, &text)
            }
        }
    }
}
