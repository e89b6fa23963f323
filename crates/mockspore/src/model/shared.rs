//! `std::shared_ptr` and `std::weak_ptr` as blocks of memory.
//!
//! ```text
//!  Shared ──┐                  new + deleter: T = Box<Node>, a 32-byte block;
//!  Shared ──┼─▶ Control<T>     the node dies with the last Shared, the block
//!  Weak   ──┘     └─▶ node     with the last Weak.
//!                              make_shared: T = Node, one block for both;
//!                              a Weak pins it whole.
//! ```
//!
//! `Rc`'s strong count plays the block's life; the uses that keep the *node*
//! alive are counted inside it. Rust's own `Weak` would not tell who frees the
//! block last, and the census must know.

use std::cell::{Cell, Ref, RefCell};
use std::mem::size_of;
use std::rc::Rc;

use crate::census::Kind;
use crate::runtime::Core;

/// A node that control blocks manage.
pub(crate) trait Managed: Sized {
    /// What its control block is counted as.
    const BLOCK: Kind;

    /// Uses that keep the node alive.
    fn use_count(&self) -> &Cell<u32>;

    /// The runtime that counts its blocks.
    fn core(&self) -> &Rc<Core>;

    /// Destroys a node that has lost its last use.
    fn destroy(dying: Dying<Self>) {
        drop(dying);
    }
}

/// The managed node; the borrow flag stands where C++ has its deleter word.
struct Control<T>(RefCell<Option<T>>);

/// A `shared_ptr`; empty only while it is being dropped.
pub(crate) struct Shared<T: Managed>(Option<Rc<Control<T>>>);

/// A `weak_ptr`: holds the block, not the node. It must be given back with
/// [`Weak::release`].
pub(crate) struct Weak<T: Managed>(Rc<Control<T>>);

/// A node that has lost its last use; its block may live on.
pub(crate) struct Dying<T: Managed> {
    node: Option<T>,
    block: Rc<Control<T>>,
}

/// Bytes of the block: two counts, the borrow flag, the node or its pointer.
pub(crate) const fn block_size<T>() -> usize {
    2 * size_of::<usize>() + size_of::<Control<T>>()
}

impl<T: Managed> Shared<T> {
    /// Makes the block around `node`, whose use count must be 1.
    pub(crate) fn new(node: T) -> Self {
        debug_assert_eq!(node.use_count().get(), 1);
        node.core().census.created(T::BLOCK, block_size::<T>());
        Self(Some(Rc::new(Control(RefCell::new(Some(node))))))
    }

    /// The node, which lives as long as any `Shared` does.
    pub(crate) fn get(&self) -> Ref<'_, T> {
        Ref::map(self.block().0.borrow(), |node| {
            node.as_ref().expect("a node lives while it is shared")
        })
    }

    pub(crate) fn downgrade(&self) -> Weak<T> {
        Weak(Rc::clone(self.block()))
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        Rc::ptr_eq(self.block(), other.block())
    }

    fn block(&self) -> &Rc<Control<T>> {
        self.0.as_ref().expect("only a dropped handle is empty")
    }
}

impl<T: Managed> Clone for Shared<T> {
    fn clone(&self) -> Self {
        let node = self.get();
        let uses = node.use_count();
        uses.set(uses.get() + 1);
        Self(self.0.clone())
    }
}

impl<T: Managed> Drop for Shared<T> {
    fn drop(&mut self) {
        let Some(block) = self.0.take() else { return };
        let last = block.0.borrow().as_ref().is_some_and(|node| {
            let uses = node.use_count();
            uses.set(uses.get() - 1);
            uses.get() == 0
        });
        if last {
            let node = block.0.borrow_mut().take();
            T::destroy(Dying { node, block });
        }
    }
}

impl<T: Managed> Weak<T> {
    /// A use of the node, if it still lives.
    pub(crate) fn lock(&self) -> Option<Shared<T>> {
        let node = self.0.0.borrow();
        let uses = node.as_ref()?.use_count();
        uses.set(uses.get() + 1);
        Some(Shared(Some(Rc::clone(&self.0))))
    }

    /// Lets the block go; the last holder of a dead node's block frees it.
    pub(crate) fn release(self, core: &Core) {
        if Rc::strong_count(&self.0) == 1 {
            core.census.dropped(T::BLOCK, block_size::<T>());
        }
    }
}

impl<T: Managed> Dying<T> {
    /// The runtime of the node.
    pub(crate) fn core(&self) -> Option<Rc<Core>> {
        self.node.as_ref().map(|node| Rc::clone(node.core()))
    }
}

impl<T: Managed> Drop for Dying<T> {
    fn drop(&mut self) {
        let Some(node) = self.node.take() else { return };
        let core = Rc::clone(node.core());
        // The node goes first: its destructor may give back the last weak holds.
        drop(node);
        if Rc::strong_count(&self.block) == 1 {
            core.census.dropped(T::BLOCK, block_size::<T>());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autograd::node::{LeafNode, OpNode, WeakNode};

    #[test]
    fn a_weak_pointer_is_two_words_and_an_operator_block_is_32_bytes() {
        assert_eq!(size_of::<WeakNode>(), 16);
        assert_eq!(block_size::<Box<OpNode>>(), 32);
    }

    #[test]
    fn a_leaf_block_falls_in_the_256_byte_class() {
        assert!(
            (225..=256).contains(&block_size::<LeafNode>()),
            "{}",
            block_size::<LeafNode>()
        );
    }
}
