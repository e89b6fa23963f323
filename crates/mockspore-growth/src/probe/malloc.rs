//! glibc's own account of malloc: what a real framework's natives hold.
#![allow(unsafe_code, reason = "mallinfo2 is a C call")]

/// Bytes in use: chunks of all arenas plus blocks mapped on their own.
///
/// # Errors
/// None here; another C library has no such account.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(clippy::unnecessary_wraps, reason = "it can fail on other platforms")]
pub fn in_use() -> Result<u64, crate::Error> {
    // SAFETY: no argument; returns a plain struct by value.
    let info = unsafe { libc::mallinfo2() };
    Ok((info.uordblks + info.hblkhd) as u64)
}

/// Not to be had without glibc.
///
/// # Errors
/// Always.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn in_use() -> Result<u64, crate::Error> {
    Err(crate::Error::Unreadable {
        probe: "libc.malloc_inuse",
        why: "this platform's C library has no mallinfo2".to_owned(),
    })
}
