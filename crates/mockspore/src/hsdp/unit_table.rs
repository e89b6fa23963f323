//! Units as data: what a model's `fully_shard` calls make of one step.
//!
//! A unit registers a hook on each output that requires grad, applies a
//! `PostBackwardFunction` if an input does, and issues its collectives. The
//! counts of a step are sums over the table. Models what
//! `hyper_parallel/platform/mindspore/fully_shard/scheduler.py` and `state.py`
//! do. Not modelled: which parameters a unit has.

use std::borrow::Cow;

/// How parameters are laid out over the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mesh {
    /// One dimension: sharded only (FSDP).
    Sharded,
    /// Two dimensions: sharded within a group, replicated between groups (HSDP).
    Replicated,
}

/// One unit: one `fully_shard` call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// The module it wraps.
    pub name: Cow<'static, str>,
    /// Outputs that require grad, each with a hook.
    pub outputs: u64,
    /// Whether an input requires grad, so that a function is applied.
    pub input_requires_grad: bool,
    /// Parameters that are sharded.
    pub sharded_params: u64,
    /// Parameters that are only replicated.
    pub replicate_params: u64,
    /// Forwards in one step: 2 for a unit within a recomputed block. The unit
    /// that ends the block has 1: its hook fires before the block is
    /// recomputed, and `PRE_BACKWARD` makes the second forward pass it by.
    pub forwards: u64,
}

impl Unit {
    /// A unit with one output, one sharded parameter and a gated input.
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            name: name.into(),
            outputs: 1,
            input_requires_grad: true,
            sharded_params: 1,
            replicate_params: 0,
            forwards: 1,
        }
    }

    /// The same with another number of outputs that require grad.
    #[must_use]
    pub fn with_outputs(mut self, outputs: u64) -> Self {
        self.outputs = outputs;
        self
    }

    /// The same with another number of sharded parameters.
    #[must_use]
    pub fn with_params(mut self, sharded: u64) -> Self {
        self.sharded_params = sharded;
        self
    }

    /// The same on inputs that require no grad: token ids, an embedding's.
    #[must_use]
    pub fn on_plain_inputs(mut self) -> Self {
        self.input_requires_grad = false;
        self
    }
}

/// What one training step makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepCounts {
    /// Tensor hooks registered.
    pub hooks: u64,
    /// `PostBackwardFunction` applies.
    pub post_backward_functions: u64,
    /// Other custom functions: scalers of the auxiliary loss.
    pub aux_loss_scalers: u64,
    /// Other custom functions: chunked losses.
    pub chunk_losses: u64,
    /// All-gathers of parameters.
    pub all_gathers: u64,
    /// Reduce-scatters of gradients.
    pub reduce_scatters: u64,
    /// All-reduces of gradients between replicas.
    pub all_reduces: u64,
}

impl StepCounts {
    /// All custom functions: each loses a `needs_input_grad` tuple.
    pub fn applies(&self) -> u64 {
        self.post_backward_functions + self.aux_loss_scalers + self.chunk_losses
    }

    /// All collectives of the units: each leaves an event.
    pub fn collectives(&self) -> u64 {
        self.all_gathers + self.reduce_scatters + self.all_reduces
    }
}

/// A model as its units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitTable {
    /// The units, in the order of their forwards; the root last.
    pub units: Vec<Unit>,
    /// Layers with a mixture of experts: each applies a scaler.
    pub aux_loss_scalers: u64,
    /// Chunked losses: one, and one for each prediction head.
    pub chunk_losses: u64,
    /// Whether parameters are sharded again after the forward.
    pub reshard_after_forward: bool,
    /// The layout.
    pub mesh: Mesh,
    /// Whether a unit's parameters travel together (`comm_fusion`).
    pub comm_fusion: bool,
}

/// A model to make a table for, wrapped as `MindFormers` of July 2026 wraps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Model {
    /// Transformer layers.
    pub layers: u64,
    /// The first so many have no experts.
    pub dense_layers: u64,
    /// Ranks that share the experts; above 1 the experts are a unit.
    pub expert_parallel: u64,
    /// Heads that predict further tokens, each a layer with a loss of its own.
    pub multi_token_heads: u64,
    /// The layout.
    pub mesh: Mesh,
}

impl Model {
    /// The 12-layer model of the report: 2 dense layers, experts on 8 ranks.
    pub const REPORTED: Self = Self {
        layers: 12,
        dense_layers: 2,
        expert_parallel: 8,
        multi_token_heads: 0,
        mesh: Mesh::Sharded,
    };
}

