//! The runtime's census as the growth crate reads it.

use mockspore::Runtime;
use mockspore::census::Kind;
use mockspore_growth::Counters;

/// Reads a runtime's census by kind name.
#[derive(Debug)]
pub struct CensusCounters<'a>(pub &'a Runtime);

fn kind(name: &str) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| kind.name() == name)
}

impl Counters for CensusCounters<'_> {
    fn live(&self, name: &str) -> Option<u64> {
        kind(name).map(|kind| self.0.live(kind))
    }

    fn live_bytes(&self, name: &str) -> Option<u64> {
        kind(name).map(|kind| self.0.census().counts(kind).live_bytes)
    }

    fn for_each_size(&self, visit: &mut dyn FnMut(usize, u64)) {
        self.0.census().for_each_size(visit);
    }
}
