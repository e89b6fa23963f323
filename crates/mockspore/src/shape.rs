//! Dimensions.

use std::fmt;

use crate::error::Error;

/// Dimensions of a tensor, row-major.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    rank: usize,
    dims: [usize; Self::MAX_RANK],
}

impl Shape {
    /// Dimensions the mock has at most.
    pub const MAX_RANK: usize = 4;

    /// A shape from its dimensions.
    ///
    /// # Errors
    /// [`Error::Rank`] for more than [`Self::MAX_RANK`] dimensions.
    pub fn new(dims: &[usize]) -> Result<Self, Error> {
        let rank = dims.len();
        let mut all = [1; Self::MAX_RANK];
        all.get_mut(..rank)
            .ok_or(Error::Rank { rank })?
            .copy_from_slice(dims);
        Ok(Self { rank, dims: all })
    }

    /// `[rows, columns]`.
    pub(crate) fn of_matrix(rows: usize, columns: usize) -> Self {
        Self {
            rank: 2,
            dims: [rows, columns, 1, 1],
        }
    }

    pub(crate) fn scalar() -> Self {
        Self {
            rank: 0,
            dims: [1; Self::MAX_RANK],
        }
    }

    /// The shape of no values.
    pub(crate) fn empty() -> Self {
        Self {
            rank: 1,
            dims: [0; Self::MAX_RANK],
        }
    }

    /// The same shape with another first dimension.
    pub(crate) fn with_rows(mut self, rows: usize) -> Self {
        self.dims[0] = rows;
        self
    }

    /// The dimensions.
    pub fn dims(&self) -> &[usize] {
        &self.dims[..self.rank]
    }

    /// Number of values.
    pub fn size(&self) -> usize {
        self.dims().iter().product()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.dims())
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
