//! Two more tables with a slot for each core: copies of the tilings.

use crate::error::Error;

/// A table in the tiling blob that the host builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TilingTable {
    /// The grouped matrix products': 2,016 B at `2016 * core`.
    Gmm,
    /// `SwiGLU`'s: 80 B at `80 * (core + 1)`.
    SwiGlu,
}

impl TilingTable {
    /// Both tables.
    pub const ALL: [Self; 2] = [Self::Gmm, Self::SwiGlu];

    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gmm => "gmm_tiling",
            Self::SwiGlu => "swiglu_tiling",
        }
    }

    /// Bytes that the host builds for `cores` cores.
    ///
    /// # Errors
    /// [`Error::Geometry`] if that is no number.
    pub fn bytes(self, cores: u64) -> Result<u64, Error> {
        match self {
            Self::Gmm => times(2016, cores),
            Self::SwiGlu => times(80, cores.saturating_add(1)),
        }
    }

    /// Bytes that `core` writes behind a table built for `cores` cores.
    ///
    /// # Errors
    /// [`Error::Geometry`] if an offset is no number.
    pub fn past_bytes(self, core: u64, cores: u64) -> Result<u64, Error> {
        let (start, end) = (self.bytes(core)?, self.bytes(core.saturating_add(1))?);
        Ok(end.saturating_sub(self.bytes(cores)?.max(start)))
    }
}

fn times(bytes: u64, cores: u64) -> Result<u64, Error> {
    bytes.checked_mul(cores).ok_or(Error::Geometry {
        field: "coreNum",
        value: cores.into(),
        why: "its tiling copies overflow",
    })
}
