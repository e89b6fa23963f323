//! A world of ranks, stepped in one thread.
//!
//! ```text
//! World ─▶ Runtime of rank 0 ─▶ its device, events, registries
//!      └─▶ Runtime of rank 1 ─▶ …
//! ```
//!
//! Each rank is a process of its own, so it has a Runtime of its own. A
//! collective is called once for all ranks, with one tensor of each, and moves
//! real values; one handle comes back for each rank. Ranks that call one after
//! the other use a [`ProcessGroup`]. Models
//! `mint.distributed` (`PyboostDistComm*Op`).

use std::rc::Rc;

use crate::comm::comm_handle::CommHandle;
use crate::comm::group::ProcessGroup;
use crate::comm::pending::Streams;
use crate::comm::reduce::{ReduceOp, reduced};
use crate::error::Error;
use crate::policy::Device;
use crate::runtime::Runtime;
use crate::tensor::{Array, Tensor};

/// Ticks that a collective takes on its stream, unless set.
const COLLECTIVE_TICKS: u64 = 8;

/// The ranks that take part in collectives.
#[derive(Debug, Clone)]
pub struct World {
    ranks: Rc<[Runtime]>,
    ticks: u64,
    /// What groups of this world have issued.
    streams: Rc<Streams>,
}

impl World {
    /// A world of these runtimes, in rank order.
    pub fn new(ranks: &[Runtime]) -> Self {
        Self {
            ranks: ranks.into(),
            ticks: COLLECTIVE_TICKS,
            streams: Rc::new(Streams::of(ranks.len())),
        }
    }

    /// The same world with collectives that take `ticks`.
    #[must_use]
    pub fn with_ticks(mut self, ticks: u64) -> Self {
        self.ticks = ticks;
        self
    }

    /// A group of some ranks of this world; `None` if one does not exist.
    pub fn group(&self, ranks: &[usize]) -> Option<ProcessGroup> {
        let members = ranks
            .iter()
            .map(|&rank| Some((rank, self.ranks.get(rank)?.clone())));
        let members: Option<Vec<_>> = members.collect();
        Some(ProcessGroup::new(&members?, self.ticks, &self.streams))
    }

    /// The runtimes, in rank order.
    pub fn ranks(&self) -> &[Runtime] {
        &self.ranks
    }

    /// Every rank's tensor becomes the reduction of all (`all_reduce`).
    ///
    /// # Errors
    /// [`Error::RankTensors`] if tensors do not belong to the ranks or differ
    /// in shape.
    pub fn all_reduce(&self, tensors: &[Tensor], op: ReduceOp) -> Result<Vec<CommHandle>, Error> {
        self.one_of_each_rank(tensors)?;
        let reduced = reduced(&refs(tensors), op);
        for tensor in tensors {
            tensor.array().assign(reduced.iter().copied());
        }
        Ok(self.launch())
    }

    /// Every rank's tensor becomes that of rank `src` (`broadcast`).
    ///
    /// # Errors
    /// [`Error::RankTensors`], and [`Error::NoRank`] if there is no such rank.
    pub fn broadcast(&self, tensors: &[Tensor], src: usize) -> Result<Vec<CommHandle>, Error> {
        self.one_of_each_rank(tensors)?;
        let source = tensors.get(src).ok_or(Error::NoRank { rank: src })?;
        let values = source.to_vec();
        for tensor in tensors {
            tensor.array().assign(values.iter().copied());
        }
        Ok(self.launch())
    }

    /// Every rank's output `r` becomes the input of rank `r` (`all_gather`).
    ///
    /// # Errors
    /// [`Error::RankTensors`] if an output lacks or does not fit.
    pub fn all_gather(
        &self,
        outputs: &[Vec<Tensor>],
        inputs: &[Tensor],
    ) -> Result<Vec<CommHandle>, Error> {
        self.one_of_each_rank(inputs)?;
        let fits = |list: &Vec<Tensor>| {
            list.len() == inputs.len() && list.iter().all(|one| one.shape() == inputs[0].shape())
        };
        if outputs.len() != inputs.len() || !outputs.iter().all(fits) {
            return Err(Error::RankTensors {
                ranks: self.ranks.len(),
            });
        }
        for list in outputs {
            for (output, input) in list.iter().zip(inputs) {
                output.array().assign(input.array().values());
            }
        }
        Ok(self.launch())
    }

