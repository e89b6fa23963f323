//! The memory shapes of the modelled C++.

pub(crate) mod shared;
pub(crate) mod string_hash;
pub(crate) mod unordered_map;
pub(crate) mod vector;

pub use unordered_map::bucket_count;
pub use vector::capacity;
