//! Two steps of training on the mock, and what the combine handles hold in
//! each phase beyond what a local handle would.

use std::rc::Rc;

use mockspore::census::{Counts, Kind};
use mockspore::moe::expert_parallel::{ExpertParallel, Mesh, Options, Routing};
use mockspore::{CombineHandle, Device, Error, Function, FunctionCtx, Runtime, Tensor, apply, ops};
use mockspore_growth::report::Finding;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use serde_json::{Map, Value, json};

use crate::finding::{Observed, Setting, figures};

/// The reference's example: rows of one rank, values of a row, bytes of each.
const EXAMPLE: [u64; 3] = [32_768, 7_168, 2];
/// Bytes of a storage's block before its values.
const STORAGE_HEADER: u64 = 16;
const MIB: f64 = 1024.0 * 1024.0;

/// Keeps its second input as a plain attribute of its ctx, as
/// `_MoEAuxLossAutoScaler` does.
struct AuxLoss;

impl Function for AuxLoss {
    fn forward(&self, ctx: &FunctionCtx, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
        ctx.set_attribute(&inputs[1]);
        Ok(vec![inputs[0].clone()])
    }

    fn backward(
        &self,
        _: &FunctionCtx,
        grads: &[Option<Tensor>],
    ) -> Result<Vec<Option<Tensor>>, Error> {
        Ok(vec![grads[0].clone(), None])
    }
}

/// Small whole numbers, so that sums in any order are exact.
struct Numbers(ChaCha8Rng);

impl Numbers {
    fn tensor(&mut self, runtime: &Runtime, rows: usize, columns: usize) -> Result<Tensor, Error> {
        let one = |_| f32::from(self.0.random_range(1..4_u8));
        let values: Vec<f32> = (0..rows * columns).map(one).collect();
        runtime.tensor(&values, &[rows, columns])
    }
}

/// One world with its layers.
struct Training {
    runtime: Runtime,
    options: Options,
    routing: Routing,
    layers: Vec<ExpertParallel>,
    /// By layer: the shares of its experts.
    weights: Vec<Vec<Tensor>>,
    gate: Tensor,
    inputs: Vec<Tensor>,
    sens: Vec<Tensor>,
    function: Rc<dyn Function>,
}

impl Training {
    fn new(setting: &Setting<'_>, policy: CombineHandle) -> Result<Self, Error> {
        let mut policies = setting.policies;
        policies.combine_handle = policy;
        let runtime = Runtime::new(policies, Device::Cpu);
        let integer = |name| setting.integer(name) as usize;
        let (oep, iep, tp) = (integer("oep"), integer("iep"), integer("tp"));
        let mesh = Mesh { oep, iep, tp };
        let options = Options {
            mesh,
            async_combine: setting.choice("async_combine") == "on",
            deredundency: setting.choice("dispatch") == "deredundency",
        };
        let (rows, hidden, experts) = (integer("rows"), integer("hidden"), integer("experts"));
        let mut numbers = Numbers(ChaCha8Rng::seed_from_u64(setting.seed));
        let by = if options.deredundency { 0.5 } else { 1.0 };
        let mut route = |_| (numbers.0.random_range(0..experts), by);
        let table: Vec<Vec<(usize, f32)>> = (0..mesh.ep())
            .map(|_| (0..rows).map(&mut route).collect())
            .collect();
        let tensor = |numbers: &mut Numbers, rows| numbers.tensor(&runtime, rows, hidden);
        let weights = (0..integer("layers")).map(|_| {
            (0..tp)
                .map(|_| leaf(tensor(&mut numbers, experts)))
                .collect()
        });
        let weights = weights.collect::<Result<Vec<Vec<Tensor>>, Error>>()?;
        let layer = |weights: &Vec<Tensor>| ExpertParallel::new(&runtime, options, weights.clone());
        let layers = weights.iter().map(layer).collect::<Result<_, Error>>()?;
        let inputs = (0..mesh.ep()).map(|_| leaf(tensor(&mut numbers, rows)));
        let inputs = inputs.collect::<Result<_, Error>>()?;
        let sens = (0..mesh.ep()).map(|_| tensor(&mut numbers, rows));
        let sens = sens.collect::<Result<_, Error>>()?;
        runtime.set_grad_flag(true);
        Ok(Self {
            routing: Routing::new(mesh, experts, &table)?,
            gate: leaf(tensor(&mut numbers, 1))?,
            function: Rc::new(AuxLoss),
            runtime,
            options,
            layers,
            weights,
            inputs,
            sens,
        })
    }

