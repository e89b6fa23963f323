//! Random registrations, removals, forwards and steps on several optimizers.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use mockspore::census::Kind;
use mockspore::moe::{MoeModel, MoeMonitorCallback, Optimizer};
use mockspore::{Device, Error, ExpertBiasRule, MonitorRegister, Policies, Runtime};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

const OPTIMIZERS: usize = 3;
const EXPERTS: usize = 4;
const RATE: f32 = 1e-3;

fn config() -> ProptestConfig {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../proptest-regressions/mockspore/prop_monitor.txt"
    );
    ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file))),
        ..ProptestConfig::with_cases(256)
    }
}

#[derive(Debug, Clone)]
enum Op {
    Register(usize),
    Remove,
    Step(usize),
    Forward(Vec<f32>),
}

fn tokens() -> impl Strategy<Value = Vec<f32>> {
    vec((0_u16..4096).prop_map(f32::from), EXPERTS)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0..OPTIMIZERS).prop_map(Op::Register),
        Just(Op::Remove),
        (0..OPTIMIZERS).prop_map(Op::Step),
        tokens().prop_map(Op::Forward),
    ]
}

/// What must be so, told apart from how the mock does it.
struct Model {
    policy: MonitorRegister,
    rule: ExpertBiasRule,
    /// Optimizer and number of each live hook, in registration order.
    hooks: Vec<(usize, u64)>,
    slot: Vec<u64>,
    last: u64,
    calls: u64,
    tokens: Vec<f32>,
    bias: Vec<f32>,
}

impl Model {
    fn register(&mut self, optimizer: usize) -> bool {
        match self.policy {
            MonitorRegister::Overwrites => self.slot.clear(),
            MonitorRegister::Replaces => self.remove(),
            MonitorRegister::Refuses if !self.slot.is_empty() => return false,
            MonitorRegister::KeepsAll | MonitorRegister::Refuses => {}
        }
        self.last += 1;
        self.hooks.push((optimizer, self.last));
        self.slot.push(self.last);
        true
    }

    fn remove(&mut self) {
        let slot = std::mem::take(&mut self.slot);
        self.hooks.retain(|(_, hook)| !slot.contains(hook));
    }

    fn step(&mut self, optimizer: usize) {
        for _ in 0..self.on(optimizer) {
            self.calls += 1;
            let mean = self.tokens.iter().sum::<f32>() / EXPERTS as f32;
            let delta = |own: &f32| match mean.total_cmp(own) {
                std::cmp::Ordering::Less => -RATE,
                std::cmp::Ordering::Equal => 0.0,
                std::cmp::Ordering::Greater => RATE,
            };
            let deltas: Vec<f32> = self.tokens.iter().map(delta).collect();
            let shift = deltas.iter().sum::<f32>() / EXPERTS as f32;
            for (bias, delta) in self.bias.iter_mut().zip(deltas) {
                *bias += delta - shift;
            }
            if self.rule == ExpertBiasRule::ZeroesCounters {
                self.tokens.fill(0.0);
            }
        }
    }

    fn on(&self, optimizer: usize) -> usize {
        let own = |(at, _): &&(usize, u64)| *at == optimizer;
        self.hooks.iter().filter(own).count()
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn policies(register: MonitorRegister, rule: ExpertBiasRule) -> Policies {
    Policies {
        monitor_register: register,
        expert_bias_rule: rule,
        ..Policies::fixed()
    }
}

fn check(ops: &[Op], policy: MonitorRegister, rule: ExpertBiasRule) -> Result<(), TestCaseError> {
    let runtime = Runtime::new(policies(policy, rule), Device::Cpu);
    let model = MoeModel::new(&runtime, 1, EXPERTS).unwrap();
    let callback = MoeMonitorCallback::new(&runtime, &model, RATE, 1, Vec::new());
    let optimizers: Vec<Optimizer> = (0..OPTIMIZERS).map(|_| Optimizer::new(&runtime)).collect();
    let mut expected = Model {
        policy,
        rule,
        hooks: Vec::new(),
        slot: Vec::new(),
        last: 0,
        calls: 0,
        tokens: vec![0.0; EXPERTS],
        bias: vec![0.0; EXPERTS],
    };
    for op in ops {
        match op {
            Op::Register(at) => {
                let registered = callback.register(&optimizers[*at]);
                let refused = matches!(registered, Err(Error::AlreadyRegistered));
                prop_assert_eq!(!refused, expected.register(*at));
            }
            Op::Remove => {
                callback.remove();
                expected.remove();
            }
            Op::Step(at) => {
                optimizers[*at].step().unwrap();
                expected.step(*at);
            }
            Op::Forward(tokens) => {
                model.forward(tokens, 0.5).unwrap();
                for (sum, tokens) in expected.tokens.iter_mut().zip(tokens) {
                    *sum += tokens;
                }
            }
        }
        let hooks: Vec<usize> = optimizers.iter().map(Optimizer::hooks).collect();
        let live: Vec<usize> = (0..OPTIMIZERS).map(|at| expected.on(at)).collect();
        prop_assert_eq!(hooks, live);
        prop_assert_eq!(callback.calls(), expected.calls);
        let bias = model.layers()[0].expert_bias();
        prop_assert_eq!(bits(&bias), bits(&expected.bias));
    }
    let (callback_lives, model_lives) = (callback.observe(), model.observe());
    drop((callback, model));
    let held = !expected.hooks.is_empty();
    prop_assert_eq!((callback_lives(), model_lives()), (held, held));
    drop(optimizers);
    prop_assert!(!callback_lives() && !model_lives());
    let kinds = [
        Kind::Optimizer,
        Kind::StepHook,
        Kind::StepHookFn,
        Kind::MonitorCallback,
        Kind::MonitorHandle,
        Kind::MoeModel,
        Kind::Tensor,
    ];
    for kind in kinds {
        prop_assert_eq!(runtime.live(kind), 0, "{}", kind.name());
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn hooks_calls_bias_and_lives_are_as_the_policy_says(ops in vec(op(), 0..24)) {
        let registers = [
            MonitorRegister::Overwrites,
            MonitorRegister::Replaces,
            MonitorRegister::KeepsAll,
            MonitorRegister::Refuses,
        ];
        for register in registers {
            for rule in [ExpertBiasRule::ZeroesCounters, ExpertBiasRule::KeepsCounters] {
                check(&ops, register, rule)?;
            }
        }
    }

    #[test]
    fn the_bias_is_the_same_bit_for_bit_however_often_it_is_registered(
        forwards in vec(tokens(), 1..6), times in 2_usize..8
    ) {
        let bias = |times: usize| {
            let fixed = policies(MonitorRegister::Overwrites, ExpertBiasRule::ZeroesCounters);
            let runtime = Runtime::new(fixed, Device::Cpu);
            let model = MoeModel::new(&runtime, 1, EXPERTS).unwrap();
            let callback = MoeMonitorCallback::new(&runtime, &model, RATE, 1, Vec::new());
            let optimizer = Optimizer::new(&runtime);
            for _ in 0..times {
                callback.register(&optimizer).unwrap();
            }
            for tokens in &forwards {
                model.forward(tokens, 0.5).unwrap();
                optimizer.step().unwrap();
            }
            assert_eq!(callback.calls(), (times * forwards.len()) as u64);
            bits(&model.layers()[0].expert_bias())
        };
        prop_assert_eq!(bias(times), bias(1));
    }
}
