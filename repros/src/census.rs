//! The census of a run's runtimes as the growth crate reads it.

use mockspore::Runtime;
use mockspore::census::{Kind, Tally};
use mockspore_growth::Counters;

/// Reads the censuses of all ranks, summed, by the names of kinds and tallies.
#[derive(Debug)]
pub struct CensusCounters<'a>(pub &'a [Runtime]);

impl CensusCounters<'_> {
    fn sum(&self, of_one: impl Fn(&Runtime) -> u64) -> u64 {
        self.0.iter().map(of_one).sum()
    }
}

fn kind(name: &str) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| kind.name() == name)
}

impl Counters for CensusCounters<'_> {
    fn live(&self, name: &str) -> Option<u64> {
        if let Some(kind) = kind(name) {
            return Some(self.sum(|runtime| runtime.live(kind)));
        }
        let tally = Tally::ALL.into_iter().find(|tally| tally.name() == name)?;
        Some(self.sum(|runtime| runtime.census().tally(tally)))
    }

    fn live_bytes(&self, name: &str) -> Option<u64> {
        kind(name).map(|kind| self.sum(|runtime| runtime.census().counts(kind).live_bytes))
    }

    fn for_each_size(&self, visit: &mut dyn FnMut(usize, u64)) {
        for runtime in self.0 {
            runtime.census().for_each_size(&mut *visit);
        }
    }
}