    /// What comes before the experts of a layer, on one rank.
    fn before(&self, stream: &Tensor) -> Result<Tensor, Error> {
        let aux_loss = self.runtime.tensor(&[1.0], &[1])?;
        let passed = apply(&self.runtime, &self.function, &[stream.clone(), aux_loss])?;
        ops::mul(&passed[0], &self.gate)
    }

    /// All layers; `dispatched` is called behind each dispatch.
    fn forward(&self, dispatched: &mut dyn FnMut()) -> Result<Vec<Tensor>, Error> {
        let mut streams = self.inputs.clone();
        // The ranks wait in the opposite order of their numbers.
        let order: Vec<usize> = (0..streams.len()).rev().collect();
        for layer in &self.layers {
            let routed = streams.iter().map(|stream| self.before(stream));
            let routed = routed.collect::<Result<Vec<_>, Error>>()?;
            let received = layer.dispatch(&routed, &self.routing)?;
            dispatched();
            let computed = layer.experts(&received, &self.routing)?;
            streams = layer.combine(&computed, &order)?;
        }
        Ok(streams)
    }

    /// The same on each rank alone, which has all experts.
    fn dense(&self) -> Result<Vec<Tensor>, Error> {
        let of_rank = |(rank, input): (usize, &Tensor)| {
            let mut stream = input.clone();
            for shares in &self.weights {
                let rows = self.before(&stream)?;
                let experts = self.routing.experts_of(rank);
                stream = dense_layer(&rows, shares, experts)?;
                if self.options.deredundency {
                    let by = self.routing.coefficients_of(rank);
                    stream = ops::mul(&stream, &self.runtime.tensor(by, &[by.len(), 1])?)?;
                }
            }
            Ok(stream)
        };
        self.inputs.iter().enumerate().map(of_rank).collect()
    }

    /// The values of the outputs and of every gradient.
    fn values(&self, outputs: &[Tensor]) -> Result<Vec<Vec<f32>>, Error> {
        let mut values: Vec<Vec<f32>> = outputs.iter().map(Tensor::to_vec).collect();
        self.backward(outputs)?;
        let leaves = self.inputs.iter().chain(self.weights.iter().flatten());
        let grads = leaves.chain([&self.gate]).map(Tensor::take_grad);
        values.extend(grads.flatten().map(|grad| grad.to_vec()));
        Ok(values)
    }

    fn backward(&self, outputs: &[Tensor]) -> Result<(), Error> {
        self.runtime.run_backward(outputs, Some(&self.sens), false)
    }

    /// Adds the gradients to the experts; `within` is called while the sums
    /// are there.
    fn optimizer_step(&self, within: &mut dyn FnMut()) -> Result<(), Error> {
        self.runtime.set_grad_flag(false);
        for weight in self.weights.iter().flatten() {
            if let Some(grad) = weight.take_grad() {
                weight.copy_(&ops::add(weight, &grad)?);
            }
        }
        within();
        for input in self.inputs.iter().chain([&self.gate]) {
            drop(input.take_grad());
        }
        self.runtime.set_grad_flag(true);
        Ok(())
    }
}

fn leaf(tensor: Result<Tensor, Error>) -> Result<Tensor, Error> {
    let tensor = tensor?;
    tensor.requires_grad_();
    Ok(tensor)
}

/// Rows of the experts' sum, without an exchange.
fn dense_layer(rows: &Tensor, shares: &[Tensor], experts: &[usize]) -> Result<Tensor, Error> {
    let mut sum: Option<Tensor> = None;
    for share in shares {
        let product = ops::mul(rows, &ops::index_select(share, experts)?)?;
        sum = Some(match sum {
            None => product,
            Some(sum) => ops::add(&sum, &product)?,
        });
    }
    sum.ok_or(Error::Routing {
        why: "there is no expert",
    })
}

type Census = [Counts; Kind::ALL.len()];

