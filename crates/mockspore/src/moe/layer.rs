//! A layer that counts the tokens of each expert, and the rule that evens them.
//!
//! ```text
//! MoeModel ─▶ layers ─▶ tokens_per_expert, expert_bias, last_aux_loss
//! ```
//!
//! Models `update_expert_bias` of Hyper-Parallel's `MoE`. Not modelled: the
//! router; the caller says how many tokens went where.

use std::cell::Cell;
use std::fmt;
use std::mem::size_of;
use std::rc::{Rc, Weak};

use crate::census::Kind;
use crate::error::Error;
use crate::policy::ExpertBiasRule;
use crate::runtime::{Core, Runtime};
use crate::tensor::Tensor;

/// One layer.
#[derive(Debug, Clone)]
pub struct MoeLayer {
    pub(super) tokens_per_expert: Tensor,
    pub(super) expert_bias: Tensor,
    last_aux_loss: Cell<f32>,
}

impl MoeLayer {
    /// The bias of each expert.
    pub fn expert_bias(&self) -> Vec<f32> {
        self.expert_bias.to_vec()
    }

    /// Tokens that each expert has had since the last update.
    pub fn tokens_per_expert(&self) -> Vec<f32> {
        self.tokens_per_expert.to_vec()
    }

    /// Moves the bias against the load (`update_expert_bias`).
    pub(super) fn update_expert_bias(&self, rule: ExpertBiasRule, rate: f32, recomputations: u32) {
        let counted = self.tokens_per_expert.to_vec();
        // Each recomputed forward has counted its tokens again.
        let runs = recomputations.max(1) as f32;
        let tokens: Vec<f32> = counted.iter().map(|count| count / runs).collect();
        let experts = tokens.len() as f32;
        let mean = tokens.iter().sum::<f32>() / experts;
        let deltas: Vec<f32> = tokens.iter().map(|&own| rate * sign(mean - own)).collect();
        let shift = deltas.iter().sum::<f32>() / experts;
        let bias = self.expert_bias.to_vec();
        let moved = bias.iter().zip(&deltas);
        let moved = moved.map(|(bias, delta)| bias + (delta - shift));
        self.expert_bias.array().assign(moved);
        let left = tokens.into_iter().map(|tokens| match rule {
            ExpertBiasRule::ZeroesCounters => 0.0,
            ExpertBiasRule::KeepsCounters => tokens,
        });
        self.tokens_per_expert.array().assign(left);
    }
}

/// As `torch.sign`: 0 of 0.
fn sign(value: f32) -> f32 {
    if value == 0.0 { 0.0 } else { value.signum() }
}

struct Body {
    core: Rc<Core>,
    layers: Box<[MoeLayer]>,
}

impl Body {
    const SIZE: usize = 2 * size_of::<usize>() + size_of::<Self>();
}

impl Drop for Body {
    fn drop(&mut self) {
        let census = &self.core.census;
        census.dropped(Kind::MoeModel, size_of_val::<[MoeLayer]>(&self.layers));
        census.dropped(Kind::MoeModel, Self::SIZE);
    }
}

/// A model of such layers; clones share it.
#[derive(Clone)]
pub struct MoeModel(Rc<Body>);

impl MoeModel {
    /// A model in which nothing was counted yet.
    ///
    /// # Errors
    /// None for at least one expert.
    pub fn new(runtime: &Runtime, layers: usize, experts: usize) -> Result<Self, Error> {
        let zeros = || runtime.tensor(&vec![0.0; experts], &[experts]);
        let layer = |_| {
            Ok(MoeLayer {
                tokens_per_expert: zeros()?,
                expert_bias: zeros()?,
                last_aux_loss: Cell::default(),
            })
        };
        let layers: Vec<MoeLayer> = (0..layers).map(layer).collect::<Result<_, Error>>()?;
        let core = Rc::clone(runtime.core());
        let layers = layers.into_boxed_slice();
        let census = &core.census;
        census.created(Kind::MoeModel, size_of_val::<[MoeLayer]>(&layers));
        census.created(Kind::MoeModel, Body::SIZE);
        Ok(Self(Rc::new(Body { core, layers })))
    }

    /// A forward that sends so many tokens to each expert, in every layer.
    ///
    /// # Errors
    /// [`Error::TokenCounts`] if that is not one count for each expert.
    pub fn forward(&self, tokens: &[f32], aux_loss: f32) -> Result<(), Error> {
        for layer in self.layers() {
            let counted = layer.tokens_per_expert.to_vec();
            if counted.len() != tokens.len() {
                return Err(Error::TokenCounts {
                    experts: counted.len(),
                    given: tokens.len(),
                });
            }
            let sums = counted.iter().zip(tokens).map(|(before, new)| before + new);
            layer.tokens_per_expert.array().assign(sums);
            layer.last_aux_loss.set(aux_loss);
        }
        Ok(())
    }

    /// The layers.
    pub fn layers(&self) -> &[MoeLayer] {
        &self.0.layers
    }

    /// The mean of the layers' auxiliary losses; none without layers.
    pub(super) fn mean_aux_loss(&self) -> Option<f32> {
        let layers = self.layers();
        let sum: f32 = layers.iter().map(|layer| layer.last_aux_loss.get()).sum();
        (!layers.is_empty()).then(|| sum / layers.len() as f32)
    }

    /// Tells later whether it still lives, without keeping it.
    pub fn observe(&self) -> impl Fn() -> bool + 'static {
        let weak: Weak<Body> = Rc::downgrade(&self.0);
        move || weak.strong_count() > 0
    }
}

impl fmt::Debug for MoeModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MoeModel({} layers)", self.layers().len())
    }
}