/// Units of a layer of `MindFormers` (July 2026), besides router and experts.
const LAYER_UNITS: [&str; 5] = ["layer", "input_norm", "pre_mlp_norm", "q_norm", "k_norm"];

impl UnitTable {
    /// The table of a model, as `MindFormers` of July 2026 wraps it.
    pub fn generate(model: Model) -> Self {
        let mut units = vec![Unit::new("embedding").on_plain_inputs()];
        let blocks = model.layers + model.multi_token_heads;
        for layer in 0..blocks {
            let part = |part: &str| Unit::new(format!("{layer}.{part}"));
            units.extend(LAYER_UNITS.map(part));
            if layer >= model.dense_layers {
                units.push(part("router"));
                units.extend((model.expert_parallel > 1).then(|| part("experts")));
            }
        }
        units.extend(["final_norm", "output"].map(Unit::new));
        units.push(Unit::new("root").on_plain_inputs());
        Self {
            units,
            aux_loss_scalers: blocks.saturating_sub(model.dense_layers),
            chunk_losses: 1 + model.multi_token_heads,
            reshard_after_forward: true,
            mesh: model.mesh,
            comm_fusion: false,
        }
    }

    /// 84 hooks and 82 applies: the report's model in `MindFormers` of July 2026.
    pub fn mf_2026_07() -> Self {
        Self::generate(Model::REPORTED)
    }

    /// 26 hooks and 24 applies: the same in `MindFormers` 2.1.0, which wraps
    /// whole layers.
    pub fn mf_2_1_0() -> Self {
        let layers = (0..12).map(|layer| Unit::new(format!("{layer}.layer")));
        let experts = (2..12).map(|layer| Unit::new(format!("{layer}.experts")));
        Self::from_blocks(layers.chain(experts))
    }

    /// 182 hooks and 122 applies: the report's own counts. The tree behind them
    /// is not known; this is one of those that fit: 9 hooks and 5 applies a
    /// layer, 7 and 6 a layer with experts, 4 and 2 around them.
    pub fn seed301() -> Self {
        let parts = |layer: u64, outputs: &'static [u64], kind: &'static str| {
            let part = move |(part, &outputs): (usize, &u64)| {
                Unit::new(format!("{layer}.{kind}{part}")).with_outputs(outputs)
            };
            outputs.iter().enumerate().map(part)
        };
        let layers = (0..12).flat_map(|layer| parts(layer, &[2, 2, 2, 2, 1], "block"));
        let experts = (2..12).flat_map(|layer| parts(layer, &[2, 1, 1, 1, 1, 1], "moe"));
        Self::from_blocks(layers.chain(experts))
    }

    /// The report's model around these units.
    fn from_blocks(blocks: impl Iterator<Item = Unit>) -> Self {
        let head = Unit::new("embedding").on_plain_inputs();
        let tail = ["final_norm", "output"].map(Unit::new);
        let root = Unit::new("root").on_plain_inputs();
        Self {
            units: [head]
                .into_iter()
                .chain(blocks)
                .chain(tail)
                .chain([root])
                .collect(),
            aux_loss_scalers: 10,
            chunk_losses: 1,
            reshard_after_forward: true,
            mesh: Mesh::Sharded,
            comm_fusion: false,
        }
    }

    /// What a step of `micro_batches` makes; gradients are reduced in the last.
    pub fn step(&self, micro_batches: u64) -> StepCounts {
        let sum = |of: &dyn Fn(&Unit) -> u64| self.units.iter().map(of).sum::<u64>();
        let gathers = 1 + u64::from(self.reshard_after_forward);
        // One call for each sharded parameter, or for all of a unit.
        let most = if self.comm_fusion { 1 } else { u64::MAX };
        let calls = sum(&|unit| unit.sharded_params.min(most));
        let between_replicas = u64::from(self.mesh == Mesh::Replicated) * calls;
        StepCounts {
            hooks: micro_batches * sum(&|unit| unit.forwards * unit.outputs),
            post_backward_functions: micro_batches
                * sum(&|unit| unit.forwards * u64::from(unit.input_requires_grad)),
            aux_loss_scalers: micro_batches * self.aux_loss_scalers,
            chunk_losses: micro_batches * self.chunk_losses,
            all_gathers: micro_batches * gathers * calls,
            reduce_scatters: calls,
            all_reduces: between_replicas + sum(&|unit| unit.replicate_params),
        }
    }
}
