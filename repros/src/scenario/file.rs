//! The file of a scenario: its text, and what is wrong with it.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::error::Error;

/// What to look for in the file's text, and why it is wrong.
pub(crate) type Complaint = (String, String);

/// The file `<dir>/<name>/scenario.json`, or the built-in text of it.
///
/// # Errors
/// [`Error::Scenario`] if the folder has no such file.
pub(crate) fn read(
    name: &str,
    dir: Option<&Path>,
    built_in: &'static str,
) -> Result<(PathBuf, Cow<'static, str>), Error> {
    let file = format!("{name}/scenario.json");
    let Some(dir) = dir else {
        return Ok((Path::new("repros").join(file), built_in.into()));
    };
    let path = dir.join(file);
    let text = fs::read_to_string(&path).map_err(|error| Error::Scenario {
        path: path.clone(),
        line: 1,
        why: format!("{error}; --scenarios names the folder that holds the scenarios"),
    })?;
    Ok((path, text.into()))
}

/// The scenario that a text holds, once `check` has no complaint.
///
/// # Errors
/// [`Error::Scenario`] with the file, the line and the mend.
pub(crate) fn parse<T: DeserializeOwned>(
    path: PathBuf,
    text: &str,
    check: impl FnOnce(&T) -> Result<(), Complaint>,
) -> Result<T, Error> {
    let parsed: Result<T, _> = serde_json::from_str(text);
    let scenario = parsed.map_err(|error| Error::Scenario {
        path: path.clone(),
        line: error.line().max(1),
        why: if error.is_eof() {
            format!("{error}; the file is cut off: restore it")
        } else {
            error.to_string()
        },
    })?;
    check(&scenario).map_err(|(needle, why)| Error::Scenario {
        path,
        line: line_of(text, &needle),
        why,
    })?;
    Ok(scenario)
}

/// The line of a quoted word, from 1.
fn line_of(text: &str, needle: &str) -> usize {
    let quoted = format!("\"{needle}\"");
    let at = text.find(&quoted).unwrap_or_default();
    text[..at].lines().count().max(1)
}
