//! The step on the mock: collectives of a world of ranks, and a synchronisation.
//! The same step on `ms` is in `repro_collective_event_host_memory.py`.

use mockspore::{AbstractLimits, CommHandle, Error, ReduceOp, Runtime, StreamId, Tensor, World};

use crate::mock::{Mock, Setting};

/// What one call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Collective {
    Nothing,
    AllReduce,
    AllGather,
    AllGatherIntoTensor,
    ReduceScatterTensor,
    Broadcast,
    AllReducePrimitive,
}

/// What the caller does with the handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    Sync,
    Async,
    Never,
    OnTwoStreams,
}

struct Collectives {
    world: World,
    collective: Collective,
    wait: Wait,
    own_event: bool,
    calls: u64,
    /// One tensor of each rank, and what is gathered from or scattered to.
    tensors: Vec<Tensor>,
    whole: Vec<Tensor>,
    lists: Vec<Vec<Tensor>>,
}

const TWO_STREAMS: [StreamId; 2] = [StreamId::DEFAULT, StreamId::COPY];

/// Makes everything long-lived, so that a step leaves behind only the defect.
pub(crate) fn build(setting: &Setting<'_>) -> Result<Box<dyn Mock>, Error> {
    let collective = match setting.choice("collective") {
        "nothing" => Collective::Nothing,
        "all_gather" => Collective::AllGather,
        "all_gather_into_tensor" => Collective::AllGatherIntoTensor,
        "reduce_scatter_tensor" => Collective::ReduceScatterTensor,
        "broadcast" => Collective::Broadcast,
        "all_reduce_primitive" => Collective::AllReducePrimitive,
        _ => Collective::AllReduce,
    };
    let wait = match setting.choice("wait") {
        "async" => Wait::Async,
        "never" => Wait::Never,
        "two_streams" => Wait::OnTwoStreams,
        _ => Wait::Sync,
    };
    let ranks = setting.ranks();
    for rank in ranks {
        rank.set_acl_residue(setting.integer("acl_residue_bytes") as usize);
        rank.set_abstract_limits(AbstractLimits {
            threshold: setting.integer("threshold") as usize,
            drops: setting.integer("drops") as usize,
        });
    }
    let each = |dims: &[usize]| -> Result<Vec<Tensor>, Error> {
        let tensors = ranks
            .iter()
            .map(|rank| setting.random_tensor_of(rank, dims));
        tensors.collect()
    };
    let mut lists = vec![Vec::new(); ranks.len()];
    for _ in ranks {
        for (list, tensor) in lists.iter_mut().zip(each(&[4])?) {
            list.push(tensor);
        }
    }
    Ok(Box::new(Collectives {
        world: World::new(ranks).with_ticks(setting.integer("collective_ticks")),
        collective,
        wait,
        own_event: setting.choice("own_event") == "yes",
        calls: setting.integer("calls_per_step"),
        tensors: each(&[4])?,
        whole: each(&[4 * ranks.len()])?,
        lists,
    }))
}

impl Mock for Collectives {
    fn step(&mut self) -> Result<(), Error> {
        for _ in 0..self.calls {
            for handle in self.call()? {
                self.wait_for(&handle);
            }
            if self.own_event {
                self.world.ranks().iter().for_each(Runtime::use_event);
            }
        }
        for rank in self.world.ranks() {
            rank.synchronize();
        }
        Ok(())
    }
}

impl Collectives {
    fn call(&self) -> Result<Vec<CommHandle>, Error> {
        let (world, tensors) = (&self.world, &self.tensors);
        match self.collective {
            Collective::Nothing => Ok(Vec::new()),
            Collective::AllReduce => world.all_reduce(tensors, ReduceOp::Max),
            Collective::AllGather => world.all_gather(&self.lists, tensors),
            Collective::AllGatherIntoTensor => world.all_gather_into_tensor(&self.whole, tensors),
            Collective::ReduceScatterTensor => {
                world.reduce_scatter_tensor(tensors, &self.whole, ReduceOp::Max)
            }
            Collective::Broadcast => world.broadcast(tensors, 0),
            Collective::AllReducePrimitive => {
                world.all_reduce_primitive(tensors, ReduceOp::Sum)?;
                Ok(Vec::new())
            }
        }
    }

    fn wait_for(&self, handle: &CommHandle) {
        match self.wait {
            Wait::Never => {}
            Wait::Sync | Wait::Async => handle.wait(),
            Wait::OnTwoStreams => {
                for stream in TWO_STREAMS {
                    handle.wait_on(stream);
                }
            }
        }
    }
}
