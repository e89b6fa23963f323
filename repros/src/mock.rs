//! What a scenario's step on the mock is, and what it is built from.

use std::cell::RefCell;

use mockspore::{Error, Runtime, Tensor};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use crate::scenario::Knobs;

/// One arm of a scenario, ready to run.
pub trait Mock {
    /// Runs one step.
    ///
    /// # Errors
    /// What the runtime raises; no step of a built-in scenario does.
    fn step(&mut self) -> Result<(), Error>;
}

/// What an arm is built from.
#[derive(Debug)]
pub struct Setting<'a> {
    /// The runtime, with the arm's policies.
    pub runtime: &'a Runtime,
    ranks: Vec<Runtime>,
    knobs: &'a Knobs,
    random: RefCell<ChaCha8Rng>,
}

impl<'a> Setting<'a> {
    /// A setting whose tensors are drawn from `seed`.
    pub fn new(runtime: &'a Runtime, knobs: &'a Knobs, seed: u64) -> Self {
        let random = RefCell::new(ChaCha8Rng::seed_from_u64(seed));
        Self {
            runtime,
            ranks: vec![runtime.clone()],
            knobs,
            random,
        }
    }

    /// A setting with `ranks` runtimes like the given one, itself the first.
    #[must_use]
    pub fn with_ranks(mut self, ranks: u64) -> Self {
        let peer = |_| Runtime::new(self.runtime.policies(), self.runtime.device());
        self.ranks.extend((1..ranks).map(peer));
        self
    }

    /// The runtimes of all ranks.
    pub fn ranks(&self) -> &[Runtime] {
        &self.ranks
    }

    /// The value of an integer knob, 0 if there is none (the file is checked).
    pub fn integer(&self, name: &str) -> u64 {
        self.knobs.integer(name).unwrap_or_default()
    }

    /// The value of a choice knob, empty if there is none.
    pub fn choice(&self, name: &str) -> &str {
        self.knobs.choice(name).unwrap_or_default()
    }

    /// A tensor of values in [0.5, 1.5).
    ///
    /// # Errors
    /// If `dims` are too many.
    pub fn random_tensor(&self, dims: &[usize]) -> Result<Tensor, Error> {
        self.random_tensor_of(self.runtime, dims)
    }

    /// The same for one of the ranks.
    ///
    /// # Errors
    /// If `dims` are too many.
    pub fn random_tensor_of(&self, rank: &Runtime, dims: &[usize]) -> Result<Tensor, Error> {
        let mut random = self.random.borrow_mut();
        let size = dims.iter().product();
        let values: Vec<f32> = (0..size).map(|_| random.random_range(0.5..1.5)).collect();
        rank.tensor(&values, dims)
    }

    /// A value in [0.9, 1.1), of which long products stay finite.
    pub fn near_one(&self) -> f32 {
        self.random.borrow_mut().random_range(0.9..1.1)
    }
}
