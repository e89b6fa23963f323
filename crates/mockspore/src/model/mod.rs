//! The memory shapes of the modelled C++.

pub(crate) mod shared;
pub(crate) mod unordered_map;

pub use unordered_map::bucket_count;
