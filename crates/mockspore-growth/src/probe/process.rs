//! `/proc/<pid>/smaps_rollup`, as the reports read it: from outside, without
//! a profiler. Reads into a buffer on the stack.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::Error;

/// Resident memory of a process in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// `Rss`: resident pages.
    pub rss: u64,
    /// `Anonymous`: resident pages that belong to no file.
    pub anon: u64,
}

/// Reads this process.
///
/// # Errors
/// [`Error::Unreadable`] if the file cannot be read or lacks a field.
pub fn own() -> Result<Memory, Error> {
    read(Path::new("/proc/self/smaps_rollup"))
}

/// Reads a `smaps_rollup` file.
///
/// # Errors
/// [`Error::Unreadable`] if the file cannot be read or lacks a field.
pub fn read(path: &Path) -> Result<Memory, Error> {
    let fail = |why: String| Error::Unreadable {
        probe: "smaps_rollup",
        why: format!("{}: {why}", path.display()),
    };
    let mut buffer = [0_u8; 4096];
    let mut filled = 0;
    let mut file = File::open(path).map_err(|error| fail(error.to_string()))?;
    loop {
        let read = file
            .read(&mut buffer[filled..])
            .map_err(|error| fail(error.to_string()))?;
        if read == 0 {
            break;
        }
        filled += read;
    }
    let text = str::from_utf8(&buffer[..filled]).map_err(|error| fail(error.to_string()))?;
    let field = |name| bytes(text, name).ok_or_else(|| fail(format!("no field {name}")));
    Ok(Memory {
        rss: field("Rss:")?,
        anon: field("Anonymous:")?,
    })
}

fn bytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    let mut words = line[name.len()..].split_ascii_whitespace();
    let kib: u64 = words.next()?.parse().ok()?;
    (words.next()? == "kB").then(|| kib * 1024)
}
