//! How long whole scenarios take: `cargo bench -p repros`.

use std::error::Error;
use std::hint::black_box;
use std::time::Duration;

use criterion::Criterion;
use jemallocator::Jemalloc;
use mockspore::Runtime;
use repros::mock::Setting;
use repros::model::Model;
use repros::registry::Entry;
use repros::runner::Request;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Scenario, arm, steps, and what that makes.
const RUNS: [(&str, &str, u64, &str); 5] = [
    ("collective_event", "sync", 20, "10,000 all_reduce, sync"),
    ("collective_event", "async", 20, "10,000 all_reduce, async"),
    (
        "collective_event",
        "pooled",
        20,
        "10,000 all_reduce, pooled",
    ),
    ("node_abs_cache", "bounded", 40, "20,000 norms"),
    (
        "needs_input_grad",
        "leaked",
        1,
        "133 applies, forward and backward",
    ),
];

/// Runs an arm from its birth to its end.
fn run(name: &str, arm: &str, steps: u64) -> Result<(), Box<dyn Error>> {
    let entry = Entry::find(name)?;
    let scenario = entry.scenario(None)?;
    let arm = scenario.arm(arm)?;
    let request = Request::arm(&scenario, arm, &[])?;
    let ranks = Model::new(&scenario, arm, &request.knobs, request.device).ranks();
    let runtime = Runtime::new(request.policies, request.device);
    let setting = Setting::new(&runtime, &request.knobs, 1).with_ranks(ranks);
    let mut mock = entry.build(&setting)?;
    for _ in 0..steps {
        mock.step()?;
    }
    black_box(&mock);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    for (name, arm, steps, what) in RUNS {
        run(name, arm, steps)?;
        criterion.bench_function(what, |bench| bench.iter(|| run(name, arm, steps).is_ok()));
    }
    criterion.final_summary();
    Ok(())
}
