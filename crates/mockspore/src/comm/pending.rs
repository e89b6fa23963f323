//! Collectives that are issued and not executed yet.
//!
//! ```text
//! Streams ─▶ one queue for each rank ─▶ Pending ◀─ ProcessGroup
//!                                          └─▶ inputs and outputs
//! ```
//!
//! A rank's collectives run in the order it issued them, as on one
//! communication stream: a collective runs when it is the next one of all its
//! members. So what reads the output of another one reads what that one wrote,
//! and ranks that issue in different orders wait for each other for ever.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::rc::{Rc, Weak};

use crate::comm::reduce::{ReduceOp, reduced};
use crate::tensor::Tensor;

/// What is called, as `mint.distributed` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    AllReduce(ReduceOp),
    ReduceScatter(ReduceOp),
    AllGather,
}

impl Call {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::AllReduce(_) => "all_reduce",
            Self::ReduceScatter(_) => "reduce_scatter_tensor",
            Self::AllGather => "all_gather_into_tensor",
        }
    }
}

/// Input and output of a member.
type Buffers = (Tensor, Tensor);

/// One collective of a group.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) call: Call,
    /// Values of each member's input.
    pub(super) size: usize,
    /// The members' ranks in the world.
    pub(super) ranks: Rc<[usize]>,
    /// By member, of those that have issued it.
    buffers: RefCell<Box<[Option<Buffers>]>>,
    calls: Weak<Calls>,
}

/// The calls of a group, in their order.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) executed: Cell<u64>,
    /// Those that are not executed.
    pub(super) pending: RefCell<VecDeque<Rc<Pending>>>,
}

impl Pending {
    pub(super) fn new(call: Call, size: usize, ranks: &Rc<[usize]>, calls: &Rc<Calls>) -> Self {
        Self {
            call,
            size,
            ranks: Rc::clone(ranks),
            buffers: RefCell::new(ranks.iter().map(|_| None).collect()),
            calls: Rc::downgrade(calls),
        }
    }

    pub(super) fn join(&self, member: usize, input: &Tensor, output: &Tensor) {
        self.buffers.borrow_mut()[member] = Some((input.clone(), output.clone()));
    }

    /// The first member that has not issued it.
    pub(super) fn missing(&self) -> Option<usize> {
        self.buffers.borrow().iter().position(Option::is_none)
    }

    fn execute(&self) {
        if let Some(calls) = self.calls.upgrade() {
            // A group's calls are executed in their order.
            drop(pop(&mut calls.pending.borrow_mut()));
            calls.executed.set(calls.executed.get() + 1);
        }
        let buffers = self.buffers.take();
        execute(self.call, buffers.iter().flatten());
    }
}

/// Writes what a reduction makes; a gather has written its output already.
pub(super) fn execute<'a>(call: Call, members: impl Iterator<Item = &'a Buffers> + Clone) {
    let (Call::AllReduce(op) | Call::ReduceScatter(op)) = call else {
        return;
    };
    let mut only = members.clone();
    if let (Some((input, output)), None) = (only.next(), only.next()) {
        // A value is its own reduction.
        output.array().assign(input.array().values());
        return;
    }
    let inputs: Vec<&Tensor> = members.clone().map(|(input, _)| input).collect();
    let values = reduced(&inputs, op);
    for (member, (_, output)) in members.enumerate() {
        let part = match call {
            Call::ReduceScatter(_) => member * output.shape().size(),
            _ => 0,
        };
        output.array().assign(values[part..].iter().copied());
    }
}

/// Takes the first; an empty queue has no block, as the census knows of none.
fn pop<T>(queue: &mut VecDeque<T>) -> Option<T> {
    let first = queue.pop_front();
    if queue.is_empty() {
        *queue = VecDeque::new();
    }
    first
}

/// What a rank's stream runs: a collective, or work of its own behind one.
enum Item {
    Collective(Rc<Pending>),
    Kernel(Box<dyn FnOnce()>),
}

/// The communication streams of all ranks.
pub(super) struct Streams(RefCell<Vec<VecDeque<Item>>>);

impl Streams {
    pub(super) fn of(ranks: usize) -> Self {
        Self(RefCell::new((0..ranks).map(|_| VecDeque::new()).collect()))
    }

    /// A rank issues a collective; runs what can run then.
    pub(super) fn issue(&self, rank: usize, pending: &Rc<Pending>) {
        self.0.borrow_mut()[rank].push_back(Item::Collective(Rc::clone(pending)));
        self.run(rank);
    }

    /// A rank computes with what its collectives so far write.
    pub(super) fn behind(&self, rank: usize, kernel: Box<dyn FnOnce()>) {
        self.0.borrow_mut()[rank].push_back(Item::Kernel(kernel));
        self.run(rank);
    }

    fn run(&self, rank: usize) {
        let mut next = vec![rank];
        while let Some(rank) = next.pop() {
            match self.take_ready(rank) {
                None => {}
                Some(Item::Kernel(kernel)) => {
                    kernel();
                    next.push(rank);
                }
                Some(Item::Collective(pending)) => {
                    pending.execute();
                    next.extend(&*pending.ranks);
                }
            }
        }
    }

    /// Takes the rank's first item out, if nothing holds it up.
    fn take_ready(&self, rank: usize) -> Option<Item> {
        let mut queues = self.0.borrow_mut();
        let front = match queues[rank].front()? {
            Item::Kernel(_) => return pop(&mut queues[rank]),
            Item::Collective(front) => Rc::clone(front),
        };
        let mut members = front.ranks.iter();
        if !members.all(|&member| is_first(&queues[member], &front)) {
            return None;
        }
        for &member in &*front.ranks {
            drop(pop(&mut queues[member]));
        }
        Some(Item::Collective(front))
    }

    /// Whether a rank has something else to run before.
    pub(super) fn waits(&self, rank: usize, pending: &Rc<Pending>) -> bool {
        let queue = &self.0.borrow()[rank];
        !queue.is_empty() && !is_first(queue, pending)
    }

    pub(super) fn is_idle(&self, rank: usize) -> bool {
        self.0.borrow()[rank].is_empty()
    }
}

fn is_first(queue: &VecDeque<Item>, pending: &Rc<Pending>) -> bool {
    let first = queue.front();
    first.is_some_and(|item| matches!(item, Item::Collective(own) if Rc::ptr_eq(own, pending)))
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting: Vec<usize> = self.0.borrow().iter().map(VecDeque::len).collect();
        f.debug_tuple("Streams").field(&waiting).finish()
    }
}
