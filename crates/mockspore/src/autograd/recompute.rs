//! Non-reentrant recompute, and the exception that ends it early.
//!
//! ```text
//! backward fn ─▶ place holder ─▶ frame ─▶ inputs, block, recomputed values
//! ```
//!
//! The forward saves place holders instead of values. The first that the
//! backward needs runs the block again, with hooks that fill them all. With
//! early stop the hook raises as soon as the last is filled: *inside* the
//! operator that is saving, whose output object already exists and has no
//! owner. Models `mindspore.recompute(..., use_reentrant=False)`
//! (`common/recompute.py`). Not modelled: random state, keyword arguments,
//! several backwards through one recompute, the throw-away classes of
//! `_run_in_jit`.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::mem::size_of;
use std::rc::{Rc, Weak};

use crate::autograd::saved::{Packed, SavedTensorHook};
use crate::census::Kind;
use crate::error::Error;
use crate::policy::RecomputeStop;
use crate::runtime::{Core, Runtime};
use crate::tensor::{Array, Tensor};

/// A part of a forward that can be run again.
pub trait Block {
    /// The outputs for `inputs`.
    ///
    /// # Errors
    /// What the user raises.
    fn forward(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error>;
}

impl<F: Fn(&[Tensor]) -> Result<Vec<Tensor>, Error>> Block for F {
    fn forward(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
        self(inputs)
    }
}

/// One call of `recompute`.
struct Frame {
    core: Rc<Core>,
    block: Rc<dyn Block>,
    inputs: Vec<Tensor>,
    stop: RecomputeStop,
    /// Values saved in the forward.
    saved: Cell<usize>,
    /// Values saved again; taken out as they are used.
    recomputed: RefCell<Vec<Option<Array>>>,
    done: Cell<bool>,
    stopped: Cell<bool>,
}

impl Frame {
    const SIZE: usize = 2 * size_of::<usize>() + size_of::<Self>();

    fn lists(&self) -> usize {
        self.inputs.capacity() * size_of::<Tensor>()
    }

    /// Runs the block again, on inputs without their graph.
    fn recompute(self: &Rc<Self>) -> Result<(), Error> {
        self.done.set(true);
        let leaf = |input: &Tensor| {
            let copy = Tensor::from_array(input.array().clone(), None);
            if input.requires_grad() {
                copy.requires_grad_();
            }
            copy
        };
        let inputs: Vec<Tensor> = self.inputs.iter().map(leaf).collect();
        let grad_flag = self.core.grad_flag.replace(true);
        let hook = Recomputing(Rc::downgrade(self));
        let outputs = hooked(&self.core, Rc::new(hook), || self.block.forward(&inputs));
        self.core.grad_flag.set(grad_flag);
        match outputs {
            // Whatever came out of the block, it was this frame that stopped it.
            Err(_) if self.stopped.get() => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        let census = &self.core.census;
        census.dropped(Kind::RecomputeFrame, Self::SIZE);
        census.dropped(Kind::SavedTensors, self.lists());
    }
}

/// Stands for a saved value until the backward needs it.
struct PlaceHolder {
    frame: Rc<Frame>,
    index: usize,
}

impl PlaceHolder {
    const SIZE: usize = 2 * size_of::<usize>() + size_of::<Self>();

    fn new(frame: &Rc<Frame>, index: usize) -> Rc<Self> {
        frame.core.census.created(Kind::PlaceHolder, Self::SIZE);
        let frame = Rc::clone(frame);
        Rc::new(Self { frame, index })
    }
}

impl Drop for PlaceHolder {
    fn drop(&mut self) {
        self.frame
            .core
            .census
            .dropped(Kind::PlaceHolder, Self::SIZE);
    }
}

impl Packed for PlaceHolder {
    fn unpack(&self) -> Result<Array, Error> {
        if !self.frame.done.get() {
            self.frame.recompute()?;
        }
        let mut recomputed = self.frame.recomputed.borrow_mut();
        let value = recomputed.get_mut(self.index).and_then(Option::take);
        if recomputed.iter().all(Option::is_none) {
            // Emptied lists go at once: the census does not count them.
            recomputed.clear();
            recomputed.shrink_to_fit();
        }
        value.ok_or(Error::NotRecomputed)
    }
}

/// Saves place holders: the hook of the forward.
struct Saving(Rc<Frame>);

impl SavedTensorHook for Saving {
    fn pack(&self, _value: &Array) -> Result<Rc<dyn Packed>, Error> {
        let index = self.0.saved.get();
        self.0.saved.set(index + 1);
        Ok(PlaceHolder::new(&self.0, index))
    }
}

/// Keeps the values: the hook of the recomputed forward.
struct Recomputing(Weak<Frame>);

impl SavedTensorHook for Recomputing {
    fn pack(&self, value: &Array) -> Result<Rc<dyn Packed>, Error> {
        let frame = self.0.upgrade().ok_or(Error::NotRecomputed)?;
        let mut recomputed = frame.recomputed.borrow_mut();
        recomputed.push(Some(value.clone()));
        let filled = recomputed.len() == frame.saved.get();
        if filled && frame.stop == RecomputeStop::Early {
            frame.stopped.set(true);
            return Err(Error::StopRecomputation);
        }
        Ok(Rc::new(Nothing))
    }
}

/// What the graph of the recomputed forward saves: it is never run backward.
struct Nothing;

impl Packed for Nothing {
    fn unpack(&self) -> Result<Array, Error> {
        Err(Error::NotRecomputed)
    }
}

/// Runs `body` with a hook on the stack.
fn hooked<R>(core: &Core, hook: Rc<dyn SavedTensorHook>, body: impl FnOnce() -> R) -> R {
    core.saved_tensor_hooks.borrow_mut().push(hook);
    let result = body();
    let hook = core.saved_tensor_hooks.borrow_mut().pop();
    drop(hook);
    result
}

/// Runs `block` without keeping what its backward needs: that is computed
/// again when it is wanted, up to where `stop` says.
///
/// # Errors
/// What the block raises.
pub fn recompute(
    runtime: &Runtime,
    block: &Rc<dyn Block>,
    inputs: &[Tensor],
    stop: RecomputeStop,
) -> Result<Vec<Tensor>, Error> {
    let core = runtime.core();
    let frame = Rc::new(Frame {
        core: Rc::clone(core),
        block: Rc::clone(block),
        inputs: inputs.to_vec(),
        stop,
        saved: Cell::default(),
        recomputed: RefCell::default(),
        done: Cell::default(),
        stopped: Cell::default(),
    });
    core.census.created(Kind::RecomputeFrame, Frame::SIZE);
    core.census.created(Kind::SavedTensors, frame.lists());
    hooked(core, Rc::new(Saving(frame)), || block.forward(inputs))
}

impl fmt::Debug for dyn Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Block")
    }
}
