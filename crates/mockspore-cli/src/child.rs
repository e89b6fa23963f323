//! One process of a real framework: started, watched, read.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use mockspore_growth::report::{self, Row};

use crate::error::Error;

/// How often a running process is looked at.
const POLL: Duration = Duration::from_millis(50);
/// Lines of a failed process's stderr that are shown.
const TAIL: usize = 12;
/// A script's exit code for a finding that is not as declared.
const DIFFERS: i32 = 1;
/// A script's own exit code for input that it cannot use.
const BAD_INPUT: i32 = 2;

/// A script to run once.
#[derive(Debug)]
pub(crate) struct Script<'a> {
    pub(crate) python: &'a Path,
    pub(crate) path: &'a Path,
    pub(crate) args: Vec<String>,
    pub(crate) timeout: Duration,
}

impl Script<'_> {
    /// Runs it with its files in `dir` and returns the rows it wrote.
    ///
    /// # Errors
    /// [`Error::Usage`] if the interpreter or its framework is not there,
    /// [`Error::Invalid`] if the process crashes, hangs or writes bad rows.
    pub(crate) fn run(&self, dir: &Path) -> Result<Vec<Row>, Error> {
        let out = dir.join("rows.jsonl");
        let stderr = dir.join("stderr.txt");
        let log = |path: &PathBuf| File::create(path).map_err(Error::file(path));
        let child = Command::new(self.python)
            .arg(self.path)
            .args(&self.args)
            .arg("--out")
            .arg(&out)
            // The framework's warnings would bury its last words.
            .env("GLOG_v", "3")
            // A group of its own: what it starts ends with it.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::from(log(&dir.join("stdout.txt"))?))
            .stderr(Stdio::from(log(&stderr)?))
            .spawn()
            .map_err(|error| {
                let python = self.python.display();
                Error::Usage(format!(
                    "cannot start '{python}': {error}; --python names an interpreter"
                ))
            })?;
        let Some(status) = wait(child, self.timeout).map_err(Error::file(self.path))? else {
            let limit = self.timeout.as_secs();
            let name = self.name();
            return Err(Error::Invalid(format!(
                "{name} hung: no end after {limit} s"
            )));
        };
        // A script that judges by itself writes its rows and ends so.
        let judged = status.code() == Some(DIFFERS) && out.is_file();
        if !status.success() && !judged {
            return Err(self.failure(status, &stderr));
        }
        report::read(&out).map_err(|error| Error::Invalid(error.to_string()))
    }

    fn failure(&self, status: ExitStatus, stderr: &Path) -> Error {
        let bytes = fs::read(stderr).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n");
        if status.code() == Some(BAD_INPUT) {
            return Error::Usage(tail);
        }
        Error::Invalid(format!("{} failed ({status}):\n{tail}", self.name()))
    }

    fn name(&self) -> String {
        let script = self.path.file_name().unwrap_or_default().to_string_lossy();
        format!("{script} {}", self.args.join(" "))
    }
}

/// Ends a process and, if it leads a group, all that it started. One that has
/// just ended cannot be killed, which is fine.
fn end_group(child: &mut Child) {
    let group = format!("-{}", child.id());
    let _ = Command::new("kill")
        .args(["-KILL", "--", &group])
        .stderr(Stdio::null())
        .status();
    let _ = child.kill();
}

/// Waits for a process; `None` if it was ended for taking longer than `timeout`.
///
/// # Errors
/// Those of the system.
pub(crate) fn wait(mut child: Child, timeout: Duration) -> io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() > timeout {
            end_group(&mut child);
            child.wait()?;
            return Ok(None);
        }
        sleep(POLL);
    }
}
