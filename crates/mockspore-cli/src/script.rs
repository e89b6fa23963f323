//! Where a scenario's script is, and what its interpreter has.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::child;
use crate::error::Error;

/// Whether the interpreter has the extension of this project.
pub(crate) fn has_extension(python: &Path, timeout: Duration) -> bool {
    let mut command = Command::new(python);
    command
        .args(["-c", "import mockspore._mockspore"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let ended = command
        .spawn()
        .and_then(|child| child::wait(child, timeout));
    ended.is_ok_and(|status| status.is_some_and(|status| status.success()))
}

/// The scenario's script: in `--scenarios`, or in the checkout around here.
///
/// # Errors
/// [`Error::Usage`] if it is not found.
pub(crate) fn path(name: &str, dir: Option<&Path>) -> Result<PathBuf, Error> {
    let file = format!("{name}/repro_{name}_host_memory.py");
    let here = env::current_dir().unwrap_or_default();
    let around = here.ancestors().map(|dir| dir.join("repros"));
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../repros");
    let places: Vec<PathBuf> = match dir {
        Some(dir) => vec![dir.to_owned()],
        None => around.chain([built]).collect(),
    };
    let found = places
        .iter()
        .map(|place| place.join(&file))
        .find(|path| path.is_file());
    found.ok_or_else(|| {
        Error::Usage(format!(
            "no {file} here: run it in the checkout, or name --scenarios DIR"
        ))
    })
}
