//! A model whose layers are sharded experts, and the same model dense.

use std::rc::Rc;

use mockspore::moe::expert_parallel::{ExpertParallel, Mesh, Options, Routing};
use mockspore::{CombineHandle, Device, Error, Function, FunctionCtx, Runtime, Tensor, apply, ops};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use crate::finding::Setting;

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
pub(super) struct Training {
    pub(super) runtime: Runtime,
    options: Options,
    routing: Routing,
    pub(super) layers: Vec<ExpertParallel>,
    /// By layer: the shares of its experts.
    weights: Vec<Vec<Tensor>>,
    gate: Tensor,
    pub(super) inputs: Vec<Tensor>,
    sens: Vec<Tensor>,
    function: Rc<dyn Function>,
}

impl Training {
    pub(super) fn new(setting: &Setting<'_>, policy: CombineHandle) -> Result<Self, Error> {
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
    pub(super) fn forward(&self, dispatched: &mut dyn FnMut()) -> Result<Vec<Tensor>, Error> {
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
    pub(super) fn dense(&self) -> Result<Vec<Tensor>, Error> {
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
    pub(super) fn values(&self, outputs: &[Tensor]) -> Result<Vec<Vec<f32>>, Error> {
        let mut values: Vec<Vec<f32>> = outputs.iter().map(Tensor::to_vec).collect();
        self.backward(outputs)?;
        let leaves = self.inputs.iter().chain(self.weights.iter().flatten());
        let grads = leaves.chain([&self.gate]).map(Tensor::take_grad);
        values.extend(grads.flatten().map(|grad| grad.to_vec()));
        Ok(values)
    }

    pub(super) fn backward(&self, outputs: &[Tensor]) -> Result<(), Error> {
        self.runtime.run_backward(outputs, Some(&self.sens), false)
    }

    /// Adds the gradients to the experts; `within` is called while the sums
    /// are there.
    pub(super) fn optimizer_step(&self, within: &mut dyn FnMut()) -> Result<(), Error> {
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