    /// Every rank's output becomes all inputs, one behind the other
    /// (`all_gather_into_tensor`).
    ///
    /// # Errors
    /// [`Error::KernelUnregistered`] on CPU, as there; [`Error::RankTensors`]
    /// if an output does not have room for exactly that.
    pub fn all_gather_into_tensor(
        &self,
        outputs: &[Tensor],
        inputs: &[Tensor],
    ) -> Result<Vec<CommHandle>, Error> {
        self.registered("DistCommAllGatherIntoTensor")?;
        self.sharded(outputs, inputs)?;
        let all: Vec<f32> = inputs.iter().flat_map(|one| one.array().values()).collect();
        for output in outputs {
            output.array().assign(all.iter().copied());
        }
        Ok(self.launch())
    }

    /// Every rank's output becomes its part of the reduction of all inputs
    /// (`reduce_scatter_tensor`).
    ///
    /// # Errors
    /// As [`Self::all_gather_into_tensor`].
    pub fn reduce_scatter_tensor(
        &self,
        outputs: &[Tensor],
        inputs: &[Tensor],
        op: ReduceOp,
    ) -> Result<Vec<CommHandle>, Error> {
        self.registered("DistCommReduceScatterTensor")?;
        self.sharded(inputs, outputs)?;
        let reduced = reduced(&refs(inputs), op);
        let part = reduced.len() / outputs.len().max(1);
        for (rank, output) in outputs.iter().enumerate() {
            output
                .array()
                .assign(reduced[rank * part..].iter().copied());
        }
        Ok(self.launch())
    }

    /// `ops.AllReduce()`: the older primitive. New tensors, no handle, and an
    /// entry in the abstract cache for each tensor.
    ///
    /// # Errors
    /// [`Error::RankTensors`]; [`Error::ReduceOnCpu`] on CPU for any but a sum.
    pub fn all_reduce_primitive(
        &self,
        tensors: &[Tensor],
        op: ReduceOp,
    ) -> Result<Vec<Tensor>, Error> {
        self.one_of_each_rank(tensors)?;
        if op != ReduceOp::Sum && self.on_cpu() {
            return Err(Error::ReduceOnCpu);
        }
        let reduced = reduced(&refs(tensors), op);
        let outputs = tensors.iter().map(|tensor| {
            let array = Array::new(tensor.core(), tensor.shape(), reduced.iter().copied());
            let output = Tensor::from_array(array, None);
            let core = tensor.core();
            core.node_abs_cache.enter(core, &[tensor], &output);
            output
        });
        Ok(outputs.collect())
    }

    fn launch(&self) -> Vec<CommHandle> {
        let launch = |rank: &Runtime| CommHandle::launch(rank.core(), self.ticks);
        self.ranks.iter().map(launch).collect()
    }

    /// One tensor of each rank, all of one shape.
    fn one_of_each_rank(&self, tensors: &[Tensor]) -> Result<(), Error> {
        let own = |(tensor, rank): (&Tensor, &Runtime)| Rc::ptr_eq(tensor.core(), rank.core());
        let same_shape = tensors.iter().all(|one| one.shape() == tensors[0].shape());
        let fits = tensors.len() == self.ranks.len()
            && same_shape
            && tensors.iter().zip(self.ranks.iter()).all(own);
        fits.then_some(()).ok_or(Error::RankTensors {
            ranks: self.ranks.len(),
        })
    }

    /// `whole` tensors of as many values as all `parts` together.
    fn sharded(&self, whole: &[Tensor], parts: &[Tensor]) -> Result<(), Error> {
        self.one_of_each_rank(whole)?;
        self.one_of_each_rank(parts)?;
        let size = |tensors: &[Tensor]| tensors.first().map_or(0, |one| one.shape().size());
        let fits = size(whole) == size(parts) * self.ranks.len();
        fits.then_some(()).ok_or(Error::RankTensors {
            ranks: self.ranks.len(),
        })
    }

    fn on_cpu(&self) -> bool {
        self.ranks.iter().any(|rank| rank.device() == Device::Cpu)
    }

    fn registered(&self, kernel: &'static str) -> Result<(), Error> {
        (!self.on_cpu())
            .then_some(())
            .ok_or(Error::KernelUnregistered { kernel })
    }
}

fn refs(tensors: &[Tensor]) -> Vec<&Tensor> {
    tensors.iter().collect()
}
