//! Collectives between the ranks of a world, and the handles they return.

pub mod comm_handle;
pub mod group;
mod pending;
mod reduce;
pub mod world;

pub use comm_handle::CommHandle;
pub use group::ProcessGroup;
pub use reduce::ReduceOp;
pub use world::World;
