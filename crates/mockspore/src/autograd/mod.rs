//! The backward graph: nodes, hooks and their registry, and the engine.

pub mod ctx;
pub(crate) mod engine;
pub(crate) mod final_callback;
pub mod function;
pub(crate) mod graveyard;
pub mod hook;
pub(crate) mod node;
pub mod recompute;
pub(crate) mod record;
pub(crate) mod root;
pub(crate) mod saved;
pub(crate) mod top_cell;
