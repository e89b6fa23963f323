//! A process group whose ranks call one after the other.
//!
//! ```text
//! ProcessGroup ─▶ members (runtimes)
//!      └────────▶ Pending ◀─ Streams
//! ```
//!
//! A rank's backward runs from end to end before the next rank's begins, so a
//! reduction runs when its last member calls, and writes every member's output
//! then. That is also what the device does: the handle's `wait()` orders
//! streams, and the host goes on before the values are there. A gather is given
//! the members' inputs at once, since the caller computes with the output; they
//! must not change until all members have called.
//!
//! Members must issue the same calls in the same order, as on a real group.
//! Models `ProcessGroup` of `mint.distributed`.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use crate::comm::comm_handle::CommHandle;
use crate::comm::pending::{Call, Calls, Pending, Streams, execute};
use crate::comm::reduce::ReduceOp;
use crate::error::Error;
use crate::policy::Device;
use crate::runtime::Runtime;
use crate::tensor::Tensor;

struct Member {
    runtime: Runtime,
    /// Calls it has issued.
    issued: Cell<u64>,
}

struct Body {
    members: Box<[Member]>,
    /// The members' ranks in the world.
    ranks: Rc<[usize]>,
    ticks: u64,
    streams: Rc<Streams>,
    calls: Rc<Calls>,
}

/// A group of ranks; clones share it.
#[derive(Clone)]
pub struct ProcessGroup(Rc<Body>);

impl ProcessGroup {
    /// A group of some ranks, whose collectives take `ticks` on their stream.
    pub(super) fn new(members: &[(usize, Runtime)], ticks: u64, streams: &Rc<Streams>) -> Self {
        let member = |(_, runtime): &(usize, Runtime)| Member {
            runtime: runtime.clone(),
            issued: Cell::default(),
        };
        Self(Rc::new(Body {
            members: members.iter().map(member).collect(),
            ranks: members.iter().map(|(rank, _)| *rank).collect(),
            ticks,
            streams: Rc::clone(streams),
            calls: Rc::default(),
        }))
    }

    /// Number of members.
    pub fn size(&self) -> usize {
        self.0.members.len()
    }

    /// The member's tensor becomes the reduction of all members', once all have
    /// called.
    ///
    /// # Errors
    /// [`Error::NoRank`]; [`Error::CollectiveMismatch`] if another member's
    /// call in this place is another one.
    pub fn all_reduce(
        &self,
        member: usize,
        tensor: &Tensor,
        op: ReduceOp,
    ) -> Result<CommHandle, Error> {
        self.issue(member, Call::AllReduce(op), tensor, tensor)
    }

    /// The output becomes the member's part of the reduction of all inputs,
    /// once all have called it.
    ///
    /// # Errors
    /// As [`Self::all_reduce`]; [`Error::KernelUnregistered`] on CPU;
    /// [`Error::RankTensors`] for an input that is not a part for each member.
    pub fn reduce_scatter_tensor(
        &self,
        member: usize,
        output: &Tensor,
        input: &Tensor,
        op: ReduceOp,
    ) -> Result<CommHandle, Error> {
        self.registered("DistCommReduceScatterTensor")?;
        self.parts(input, output)?;
        self.issue(member, Call::ReduceScatter(op), input, output)
    }

    /// The output becomes all members' inputs, one behind the other. `inputs`
    /// are theirs in member order.
    ///
    /// # Errors
    /// As [`Self::reduce_scatter_tensor`].
    pub fn all_gather_into_tensor(
        &self,
        member: usize,
        output: &Tensor,
        inputs: &[Tensor],
    ) -> Result<CommHandle, Error> {
        self.registered("DistCommAllGatherIntoTensor")?;
        let own = inputs.get(member).ok_or(Error::NoRank { rank: member })?;
        self.parts(output, own)?;
        let all = inputs.iter().flat_map(|input| input.array().values());
        output.array().assign(all);
        self.issue(member, Call::AllGather, own, output)
    }

    /// Computes with what the member's collectives so far write, once they have.
    pub(crate) fn behind(&self, member: usize, kernel: impl FnOnce() + 'static) {
        let body = &*self.0;
        let Some(&rank) = body.ranks.get(member) else {
            return;
        };
        if body.streams.is_idle(rank) {
            return kernel();
        }
        body.streams.behind(rank, Box::new(kernel));
    }

    /// The first call that one rank does not come to while another waits in
    /// it: the real group would wait for ever.
    pub fn hang(&self) -> Option<Error> {
        let body = &*self.0;
        let pending = body.calls.pending.borrow();
        let first = pending.front()?;
        // All have issued it, and one has issued something else before.
        let blocked = || (body.ranks.iter()).position(|&rank| body.streams.waits(rank, first));
        let member = first.missing().or_else(blocked)?;
        Some(Error::WouldHang {
            rank: body.ranks[member],
            call: body.calls.executed.get() + 1,
            name: first.call.name(),
        })
    }

    /// Notes the call; it runs when it is the next of all members.
    fn issue(
        &self,
        member: usize,
        call: Call,
        input: &Tensor,
        output: &Tensor,
    ) -> Result<CommHandle, Error> {
        let body = &*self.0;
        let own = body.members.get(member);
        let own = own.ok_or(Error::NoRank { rank: member })?;
        if body.ranks.len() == 1 && body.streams.is_idle(body.ranks[0]) {
            let buffers = (input.clone(), output.clone());
            execute(call, [&buffers].into_iter());
            body.calls.executed.set(body.calls.executed.get() + 1);
        } else {
            let pending = self.join(member, call, input, output)?;
            body.streams.issue(body.ranks[member], &pending);
        }
        own.issued.set(own.issued.get() + 1);
        Ok(CommHandle::launch(own.runtime.core(), body.ticks))
    }

    fn join(
        &self,
        member: usize,
        call: Call,
        input: &Tensor,
        output: &Tensor,
    ) -> Result<Rc<Pending>, Error> {
        let body = &*self.0;
        let mut pending = body.calls.pending.borrow_mut();
        let number = body.members[member].issued.get();
        let at = (number - body.calls.executed.get()) as usize;
        let size = input.shape().size();
        if at == pending.len() {
            pending.push_back(Rc::new(Pending::new(call, size, &body.ranks, &body.calls)));
        }
        let joined = &pending[at];
        if joined.call != call || joined.size != size {
            return Err(Error::CollectiveMismatch {
                rank: body.ranks[member],
                call: number + 1,
                expected: format!("{} of {} values", joined.call.name(), joined.size),
                got: format!("{} of {size} values", call.name()),
            });
        }
        joined.join(member, input, output);
        Ok(Rc::clone(joined))
    }

    fn registered(&self, kernel: &'static str) -> Result<(), Error> {
        let mut members = self.0.members.iter();
        let on_cpu = members.any(|member| member.runtime.device() == Device::Cpu);
        (!on_cpu)
            .then_some(())
            .ok_or(Error::KernelUnregistered { kernel })
    }

    /// `whole` has a part like `part` for each member.
    fn parts(&self, whole: &Tensor, part: &Tensor) -> Result<(), Error> {
        let fits = whole.shape().size() == part.shape().size() * self.size();
        fits.then_some(())
            .ok_or(Error::RankTensors { ranks: self.size() })
    }
}

impl fmt::Debug for ProcessGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessGroup")
            .field("ranks", &self.size())
            .field("executed", &self.0.calls.executed.get())
            .finish_non_exhaustive()
    }
}