/// The blocks in each phase, by its name.
fn phases(training: &Training, with_backward: bool) -> Result<Vec<(&'static str, Census)>, Error> {
    let mut seen = Vec::new();
    let mut see = |phase| {
        let census = training.runtime.census();
        seen.push((phase, Kind::ALL.map(|kind| census.counts(kind))));
    };
    let outputs = training.forward(&mut || ())?;
    see("after_forward");
    if with_backward {
        training.backward(&outputs)?;
    }
    drop(outputs);
    see("after_backward");
    training.optimizer_step(&mut || see("in_optimizer_step"))?;
    let mut first = true;
    let outputs = training.forward(&mut || {
        if std::mem::take(&mut first) {
            see("in_next_forward");
        }
    })?;
    see("after_next_forward");
    drop(outputs);
    Ok(seen)
}

/// What one phase has beyond the control, by layer.
fn excess(own: &Census, control: &Census, layers: u64) -> Map<String, Value> {
    let of = |kind: Kind| (own[kind as usize], control[kind as usize]);
    let blocks = |kind| {
        let (own, control) = of(kind);
        (own.live() - control.live()) / layers
    };
    let (own, control) = of(Kind::Storage);
    let values = |counts: Counts| counts.live_bytes - STORAGE_HEADER * counts.live();
    figures(json!({
        "value_bytes": (values(own) - values(control)) / layers,
        "nodes": blocks(Kind::OpNode),
        "ctx_objects": blocks(Kind::FunctionCtx),
        "handles": blocks(Kind::AsyncHandle),
    }))
}

/// Runs an arm.
pub(crate) fn observe(setting: &Setting<'_>) -> Result<Observed, Error> {
    let with_backward = setting.choice("backward") == "on";
    let training = Training::new(setting, setting.policies.combine_handle)?;
    let control = Training::new(setting, CombineHandle::LocalHandle)?;
    let layers = setting.integer("layers");
    let own = phases(&training, with_backward)?;
    let base = phases(&control, with_backward)?;
    let pairs = own.iter().zip(&base);
    let phases = pairs.map(|((phase, own), (_, base))| {
        let beyond = excess(own, base, layers);
        ((*phase).to_owned(), beyond)
    });
    let phases: Vec<(String, Map<String, Value>)> = phases.collect();
    let held = training
        .layers
        .iter()
        .filter_map(|layer| layer.combine_handle(0));
    let held: Vec<_> = held.flat_map(|handle| handle.held()).collect();
    let of_layer = held.len() as u64 / layers;
    let [rows, hidden, bytes] = EXAMPLE;
    let mut found = figures(json!({
        "until": until(&phases),
        "held_tensors_per_layer": of_layer,
        "dispatch_context_kept": training.layers.iter().all(|layer| layer.dispatch_context(0).is_some()),
        "as_dense": as_dense(setting)?,
        "example_mib_per_layer": (of_layer * rows * hidden * bytes) as f64 / MIB,
    }));
    found.extend(
        phases
            .iter()
            .map(|(phase, excess)| (phase.clone(), excess.clone().into())),
    );
    let mut observed = Observed::of(Finding::RetainedUntil(found));
    let line = |held: &mockspore::moe::expert_parallel::Held| {
        format!(
            "module.{} {} ({} B) -> grad_fn -> the whole graph before it",
            held.path, held.shape, held.bytes
        )
    };
    observed.holders = held.iter().map(line).collect();
    observed
        .holders
        .push("module._ep_dispatch_ctx: kept by contract".to_owned());
    observed.phases = phases;
    Ok(observed)
}

/// Up to which phase values are held that a local handle would have let go.
fn until(phases: &[(String, Map<String, Value>)]) -> &'static str {
    let holds = |phase: &str| {
        let mut found = phases.iter().filter(|(name, _)| name == phase);
        found.any(|(_, excess)| excess["value_bytes"] != 0)
    };
    match (holds("in_next_forward"), holds("after_backward")) {
        (true, _) => "the combine of the next forward",
        (false, true) => "the end of the step",
        (false, false) => "the combine",
    }
}

/// Whether outputs and gradients are those of a dense model, bit for bit.
fn as_dense(setting: &Setting<'_>) -> Result<bool, Error> {
    let training = Training::new(setting, setting.policies.combine_handle)?;
    let sharded = training.values(&training.forward(&mut || ())?)?;
    let dense = Training::new(setting, CombineHandle::LocalHandle)?;
    Ok(sharded == dense.values(&dense.dense()?)?)
}
