//! Random programs of collectives on one rank's device, and an account of what
//! its registry must hold and which hazards there must be.

use mockspore::census::Tally;
use mockspore::{
    CommHandle, Device, EventRelease, Policies, ReduceOp, Runtime, StreamId, Tensor, Version, World,
};
use proptest::prelude::*;

/// One operation; indices are taken modulo what is there.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    AllReduce,
    Broadcast,
    AllGather,
    ReduceScatter,
    Wait(usize, usize),
    Drop(usize),
    Advance(u64),
    Compute(usize, u64),
    Synchronize,
    UseEvent,
}

pub(crate) const MAX_OPS: usize = 80;
/// Ticks of a collective: much longer than the host's part of it.
pub(crate) const TICKS: u64 = 25;
const RANKS: usize = 2;

pub(crate) fn programs() -> impl Strategy<Value = Vec<Op>> {
    let index = 0_usize..64;
    let op = prop_oneof![
        3 => Just(Op::AllReduce),
        1 => Just(Op::Broadcast),
        1 => Just(Op::AllGather),
        1 => Just(Op::ReduceScatter),
        4 => (index.clone(), 0_usize..4).prop_map(|(at, stream)| Op::Wait(at, stream)),
        5 => index.prop_map(Op::Drop),
        2 => (0_u64..60).prop_map(Op::Advance),
        1 => (0_usize..4, 0_u64..60).prop_map(|(stream, ticks)| Op::Compute(stream, ticks)),
        1 => Just(Op::Synchronize),
        1 => Just(Op::UseEvent),
    ];
    prop::collection::vec(op, 1..MAX_OPS)
}

pub(crate) const CAP: usize = 2;

pub(crate) const ALL: [EventRelease; 6] = [
    EventRelease::NeverErased,
    EventRelease::ErasedByManager,
    EventRelease::OnWait,
    EventRelease::OnCompletion,
    EventRelease::Pooled { cap: CAP as u32 },
    EventRelease::PooledUnchecked { cap: CAP as u32 },
];

/// What the account knows of a handle.
#[derive(Debug, Clone, Copy)]
struct Issued {
    completes_at: u64,
    waited: bool,
}

/// A program's world: rank 0 beside a plain account of its time and registry.
pub(crate) struct Bench {
    world: World,
    handles: Vec<(Vec<CommHandle>, Issued)>,
    tensors: Vec<Tensor>,
    whole: Vec<Tensor>,
    lists: Vec<Vec<Tensor>>,
    now: u64,
    busy: [u64; 4],
    /// Collectives so far.
    pub(crate) issued: usize,
    /// When the work of handles that are gone is done.
    retired: Vec<u64>,
    unswept: usize,
    pub(crate) early: u64,
    pub(crate) unwaited: u64,
    /// Bits of every value that a collective has moved.
    pub(crate) values: Vec<u32>,
}

fn streams() -> [StreamId; 4] {
    [0, 1, 2, 3].map(|number| StreamId::new(number).unwrap())
}

impl Bench {
    pub(crate) fn new(event_release: EventRelease) -> Self {
        let policies = Policies {
            event_release,
            ..Policies::mindspore(Version::V2_10_0)
        };
        let ranks: Vec<Runtime> = (0..RANKS)
            .map(|_| Runtime::new(policies, Device::Ascend))
            .collect();
        let each = |values: usize| -> Vec<Tensor> {
            let of_rank = |(rank, runtime): (usize, &Runtime)| {
                let data: Vec<f32> = (0..values).map(|at| (at + 7 * rank) as f32 + 0.5).collect();
                runtime.tensor(&data, &[values]).unwrap()
            };
            ranks.iter().enumerate().map(of_rank).collect()
        };
        let (tensors, whole) = (each(2), each(2 * RANKS));
        let lists = ranks.iter().map(|rank| {
            let output = || rank.tensor(&[0.0; 2], &[2]).unwrap();
            vec![output(), output()]
        });
        Self {
            lists: lists.collect(),
            tensors,
            whole,
            world: World::new(&ranks).with_ticks(TICKS),
            handles: Vec::with_capacity(MAX_OPS),
            now: 0,
            busy: [0; 4],
            issued: 0,
            retired: Vec::with_capacity(MAX_OPS),
            unswept: 0,
            early: 0,
            unwaited: 0,
            values: Vec::with_capacity(MAX_OPS * 16),
        }
    }

    pub(crate) fn ranks(&self) -> &[Runtime] {
        self.world.ranks()
    }

    pub(crate) fn release(&self) -> EventRelease {
        self.ranks()[0].policies().event_release
    }

    pub(crate) fn live(&self) -> usize {
        self.handles.len()
    }

    /// Events of handles that are gone whose work ran at the last sweep: those
    /// that a fix may still have in the registry.
    pub(crate) fn unswept(&self) -> usize {
        self.unswept
    }

