//! Two steps of training on the mock, and what the combine handles hold in
//! each phase beyond what a local handle would.

mod training;

use mockspore::census::{Counts, Kind};
use mockspore::moe::expert_parallel::Held;
use mockspore::{CombineHandle, Error};
use mockspore_growth::report::Finding;
use serde_json::{Map, Value, json};

use crate::finding::{Observed, Setting, figures};
use training::Training;

/// The reference's example: rows of one rank, values of a row, bytes of each.
const EXAMPLE: [u64; 3] = [32_768, 7_168, 2];
/// Bytes of a storage's block before its values.
const STORAGE_HEADER: u64 = 16;
const MIB: f64 = 1024.0 * 1024.0;

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
    let held = held(&training);
    let of_layer = held.iter().filter(|held| held.layer == 0 && held.rank == 0);
    let of_layer = of_layer.count() as u64;
    let [rows, hidden, bytes] = EXAMPLE;
    let mut layers = training.layers.iter();
    let mut found = figures(json!({
        "until": until(&phases),
        "held_tensors_per_layer": of_layer,
        "dispatch_context_kept": layers.all(|layer| layer.dispatch_context(0).is_some()),
        "as_dense": as_dense(setting)?,
        "example_mib_per_layer": (of_layer * rows * hidden * bytes) as f64 / MIB,
    }));
    let by_phase = phases.iter();
    found.extend(by_phase.map(|(phase, excess)| (phase.clone(), excess.clone().into())));
    let mut observed = Observed::of(Finding::RetainedUntil(found));
    let rows = held.iter().map(HeldAt::row);
    observed.evidence = figures(json!({ "held": rows.collect::<Vec<_>>() }));
    observed.holders = held.iter().map(HeldAt::line).collect();
    let context = "module._ep_dispatch_ctx: kept by contract".to_owned();
    observed.holders.push(context);
    observed.phases = phases;
    Ok(observed)
}

/// A tensor that a rank's module holds.
struct HeldAt {
    layer: usize,
    rank: usize,
    held: Held,
}

impl HeldAt {
    fn row(&self) -> Value {
        json!({
            "layer": self.layer,
            "rank": self.rank,
            "path": self.held.path,
            "shape": self.held.shape.dims(),
            "bytes": self.held.bytes,
        })
    }

    fn line(&self) -> String {
        let Held { path, shape, bytes } = &self.held;
        let (layer, rank) = (self.layer, self.rank);
        format!(
            "layer {layer}, rank {rank}: module.{path} {shape} ({bytes} B) -> grad_fn -> the \
             whole graph before it"
        )
    }
}

fn held(training: &Training) -> Vec<HeldAt> {
    let mut all = Vec::new();
    for (layer, module) in training.layers.iter().enumerate() {
        for rank in 0..training.inputs.len() {
            let held = module.combine_handle(rank).map(|handle| handle.held());
            let held = held.into_iter().flatten();
            all.extend(held.map(|held| HeldAt { layer, rank, held }));
        }
    }
    all
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
