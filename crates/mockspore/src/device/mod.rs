//! The device: its memory pool, streams in virtual time, and events.

pub(crate) mod event;
pub(crate) mod kernel_argument;
pub(crate) mod resource_manager;
pub mod stream;

pub use stream::StreamId;