    /// Handles alive that nobody has waited for.
    pub(crate) fn live_unwaited(&self) -> usize {
        let waited = |(_, issued): &&(Vec<CommHandle>, Issued)| !issued.waited;
        self.handles.iter().filter(waited).count()
    }

    #[allow(dead_code, reason = "not every user counts bytes")]
    /// Bytes of the list of handles that one collective returns.
    pub(crate) fn handle_list_bytes() -> usize {
        RANKS * size_of::<CommHandle>()
    }

    pub(crate) fn hazard(&self, tally: Tally) -> u64 {
        self.ranks()[0].census().tally(tally)
    }

    pub(crate) fn run(&mut self, program: &[Op]) {
        for &op in program {
            self.apply(op);
        }
    }

    pub(crate) fn apply(&mut self, op: Op) {
        match op {
            Op::AllReduce => {
                let handles = self.world.all_reduce(&self.tensors, ReduceOp::Sum);
                self.launched(handles.unwrap());
                let values = self.tensors[0].to_vec();
                self.note(&values);
            }
            Op::Broadcast => {
                let handles = self.world.broadcast(&self.tensors, 1);
                self.launched(handles.unwrap());
                let values = self.tensors[0].to_vec();
                self.note(&values);
            }
            Op::AllGather => {
                let handles = self.world.all_gather(&self.lists, &self.tensors);
                self.launched(handles.unwrap());
                let values = self.lists[0][1].to_vec();
                self.note(&values);
            }
            Op::ReduceScatter => {
                let handles =
                    self.world
                        .reduce_scatter_tensor(&self.tensors, &self.whole, ReduceOp::Max);
                self.launched(handles.unwrap());
                let values = self.tensors[1].to_vec();
                self.note(&values);
            }
            Op::Wait(at, stream) => self.wait(at, stream),
            Op::Drop(at) => self.drop_handle(at),
            Op::Advance(ticks) => {
                self.ranks().iter().for_each(|rank| rank.advance(ticks));
                self.now += ticks;
            }
            Op::Compute(stream, ticks) => {
                let id = streams()[stream];
                self.ranks().iter().for_each(|rank| rank.launch(id, ticks));
                self.busy[stream] = self.busy[stream].max(self.now) + ticks;
            }
            Op::Synchronize => {
                self.ranks().iter().for_each(Runtime::synchronize);
                self.now = self.busy.into_iter().fold(self.now, u64::max);
            }
            Op::UseEvent => self.ranks().iter().for_each(Runtime::use_event),
        }
        // A wait and queued work sweep nothing.
        if !matches!(op, Op::Wait(..) | Op::Compute(..)) {
            let now = self.now;
            self.retired.retain(|&done| done > now);
            self.unswept = self.retired.len();
        }
    }

    fn note(&mut self, values: &[f32]) {
        self.values
            .extend(values.iter().map(|value| value.to_bits()));
    }

    fn launched(&mut self, handles: Vec<CommHandle>) {
        self.issued += 1;
        self.now += 10;
        self.busy[1] = self.busy[1].max(self.now) + TICKS;
        let issued = Issued {
            completes_at: self.busy[1],
            waited: false,
        };
        self.handles.push((handles, issued));
    }

    fn wait(&mut self, at: usize, stream: usize) {
        if self.handles.is_empty() {
            return;
        }
        let at = at % self.handles.len();
        let (handles, issued) = &mut self.handles[at];
        let before = handles[0].waited_on(streams()[stream]);
        for handle in handles.iter() {
            handle.wait_on(streams()[stream]);
        }
        if before {
            return;
        }
        self.now += 1;
        let first = !std::mem::replace(&mut issued.waited, true);
        let done = issued.completes_at;
        self.busy[stream] = self.busy[stream].max(done);
        let on_wait = self.release() == EventRelease::OnWait;
        if on_wait && first && done > self.now {
            self.early += 1;
        }
    }

    fn drop_handle(&mut self, at: usize) {
        if self.handles.is_empty() {
            return;
        }
        let at = at % self.handles.len();
        let (handles, issued) = self.handles.remove(at);
        drop(handles);
        let runs = issued.completes_at > self.now;
        let release = self.release();
        let at_drop = match release {
            EventRelease::NeverErased | EventRelease::ErasedByManager => true,
            EventRelease::OnWait => !issued.waited,
            _ => false,
        };
        if at_drop && runs {
            self.early += 1;
            self.unwaited += u64::from(!issued.waited);
        }
        self.retired.push(issued.completes_at);
    }

    /// Lets go of every handle and waits for the device.
    pub(crate) fn finish(&mut self) {
        while !self.handles.is_empty() {
            self.apply(Op::Drop(0));
        }
        self.apply(Op::Synchronize);
    }
}
