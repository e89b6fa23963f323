//! The hooks around the experts of one layer, on all ranks.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use crate::error::Error;
use crate::moe::expert_parallel::context::DispatchContext;
use crate::moe::expert_parallel::handle::{AsyncHandle, Deredundency, OepGroup};
use crate::moe::expert_parallel::plan::{Plan, inverse, permuted, seen};
use crate::moe::expert_parallel::routing::{Mesh, Routing};
use crate::moe::expert_parallel::rows;
use crate::ops;
use crate::policy::CombineHandle;
use crate::runtime::Runtime;
use crate::tensor::Tensor;

/// Ticks that an all-to-all takes on its stream.
const TICKS: u64 = 8;

/// How the layer communicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The ranks.
    pub mesh: Mesh,
    /// Whether the combine returns before its all-to-all is done.
    pub async_combine: bool,
    /// Whether outer ranks gather their rows instead of sending each twice.
    pub deredundency: bool,
}

/// What one rank's module keeps between two hooks.
#[derive(Default)]
struct Module {
    dispatch_ctx: RefCell<Option<Rc<DispatchContext>>>,
    combine_handle: RefCell<Option<AsyncHandle>>,
}

/// One layer's experts and hooks.
pub struct ExpertParallel {
    runtime: Runtime,
    options: Options,
    modules: Box<[Module]>,
    /// The experts' rows, in `tp` shares that add up.
    weights: Box<[Tensor]>,
}

impl ExpertParallel {
    /// A layer whose expert `e` multiplies by row `e` of the sum of `weights`,
    /// one matrix of all experts for each `tp` rank.
    ///
    /// # Errors
    /// [`Error::Routing`] for a number of weights that is not `tp`, and for
    /// deredundency with `tp`, which upstream rejects.
    pub fn new(runtime: &Runtime, options: Options, weights: Vec<Tensor>) -> Result<Self, Error> {
        let require = |holds: bool, why| holds.then_some(()).ok_or(Error::Routing { why });
        let shares = weights.len() == options.mesh.tp && options.mesh.tp > 0;
        require(
            shares,
            "there must be one share of the experts for each tp rank",
        )?;
        let either = !options.deredundency || options.mesh.tp == 1;
        require(either, "ExpertTensorParallel has no deredundency")?;
        Ok(Self {
            runtime: runtime.clone(),
            options,
            modules: (0..options.mesh.ep()).map(|_| Module::default()).collect(),
            weights: weights.into(),
        })
    }

    /// Dispatch, experts and combine; `order` is the order in which the ranks
    /// wait for their combine.
    ///
    /// # Errors
    /// [`Error::Routing`] for rows that do not fit, and what operators raise.
    pub fn forward(
        &self,
        routed: &[Tensor],
        routing: &Routing,
        order: &[usize],
    ) -> Result<Vec<Tensor>, Error> {
        let received = self.dispatch(routed, routing)?;
        let computed = self.experts(&received, routing)?;
        self.combine(&computed, order)
    }

    /// Sends each row to the rank of its expert (the forward pre-hook).
    ///
    /// # Errors
    /// As [`Self::forward`].
    pub fn dispatch(&self, routed: &[Tensor], routing: &Routing) -> Result<Vec<Tensor>, Error> {
        let mesh = self.options.mesh;
        let ranks = mesh.ep();
        let fits = |(rank, tensor): (usize, &Tensor)| {
            tensor.shape().dims().first() == Some(&routing.rows(rank))
        };
        let fit = routed.len() == ranks && routed.iter().enumerate().all(fits);
        let even = !self.options.deredundency || routing.is_even(mesh);
        let why = "each rank needs a row for each that is routed, gathered ranks as many";
        (fit && even).then_some(()).ok_or(Error::Routing { why })?;
        let plans = Plan::of_all(routing, &self.options);
        let mut sent = Vec::with_capacity(ranks);
        for (rank, plan) in plans.iter().enumerate() {
            sent.push(self.sent(routed, rank, plan)?);
        }
        let sent: Vec<&Tensor> = sent.iter().collect();
        let received = self.exchange(&sent, |from, to| plans[from].splits[to])?;
        let mut outputs = Vec::with_capacity(ranks);
        for (rank, received) in received.iter().enumerate() {
            let permuted = permuted(&plans, rank);
            outputs.push(ops::index_select(received, &permuted)?);
            let mut ctx = DispatchContext::new(self.runtime.core());
            ctx.input_splits = plans[rank].splits.clone().into();
            ctx.output_splits = plans.iter().map(|plan| plan.splits[rank]).collect();
            ctx.permuted_indices = permuted.into();
            if self.options.deredundency {
                ctx.dispatch_indices = plans[rank].indices.clone().into();
                ctx.router_coeff = plans[rank].coefficients.clone().into();
                ctx.gathered_rows = mesh.oep * routing.rows(rank);
            }
            self.modules[rank].dispatch_ctx.replace(Some(ctx.finish()));
        }
        Ok(outputs)
    }

    /// What the experts make of the rows that each rank received.
    ///
    /// # Errors
    /// What operators raise.
    pub fn experts(&self, received: &[Tensor], routing: &Routing) -> Result<Vec<Tensor>, Error> {
        let plans = Plan::of_all(routing, &self.options);
        let of_rank = |(rank, rows): (usize, &Tensor)| {
            let experts = seen(&plans, rank);
            let mut sum: Option<Tensor> = None;
            for share in &self.weights {
                let product = ops::mul(rows, &ops::index_select(share, &experts)?)?;
                sum = Some(match sum {
                    None => product,
                    Some(sum) => ops::add(&sum, &product)?,
                });
            }
            sum.ok_or(Error::Routing {
                why: "there is no expert",
            })
        };
        received.iter().enumerate().map(of_rank).collect()
    }

