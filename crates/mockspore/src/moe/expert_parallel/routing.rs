//! Which rows go to which expert, and which rank has it.

use crate::error::Error;

/// The ranks: `oep` outer by `iep` inner, and `tp` shares of each expert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mesh {
    /// Outer ranks, which deredundency gathers over.
    pub oep: usize,
    /// Inner ranks.
    pub iep: usize,
    /// Ranks that share the values of one expert.
    pub tp: usize,
}

impl Mesh {
    /// Ranks that tokens are sent between.
    pub fn ep(self) -> usize {
        self.oep * self.iep
    }
}

/// The expert and the coefficient of each rank's routed rows, by expert.
#[derive(Debug, Clone, PartialEq)]
pub struct Routing {
    pub(super) experts: usize,
    pub(super) by_rank: Vec<Vec<usize>>,
    pub(super) coefficients: Vec<Vec<f32>>,
}

impl Routing {
    /// A table of `(expert, coefficient)` for each row of each rank; rows are
    /// put in the order of their experts.
    ///
    /// # Errors
    /// [`Error::Routing`] if the experts cannot be shared by the ranks, a row
    /// has none of them, or ranks that are gathered differ in rows.
    pub fn new(mesh: Mesh, experts: usize, rows: &[Vec<(usize, f32)>]) -> Result<Self, Error> {
        let require = |holds: bool, why| holds.then_some(()).ok_or(Error::Routing { why });
        let some = mesh.oep > 0 && mesh.iep > 0 && mesh.tp > 0;
        require(some, "a mesh has at least one rank in each direction")?;
        let whole = experts > 0 && experts.is_multiple_of(mesh.ep());
        require(whole, "the experts must be a multiple of the ranks")?;
        require(rows.len() == mesh.ep(), "each rank must have its rows")?;
        let mut known = rows.iter().flatten();
        let known = known.all(|&(expert, _)| expert < experts);
        require(known, "a row names an expert that there is not")?;
        let mut sorted = rows.to_vec();
        for rows in &mut sorted {
            rows.sort_by_key(|&(expert, _)| expert);
        }
        let of = |rows: &Vec<(usize, f32)>| rows.iter().copied().unzip();
        let (by_rank, coefficients) = sorted.iter().map(of).unzip();
        Ok(Self {
            experts,
            by_rank,
            coefficients,
        })
    }

    /// Rows of a rank.
    pub fn rows(&self, rank: usize) -> usize {
        self.by_rank[rank].len()
    }

    /// The expert of each row of a rank.
    pub fn experts_of(&self, rank: usize) -> &[usize] {
        &self.by_rank[rank]
    }

    /// The coefficient of each row of a rank.
    pub fn coefficients_of(&self, rank: usize) -> &[f32] {
        &self.coefficients[rank]
    }

    /// Whether ranks that are gathered have as many rows.
    pub(super) fn is_even(&self, mesh: Mesh) -> bool {
        let inner = 0..mesh.iep;
        inner.into_iter().all(|i| {
            let mut peers = (0..mesh.oep).map(|o| self.rows(o * mesh.iep + i));
            peers.all(|rows| rows == self.rows(i))
        })
    }
}
