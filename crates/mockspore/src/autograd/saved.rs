//! Values that a node saves for its backward, and hooks that pack them.
//!
//! ```text
//! backward fn ─▶ Saved ─▶ values                 the usual case
//!                  └────▶ packed (a place holder)   while hooks are pushed
//! ```
//!
//! Models `SavedTensor` and the stack of saved-tensor hooks
//! (`ccsrc/pynative/backward/saved_tensor.cc`, `saved_tensor_hook.cc`).

use std::ops::Deref;
use std::rc::Rc;

use crate::census::Kind;
use crate::error::Error;
use crate::runtime::Core;
use crate::tensor::Array;

/// What is done with values that are saved while it is on the stack.
pub(crate) trait SavedTensorHook {
    /// Takes a value; what is saved in its place.
    ///
    /// # Errors
    /// What stops the operator that is saving.
    fn pack(&self, value: &Array) -> Result<Rc<dyn Packed>, Error>;
}

/// What stands for a saved value.
pub(crate) trait Packed {
    /// The value again.
    ///
    /// # Errors
    /// What making it again raises.
    fn unpack(&self) -> Result<Array, Error>;
}

/// A value saved for the backward.
pub(crate) enum Saved {
    Kept(Array),
    Packed(Rc<dyn Packed>),
}

impl Saved {
    /// Saves `value`, through the innermost hook if there is one.
    pub(crate) fn new(value: &Array) -> Result<Self, Error> {
        // Cloned first: a hook may push and pop hooks.
        let hook = value.core().saved_tensor_hooks.borrow().last().cloned();
        match hook {
            None => Ok(Self::Kept(value.clone())),
            Some(hook) => hook.pack(value).map(Self::Packed),
        }
    }

    pub(crate) fn get(&self) -> Result<Array, Error> {
        match self {
            Self::Kept(value) => Ok(value.clone()),
            Self::Packed(packed) => packed.unpack(),
        }
    }
}

/// A list that a node saves, counted as saved.
pub(crate) struct SavedList<T>(Box<[T]>, Rc<Core>);

impl<T> SavedList<T> {
    pub(crate) fn new(core: &Rc<Core>, items: Box<[T]>) -> Self {
        core.census
            .created(Kind::SavedTensors, size_of_val::<[T]>(&items));
        Self(items, Rc::clone(core))
    }
}

impl<T> Deref for SavedList<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> Drop for SavedList<T> {
    fn drop(&mut self) {
        let size = size_of_val::<[T]>(&self.0);
        self.1.census.dropped(Kind::SavedTensors, size);
    }
}
