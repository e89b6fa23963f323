//! Training on the mock with a load monitor that is registered several times.

use mockspore::census::{Kind, Tally};
use mockspore::moe::{Member, MoeModel, MoeMonitorCallback, Optimizer};
use mockspore::{Device, Error, Runtime, World};
use mockspore_growth::report::Finding;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::finding::{Observed, Setting, figures};

const LAYERS: usize = 2;
const EXPERTS: usize = 8;
/// `expert_bias_lr`.
const RATE: f32 = 1e-3;

/// Tokens of each expert in one forward.
type Tokens = Vec<f32>;

/// One rank's training.
struct Rank {
    runtime: Runtime,
    model: MoeModel,
    callback: MoeMonitorCallback,
    optimizers: Vec<Optimizer>,
}

/// What every arm does the same way.
struct Plan {
    steps: u64,
    /// Whether a forward runs between the optimizers' steps.
    apart: bool,
    /// By forward.
    tokens: Vec<Tokens>,
}

impl Plan {
    fn of(setting: &Setting<'_>) -> Self {
        let (steps, apart) = (
            setting.integer("steps"),
            setting.choice("schedule") == "apart",
        );
        let mut random = ChaCha8Rng::seed_from_u64(setting.seed);
        let mut count = |_| f32::from(random.random_range(0..4096_u16));
        // One more step follows `remove`.
        let tokens = (0..2 * (steps + 1)).map(|_| (0..EXPERTS).map(&mut count).collect());
        Self {
            steps,
            apart,
            tokens: tokens.collect(),
        }
    }

    fn step(&self, ranks: &[Rank], step: u64) -> Result<(), Error> {
        let optimizers = ranks.first().map_or(0, |rank| rank.optimizers.len());
        for optimizer in 0..optimizers {
            if optimizer == 0 || self.apart {
                let tokens = &self.tokens[2 * step as usize + optimizer];
                ranks
                    .iter()
                    .try_for_each(|rank| rank.model.forward(tokens, 0.5))?;
            }
            ranks
                .iter()
                .try_for_each(|rank| rank.optimizers[optimizer].step())?;
        }
        Ok(())
    }
}

/// Ranks with models of their own, and nothing registered.
fn ranks(setting: &Setting<'_>, optimizers: u64) -> Result<Vec<Rank>, Error> {
    let runtime = |_| Runtime::new(setting.policies, Device::Cpu);
    let runtimes: Vec<Runtime> = (0..setting.integer("ranks")).map(runtime).collect();
    let world = World::new(&runtimes);
    let all: Vec<usize> = (0..runtimes.len()).collect();
    let group = world.group(&all).ok_or(Error::NoRank { rank: 0 })?;
    let rank = |(member, runtime): (usize, Runtime)| {
        let model = MoeModel::new(&runtime, LAYERS, EXPERTS)?;
        let group = group.clone();
        let groups = vec![Member { group, member }];
        Ok(Rank {
            callback: MoeMonitorCallback::new(&runtime, &model, RATE, 1, groups),
            optimizers: (0..optimizers).map(|_| Optimizer::new(&runtime)).collect(),
            model,
            runtime,
        })
    };
    let ranks = runtimes.into_iter().enumerate().map(rank);
    ranks.collect()
}

fn biases(rank: &Rank) -> Vec<Vec<u32>> {
    let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect();
    let layers = rank.model.layers().iter();
    layers.map(|layer| bits(layer.expert_bias())).collect()
}

/// The biases if the callback was registered once, on the last optimizer.
fn once(setting: &Setting<'_>, plan: &Plan) -> Result<Vec<Vec<u32>>, Error> {
    let ranks = ranks(setting, setting.integer("optimizers"))?;
    for rank in &ranks {
        let last = rank.optimizers.last();
        last.map_or(Ok(()), |optimizer| rank.callback.register(optimizer))?;
    }
    (0..plan.steps).try_for_each(|step| plan.step(&ranks, step))?;
    Ok(biases(&ranks[0]))
}