    /// Sends the rows back (the forward hook).
    ///
    /// # Errors
    /// [`Error::Routing`] without a dispatch before it; what operators raise.
    pub fn combine(&self, computed: &[Tensor], order: &[usize]) -> Result<Vec<Tensor>, Error> {
        let handles = self.combine_start(computed)?;
        let mut outputs: Vec<Option<Tensor>> = handles.iter().map(|_| None).collect();
        for &rank in order {
            outputs[rank] = Some(self.finish(rank, &handles[rank])?);
        }
        let why = "each rank must wait once";
        let outputs: Option<Vec<Tensor>> = outputs.into_iter().collect();
        outputs.ok_or(Error::Routing { why })
    }

    /// What a rank's hook does with its handle.
    fn finish(&self, rank: usize, handle: &AsyncHandle) -> Result<Tensor, Error> {
        let slot = &self.modules[rank].combine_handle;
        let policy = self.runtime.policies().combine_handle;
        let stays = matches!(
            policy,
            CombineHandle::KeptOnModule | CombineHandle::KeptForDebug
        );
        let leaves = matches!(
            policy,
            CombineHandle::ClearedAfterWait | CombineHandle::OneShotSlot
        );
        if self.options.async_combine && (stays || leaves) {
            // The old one goes first: it may end a graph.
            drop(slot.replace(Some(handle.clone())));
        }
        let output = handle.wait()?;
        if leaves {
            drop(slot.take());
        }
        Ok(output)
    }

    fn combine_start(&self, computed: &[Tensor]) -> Result<Vec<AsyncHandle>, Error> {
        let context = |module: &Module| module.dispatch_ctx.borrow().clone();
        let contexts: Option<Vec<_>> = self.modules.iter().map(context).collect();
        let why = "combine needs a dispatch before it";
        let contexts = contexts.ok_or(Error::Routing { why })?;
        let mut sent = Vec::with_capacity(computed.len());
        for (rows, ctx) in computed.iter().zip(&contexts) {
            sent.push(ops::index_select(rows, &inverse(&ctx.permuted_indices))?);
        }
        let sent: Vec<&Tensor> = sent.iter().collect();
        let back = self.exchange(&sent, |from, to| contexts[from].output_splits[to])?;
        Ok(self.handles(back, &contexts))
    }

    fn handles(&self, back: Vec<Tensor>, contexts: &[Rc<DispatchContext>]) -> Vec<AsyncHandle> {
        let Mesh { oep, iep, .. } = self.options.mesh;
        let groups = (0..iep).map(|i| {
            let ranks = (0..oep).map(|o| o * iep + i);
            let part = |rank: usize| (back[rank].clone(), Rc::clone(&contexts[rank]));
            OepGroup::new(self.runtime.core(), ranks.map(part).collect())
        });
        let groups: Vec<Rc<OepGroup>> = if self.options.deredundency {
            groups.collect()
        } else {
            Vec::new()
        };
        let handle = |(rank, tensor): (usize, Tensor)| {
            let group = groups.get(rank % iep);
            let own = group.map(|group| Deredundency {
                group: Rc::clone(group),
                outer_rank: rank / iep,
                ctx: Rc::clone(&contexts[rank]),
                combined: RefCell::default(),
            });
            AsyncHandle::new(tensor, TICKS, own)
        };
        back.into_iter().enumerate().map(handle).collect()
    }

    /// The handle that a rank's module keeps.
    pub fn combine_handle(&self, rank: usize) -> Option<AsyncHandle> {
        self.modules[rank].combine_handle.borrow().clone()
    }

    /// The context that a rank's module keeps.
    pub fn dispatch_context(&self, rank: usize) -> Option<Rc<DispatchContext>> {
        self.modules[rank].dispatch_ctx.borrow().clone()
    }

    /// What a rank hands to the exchange: its own rows, or those of its outer
    /// expert range from all outer ranks.
    fn sent(&self, routed: &[Tensor], rank: usize, plan: &Plan) -> Result<Tensor, Error> {
        let Mesh { oep, iep, .. } = self.options.mesh;
        if !self.options.deredundency {
            return Ok(routed[rank].clone());
        }
        let peers: Vec<&Tensor> = (0..oep).map(|o| &routed[o * iep + rank % iep]).collect();
        ops::index_select(&rows::concat(&peers)?, &plan.indices)
    }

    /// Exchanges rows between those ranks that exchange with each other.
    fn exchange(
        &self,
        sent: &[&Tensor],
        splits: impl Fn(usize, usize) -> usize,
    ) -> Result<Vec<Tensor>, Error> {
        let ranks = sent.len();
        let table = (0..ranks).map(|from| (0..ranks).map(|to| splits(from, to)).collect());
        let table: Vec<Vec<usize>> = table.collect();
        let group = self.exchange_group();
        let mut outputs = Vec::with_capacity(ranks);
        for start in (0..ranks).step_by(group) {
            let members = start..start + group;
            let inner = table[members.clone()]
                .iter()
                .map(|row| row[members.clone()].to_vec());
            outputs.extend(rows::all_to_all(
                &sent[members.clone()],
                &inner.collect::<Vec<_>>(),
            )?);
        }
        Ok(outputs)
    }

    /// Ranks that exchange: all, or the inner ones of one outer rank.
    fn exchange_group(&self) -> usize {
        if self.options.deredundency {
            return self.options.mesh.iep;
        }
        self.options.mesh.ep()
    }
}

impl fmt::Debug for ExpertParallel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpertParallel")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
