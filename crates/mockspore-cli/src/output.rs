//! Rows to stdout and to files, progress to stderr.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use mockspore_growth::Verdict;
use mockspore_growth::report::{Row, to_line};

use crate::error::Error;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    AsExpected,
    Differs,
    Invalid,
}

impl Outcome {
    /// The outcome that the judged rows make together.
    pub(crate) fn of(rows: &[Row]) -> Self {
        let judged = rows.iter().filter_map(|row| match row {
            Row::Verdict(row) => Some((row.verdict, row.as_expected)),
            Row::Compare(row) => Some((Some(row.verdict), row.as_expected)),
            _ => None,
        });
        let mut outcome = Self::AsExpected;
        for (verdict, as_expected) in judged {
            if verdict == Some(Verdict::Invalid) {
                return Self::Invalid;
            }
            if !as_expected {
                outcome = Self::Differs;
            }
        }
        outcome
    }
}

/// Writes text to stdout.
///
/// # Errors
/// [`Error::ClosedStdout`] if nobody reads it.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Error::ClosedStdout),
        Err(source) => Err(Error::file("stdout")(source)),
        Ok(()) => Ok(()),
    }
}

/// The rows as JSON lines.
///
/// # Errors
/// [`Error::Invalid`] if a row cannot be written as JSON.
pub(crate) fn lines(rows: &[Row]) -> Result<String, Error> {
    let mut text = String::new();
    for row in rows {
        text += &to_line(row).map_err(|error| Error::Invalid(error.to_string()))?;
        text.push('\n');
    }
    Ok(text)
}

/// Writes the rows to `<dir>/<name>.jsonl`, whole or not at all.
///
/// # Errors
/// [`Error::File`] if the folder or file cannot be written.
pub(crate) fn save(dir: &Path, name: &str, rows: &[Row]) -> Result<(), Error> {
    let path = dir.join(format!("{name}.jsonl"));
    let partial = dir.join(format!(".{name}.jsonl.partial"));
    fs::create_dir_all(dir).map_err(Error::file(dir))?;
    fs::write(&partial, lines(rows)?).map_err(Error::file(&partial))?;
    fs::rename(&partial, &path).map_err(Error::file(&path))
}

/// A bar on stderr, drawn only where a person looks.
pub(crate) fn progress(length: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("[{pos}/{len}] {msg} {elapsed}");
    let bar = ProgressBar::new(length as u64);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
