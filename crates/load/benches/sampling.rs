//! What the generator does for every request besides moving bytes: counting a latency, and drawing a key.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use steelyard_load::latency::{Latencies, histogram};
use steelyard_load::random::Purpose;
use steelyard_load::workload::Zipf;

/// Latencies as a server on loopback has them: 100 us on average, exponential.
fn latencies() -> Vec<u64> {
    let mut random = Purpose::Arrivals.stream(1, 0);
    (0..4_096)
        .map(|_| (random.exponential() * 100_000.0) as u64)
        .collect()
}

fn histograms(criterion: &mut Criterion) {
    let values = latencies();
    let mut group = criterion.benchmark_group("histogram");
    group.throughput(Throughput::Elements(values.len() as u64));
    let mut one = histogram();
    group.bench_function("record", |bencher| {
        bencher.iter(|| {
            for &value in &values {
                one.saturating_record(black_box(value));
            }
        });
    });
    let mut all = Latencies::default();
    group.bench_function("request", |bencher| {
        bencher.iter(|| {
            for &value in &values {
                all.sent(black_box(value) >> 6, 0, 1);
                all.answered(black_box(value), black_box(value) - (value >> 6), 1);
            }
        });
    });
    group.finish();
}

fn keys(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("zipf");
    group.throughput(Throughput::Elements(1));
    for (count, exponent) in [(10_000, 0.99), (100_000_000, 0.99), (100_000_000, 1.5)] {
        let zipf = Zipf::new(count, exponent);
        let mut random = Purpose::Requests.stream(1, 0);
        group.bench_function(format!("{exponent} over {count}"), |bencher| {
            bencher.iter(|| black_box(zipf.rank(&mut random)));
        });
    }
    group.finish();
}

criterion_group!(benches, histograms, keys);
criterion_main!(benches);
