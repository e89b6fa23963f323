//! A million fixed training steps: live objects and bytes at the end are those
//! of step 100, and the last steps cost what the first ones did.
//! `cargo xtask soak`; another number of steps, or another model:
//! `cargo run --release -p repros --example soak -- 40000 seed301`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use jemallocator::Jemalloc;
use mockspore::census::Kind;
use mockspore::{Device, Policies, Runtime, Version};
use mockspore_growth::probe::jemalloc::Heap;
use repros::mock::{Mock, Setting};
use repros::registry::Entry;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Steps whose time is compared, at the start and at the end.
const WINDOW: u32 = 100_000;
/// The step that the end is compared with.
const EARLY: u32 = 100;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let steps = args.next().map_or(Ok(1_000_000), |text| text.parse());
    let Some(steps) = steps.ok().filter(|&steps| steps > 2 * EARLY) else {
        eprintln!(
            "soak: the number of steps must be a whole number above {}",
            2 * EARLY
        );
        return ExitCode::from(2);
    };
    // The smallest of the measured models: the larger ones take longer, not more.
    let units = args.next().unwrap_or_else(|| "mf_2_1_0".to_owned());
    match soak(steps, units) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("soak: {error}");
            ExitCode::from(3)
        }
    }
}

/// What is alive: blocks, and bytes of this thread.
fn alive(runtime: &Runtime, heap: &Heap) -> ([u64; Kind::ALL.len()], i64) {
    (Kind::ALL.map(|kind| runtime.live(kind)), heap.thread_net())
}

fn run(mock: &mut dyn Mock, steps: u32) -> Result<Duration, mockspore::Error> {
    let start = Instant::now();
    for _ in 0..steps {
        mock.step()?;
    }
    Ok(start.elapsed())
}

/// How much more a step costs where hooks gather on a live leaf, at the end of
/// `4 * steps` against the first `steps`.
fn hooks_that_gather(steps: u32) -> Result<f64, Box<dyn std::error::Error>> {
    let entry = Entry::find("parameter_hook")?;
    let scenario = entry.scenario(None)?;
    let knobs = scenario.knobs(scenario.arm("dropped")?, &[])?;
    let runtime = Runtime::new(Policies::mindspore(Version::V2_10_0), Device::Cpu);
    let mut mock = entry.build(&Setting::new(&runtime, &knobs, 1))?;
    let first = run(&mut *mock, steps)?;
    run(&mut *mock, 2 * steps)?;
    Ok(run(&mut *mock, steps)?.as_secs_f64() / first.as_secs_f64())
}

/// Whether the end is as step 100 was.
fn soak(steps: u32, units: String) -> Result<bool, Box<dyn std::error::Error>> {
    let heap = Heap::open()?;
    let entry = Entry::find("hsdp_step")?;
    let scenario = entry.scenario(None)?;
    let set = [("ranks", "1".to_owned()), ("units", units)];
    let set = set.map(|(knob, value)| (knob.to_owned(), value));
    let knobs = scenario.knobs(scenario.arm("all_fixed")?, &set)?;
    let runtime = Runtime::new(Policies::fixed(), Device::Ascend);
    let mut mock = entry.build(&Setting::new(&runtime, &knobs, 1))?;
    run(&mut *mock, EARLY)?;
    let early = alive(&runtime, &heap);
    let window = WINDOW.min((steps - EARLY) / 2);
    let first = run(&mut *mock, window)?;
    let middle = run(&mut *mock, steps - EARLY - 2 * window)?;
    let last = run(&mut *mock, window)?;
    let end = alive(&runtime, &heap);
    let per_step = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(window);
    println!(
        "{steps} steps of {} in {:.1} s; the first {window}: {:.1} us a step, the last: {:.1} us, ratio {:.3}",
        knobs.choice("units").unwrap_or_default(),
        (first + middle + last).as_secs_f64(),
        per_step(first),
        per_step(last),
        last.as_secs_f64() / first.as_secs_f64(),
    );
    let blocks: u64 = end.0.iter().sum();
    println!(
        "step {EARLY}: {} B, step {steps}: {} B, {blocks} blocks: {}",
        early.1,
        end.1,
        if early == end { "equal" } else { "DIFFERENT" },
    );
    println!(
        "parameter_hook, 400 steps: the last 100 cost {:.2} times the first",
        hooks_that_gather(100)?
    );
    Ok(early == end)
}
