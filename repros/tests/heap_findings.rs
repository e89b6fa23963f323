//! Bytes of the load monitor and of the expert-parallel combine: the census
//! explains every one, and none is left. One test, its own process and allocator.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use jemallocator::Jemalloc;
use mockspore::moe::expert_parallel::{ExpertParallel, Mesh, Options, Routing};
use mockspore::moe::{MoeModel, MoeMonitorCallback, Optimizer};
use mockspore::{CombineHandle, Device, MonitorRegister, Policies, Runtime, Tensor};
use mockspore_growth::probe::jemalloc::Heap;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError, TestRunner};

mod common;

use common::attributed;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

const HIDDEN: usize = 5;
const EXPERTS: usize = 8;

/// Bytes that the census does not explain, beyond those at the start.
struct Books<'a> {
    heap: &'a Heap,
    runtime: Runtime,
    own: i64,
}

impl<'a> Books<'a> {
    fn open(heap: &'a Heap, runtime: &Runtime) -> Self {
        let mut books = Self {
            heap,
            runtime: runtime.clone(),
            own: 0,
        };
        books.own = books.unattributed();
        books
    }

    fn unattributed(&self) -> i64 {
        let explained = attributed(std::slice::from_ref(&self.runtime));
        self.heap.thread_net() - explained - self.own
    }

    fn check(&self, place: &str) -> Result<(), TestCaseError> {
        match self.unattributed() {
            0 => Ok(()),
            bytes => Err(TestCaseError::fail(format!("{place}: {bytes} B"))),
        }
    }
}

fn matrix(runtime: &Runtime, rows: usize) -> Tensor {
    let values = vec![1.0; rows * HIDDEN];
    let tensor = runtime.tensor(&values, &[rows, HIDDEN]).unwrap();
    tensor.requires_grad_();
    tensor
}

/// Two steps in one world; what the census explains in each phase.
fn combine(
    heap: &Heap,
    policy: CombineHandle,
    deredundency: bool,
    rows: &[Vec<(usize, f32)>],
) -> Result<(), TestCaseError> {
    let birth = heap.thread_net();
    let mesh = Mesh {
        oep: 2,
        iep: 2,
        tp: 1,
    };
    let options = Options {
        mesh,
        async_combine: true,
        deredundency,
    };
    let policies = Policies {
        combine_handle: policy,
        ..Policies::fixed()
    };
    let runtime = Runtime::new(policies, Device::Cpu);
    let routing = Routing::new(mesh, EXPERTS, rows).unwrap();
    let layer = ExpertParallel::new(&runtime, options, vec![matrix(&runtime, EXPERTS)]).unwrap();
    let inputs: Vec<Tensor> = rows
        .iter()
        .map(|rows| matrix(&runtime, rows.len()))
        .collect();
    runtime.set_grad_flag(true);
    let books = Books::open(heap, &runtime);
    for _ in 0..3 {
        let outputs = layer.forward(&inputs, &routing, &[3, 1, 0, 2]).unwrap();
        runtime
            .run_backward(&outputs, Some(&inputs), false)
            .unwrap();
        drop(outputs);
        books.check("after the backward")?;
        for input in &inputs {
            drop(input.take_grad());
        }
        books.check("with the gradients gone")?;
    }
    drop((layer, inputs, routing, books));
    runtime.clear_res();
    drop(runtime);
    match heap.thread_net() - birth {
        0 => Ok(()),
        left => Err(TestCaseError::fail(format!(
            "{policy:?}: {left} B are left"
        ))),
    }
}

/// Registers, steps and removes; what the census explains after each.
fn monitor(heap: &Heap, policy: MonitorRegister, times: usize) -> Result<(), TestCaseError> {
    let birth = heap.thread_net();
    let policies = Policies {
        monitor_register: policy,
        ..Policies::fixed()
    };
    let runtime = Runtime::new(policies, Device::Cpu);
    let books = Books::open(heap, &runtime);
    let optimizers = [Optimizer::new(&runtime), Optimizer::new(&runtime)];
    let model = MoeModel::new(&runtime, 2, EXPERTS).unwrap();
    let callback = MoeMonitorCallback::new(&runtime, &model, 1e-3, 1, Vec::new());
    books.check("at the start")?;
    for optimizer in optimizers.iter().cycle().take(times) {
        drop(callback.register(optimizer));
        books.check("after a registration")?;
        model.forward(&[1.0; EXPERTS], 0.5).unwrap();
        optimizer.step().unwrap();
        books.check("after a step")?;
    }
    callback.remove();
    books.check("after remove")?;
    drop((callback, model));
    books.check("without the trainer")?;
    drop(optimizers);
    books.check("without the optimizers")?;
    drop((books, runtime));
    match heap.thread_net() - birth {
        0 => Ok(()),
        left => Err(TestCaseError::fail(format!(
            "{policy:?}: {left} B are left"
        ))),
    }
}

#[test]
fn no_byte_is_unattributed_and_none_is_left() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../proptest-regressions/repros/heap_findings.txt"
    );
    let mut runner = TestRunner::new(Config {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file))),
        ..Config::with_cases(128)
    });
    let heap = Heap::open().unwrap();
    let row = (0..EXPERTS, prop_oneof![Just(0.5_f32), Just(1.0)]);
    let cases = (1_usize..9).prop_flat_map(move |rows| vec(vec(row.clone(), rows), 4));
    let outcome = runner.run(&(cases, 1_usize..6), |(rows, times)| {
        let handles = [
            CombineHandle::KeptOnModule,
            CombineHandle::LocalHandle,
            CombineHandle::ClearedAfterWait,
            CombineHandle::OneShotSlot,
        ];
        for policy in handles {
            combine(&heap, policy, false, &rows)?;
            combine(&heap, policy, true, &rows)?;
        }
        let registers = [
            MonitorRegister::Overwrites,
            MonitorRegister::Replaces,
            MonitorRegister::KeepsAll,
            MonitorRegister::Refuses,
        ];
        registers
            .into_iter()
            .try_for_each(|policy| monitor(&heap, policy, times))
    });
    outcome.unwrap();
}