/// Registers as often as the arm says; how often that was refused.
fn register(setting: &Setting<'_>, ranks: &[Rank]) -> Result<u64, Error> {
    let mut refused = 0;
    for (number, rank) in ranks.iter().enumerate() {
        let times = match number {
            0 => setting.integer("registrations"),
            _ => setting.integer("registrations_elsewhere"),
        };
        for (_, optimizer) in (0..times).zip(rank.optimizers.iter().cycle()) {
            match rank.callback.register(optimizer) {
                Ok(()) => {}
                Err(Error::AlreadyRegistered) => refused += 1,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(refused)
}

/// Runs an arm.
pub(crate) fn observe(setting: &Setting<'_>) -> Result<Observed, Error> {
    let plan = Plan::of(setting);
    let reference = once(setting, &plan)?;
    let mut ranks = ranks(setting, setting.integer("optimizers"))?;
    let refused = register(setting, &ranks)?;
    plan.step(&ranks, 0)?;
    let hang = hang(&ranks);
    let first = &ranks[0];
    let calls_per_step = first.callback.calls();
    let collectives = first.runtime.census().tally(Tally::Collectives);
    (1..plan.steps).try_for_each(|step| plan.step(&ranks, step))?;
    let first = &ranks[0];
    // Where ranks hang, nothing is computed any more.
    let bias_as_once = hang.is_null().then(|| biases(first) == reference);
    let before_remove = first.callback.calls();
    for rank in &ranks {
        rank.callback.remove();
    }
    let hooks: Vec<usize> = first.optimizers.iter().map(Optimizer::hooks).collect();
    plan.step(&ranks, plan.steps)?;
    let after_remove = ranks[0].callback.calls() - before_remove;
    let Rank {
        runtime,
        model,
        callback,
        optimizers,
    } = ranks.swap_remove(0);
    let (callback_lives, model_lives) = (callback.observe(), model.observe());
    drop((callback, model));
    let found = json!({
        "registrations": setting.integer("registrations"),
        "refused": refused,
        "calls_per_step": calls_per_step,
        "collectives_per_step": collectives,
        "hooks_after_remove": hooks.iter().sum::<usize>(),
        "calls_per_step_after_remove": after_remove,
        "callback_alive": callback_lives(),
        "model_alive": model_lives(),
        "bias_as_once": bias_as_once,
        "would_hang": hang,
    });
    let mut observed = Observed::of(Finding::RegisteredTimes(figures(found)));
    observed.evidence = figures(json!({ "hooks_after_remove_by_optimizer": hooks }));
    observed.holders = holders(&runtime, &hooks);
    drop(optimizers);
    Ok(observed)
}

/// What a real world would wait for after one step.
fn hang(ranks: &[Rank]) -> Value {
    let group = ranks[0].callback.groups().first();
    let hang = group.and_then(|member| member.group.hang());
    hang.map_or(Value::Null, |error| error.to_string().into())
}

/// Who holds the callback when the trainer has dropped it.
fn holders(runtime: &Runtime, hooks: &[usize]) -> Vec<String> {
    let held = (1..).zip(hooks).filter(|&(_, &count)| count > 0);
    let mut lines: Vec<String> = held
        .map(|(optimizer, count)| {
            format!(
                "optimizer {optimizer}: {count} hooks, each -> lambda -> callback -> model ({LAYERS} layers)"
            )
        })
        .collect();
    let kinds = [Kind::StepHook, Kind::MonitorCallback, Kind::MoeModel];
    lines.extend(
        kinds
            .into_iter()
            .filter(|&kind| runtime.live(kind) > 0)
            .map(|kind| {
                let (live, bytes) = (runtime.live(kind), runtime.census().counts(kind).live_bytes);
                format!(
                    "{}: {live} blocks, {bytes} B, held by {}",
                    kind.name(),
                    kind.held_by()
                )
            }),
    );
    lines
}
