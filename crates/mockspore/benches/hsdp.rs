//! How long one rank's fixed training step of the reported model takes, in
//! worlds of several ranks: `cargo bench -p mockspore --bench hsdp`; in a table:
//! `cargo xtask speed`.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use jemallocator::Jemalloc;
use mockspore::hsdp::{Options, ShardedModel, UnitTable, fully_shard};
use mockspore::{Device, Error, Policies, Runtime, Tensor, World};

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

struct Rank {
    runtime: Runtime,
    model: ShardedModel,
    input: Tensor,
    sens: [Tensor; 1],
}

fn world(ranks: usize) -> Result<Vec<Rank>, Error> {
    let runtime = |_| Runtime::new(Policies::fixed(), Device::Ascend);
    let runtimes: Vec<Runtime> = (0..ranks).map(runtime).collect();
    let world = World::new(&runtimes);
    let models = fully_shard(
        &world,
        &UnitTable::seed301(),
        Options::default(),
        &mut || 0.5,
    )?;
    let ranks = runtimes.into_iter().zip(models).map(|(runtime, model)| {
        runtime.set_grad_flag(true);
        let values = vec![1.0; Options::default().width];
        let tensor = || runtime.tensor(&values, &[values.len()]);
        Ok(Rank {
            input: tensor()?,
            sens: [tensor()?],
            runtime,
            model,
        })
    });
    ranks.collect()
}

fn step(ranks: &[Rank]) -> Result<(), Error> {
    for rank in ranks {
        let loss = rank.model.forward(&rank.input)?;
        rank.runtime
            .run_backward(&[loss], Some(&rank.sens), false)?;
    }
    Ok(())
}

fn steps(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("seed301_step");
    for ranks in [1, 2, 8] {
        let Ok(world) = world(ranks) else { return };
        group.throughput(Throughput::Elements(ranks as u64));
        group.bench_function(BenchmarkId::new("ranks", ranks), |bench| {
            bench.iter(|| step(&world).is_ok());
        });
    }
    group.finish();
}

criterion_group!(benches, steps);
criterion_main!(benches);
