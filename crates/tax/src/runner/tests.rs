//! The framework on benchmarks of known cost and known faults.

use std::sync::Mutex;

use steelyard_statistics::estimate;

use super::*;
use crate::benchmark::{Category, Prepared, Worker};
use crate::summary::QUANTILE;

/// What a worker of a test does in `run`.
type Work = fn(u64) -> u64;

/// Operations of each batch, and the time that one took as the worker itself saw it, ns.
type Seen = Mutex<Vec<(u64, f64)>>;

struct Known {
    name: &'static str,
    work: Work,
    fault: Option<&'static str>,
    waits: bool,
    seen: Option<&'static Seen>,
}

impl Known {
    fn new(name: &'static str, work: Work) -> Self {
        Self {
            name,
            work,
            fault: None,
            waits: false,
            seen: None,
        }
    }

    fn seen_by(mut self, seen: &'static Seen) -> Self {
        self.seen = Some(seen);
        self
    }
}

struct KnownWorker {
    work: Work,
    fault: Option<&'static str>,
    seen: Option<&'static Seen>,
}

impl Worker for KnownWorker {
    fn verify(&mut self) -> Result<(), String> {
        self.fault.map_or(Ok(()), |why| Err(why.to_owned()))
    }

    fn run(&mut self, operations: u64) -> u64 {
        let begin_ns = monotonic_ns();
        let checksum = (self.work)(operations);
        let time_ns = (monotonic_ns() - begin_ns) as f64 / operations as f64;
        if let Some(seen) = self.seen {
            seen.lock()
                .expect("no panic beside it")
                .push((operations, time_ns));
        }
        checksum
    }
}

impl Microbenchmark for Known {
    fn name(&self) -> &str {
        self.name
    }

    fn category(&self) -> Category {
        Category::Hashing
    }

    fn operation(&self) -> &str {
        "does what a test needs"
    }

    fn waits(&self) -> bool {
        self.waits
    }

    fn prepare(&self, setup: &Setup) -> Result<Prepared, TaxError> {
        let worker = |_| {
            Box::new(KnownWorker {
                work: self.work,
                fault: self.fault,
                seen: self.seen,
            }) as _
        };
        Ok(Prepared::new((0..setup.workers).map(worker).collect()).bytes(1000.0))
    }
}

/// Keeps the CPU busy for `us` microseconds.
fn spin(us: u64) {
    let until = monotonic_ns() + us * 1000;
    while monotonic_ns() < until {
        std::hint::spin_loop();
    }
}

fn spin_10(operations: u64) -> u64 {
    (0..operations).for_each(|_| spin(10));
    operations
}

fn spin_40(operations: u64) -> u64 {
    (0..operations).for_each(|_| spin(40));
    operations
}

fn sleep(operations: u64) -> u64 {
    for _ in 0..operations {
        std::thread::sleep(Duration::from_micros(200));
    }
    operations
}

fn settings(cores: Cores) -> Settings {
    Settings {
        time: Duration::from_millis(300),
        batch: Some(Duration::from_micros(500)),
        seed: 5,
        only: Vec::new(),
        cores,
        cpus: vec![0, 1],
    }
}

fn measured(
    benchmarks: Vec<Known>,
    settings: &Settings,
    stop: &AtomicBool,
) -> Result<TaxResult, TaxError> {
    let boxed = benchmarks
        .into_iter()
        .map(|known| Box::new(known) as Box<dyn Microbenchmark>)
        .collect();
    // Not pinned: a machine with one CPU runs these tests too.
    let surroundings = Surroundings {
        command: Vec::new(),
        progress: Progress::None,
        stop,
        pin: |_| Ok(()),
        batches: None,
    };
    run_these(boxed, settings, &surroundings)
}

static NEVER: AtomicBool = AtomicBool::new(false);

#[test]
fn a_known_cost_is_found() {
    static SEEN: [Seen; 2] = [const { Mutex::new(Vec::new()) }; 2];
    let benchmarks = vec![
        Known::new("spin-10", spin_10).seen_by(&SEEN[0]),
        Known::new("spin-40", spin_40).seen_by(&SEEN[1]),
    ];
    let found = measured(benchmarks, &settings(Cores::One), &NEVER).expect("measured");
    assert!(found.rounds >= CONSTANTS.tax_rounds);
    let costs_ns = [10_000.0, 40_000.0];
    for ((row, cost_ns), seen) in found.benchmarks.iter().zip(costs_ns).zip(&SEEN) {
        let one = row.one.as_ref().expect("on one core");
        // Never less than it costs; more where neighbours take the CPU, which the worker sees as well.
        assert!(one.time_ns >= cost_ns, "{}: {}", row.name, one.time_ns);
        let seen = seen.lock().expect("no panic beside it");
        let whole = seen.iter().filter(|(n, _)| *n == one.operations_per_batch);
        let mut rounds: Vec<f64> = whole.map(|(_, time_ns)| *time_ns).collect();
        rounds.drain(..rounds.len() - found.rounds as usize);
        let own = estimate(&rounds, QUANTILE).expect("rounds").value;
        let ratio = one.time_ns / own;
        assert!((1.0..1.02).contains(&ratio), "{}: {ratio}", row.name);
        assert!((one.rate_per_s * one.time_ns / 1e9 - 1.0).abs() < 1e-9);
        let bytes = one.rate_bytes_per_s.expect("operations of 1000 bytes");
        assert!((bytes / one.rate_per_s - 1000.0).abs() < 1e-6);
        assert_eq!(one.batches, found.rounds);
        let (low, high) = (one.interval_low_ns, one.interval_high_ns);
        assert!(low <= Some(one.time_ns) && Some(one.time_ns) <= high);
        assert!(row.all.is_none() && row.scaling_ratio.is_none());
    }
    assert!(found.score_all.is_none());
    let score = found.score_one.expect("a score");
    let rates = found
        .benchmarks
        .iter()
        .map(|row| row.one.as_ref().map_or(0.0, |one| one.rate_per_s));
    let mean = steelyard_statistics::geometric_mean(rates).expect("a mean");
    assert!(
        (score.rate_per_s / mean - 1.0).abs() < 1e-9,
        "one category: its mean is the score"
    );
}

#[test]
fn all_cores_report_each_worker_and_their_sum() {
    let found = measured(
        vec![Known::new("spin", spin_10)],
        &settings(Cores::Both),
        &NEVER,
    )
    .expect("measured");
    let row = &found.benchmarks[0];
    let all = row.all.as_ref().expect("on all cores");
    assert_eq!((all.workers, all.worker_rates_per_s.len()), (2, 2));
    assert_eq!(all.batches, 2 * found.rounds);
    // In each round both together did more than either alone, and neither does more than one operation in 10 us.
    for alone in &all.worker_rates_per_s {
        assert!(all.rate_per_s > *alone, "{} {alone}", all.rate_per_s);
        assert!(*alone <= 100_000.0, "{alone}");
    }
    assert!(all.rate_per_s <= 200_000.0, "{}", all.rate_per_s);
    let one = row.one.as_ref().expect("on one core");
    let scaling = row.scaling_ratio.expect("both");
    assert!((scaling - all.rate_per_s / (2.0 * one.rate_per_s)).abs() < 1e-9);
}

#[test]
fn time_off_the_cpu_is_a_disturbance_unless_waiting_is_the_work() {
    let mut waits = Known::new("waits", sleep);
    waits.waits = true;
    let benchmarks = vec![Known::new("sleeps", sleep), waits];
    let found = measured(benchmarks, &settings(Cores::One), &NEVER).expect("measured");
    let disturbed = |index: usize| {
        let one = found.benchmarks[index].one.as_ref().expect("on one core");
        assert!(one.cpu_ratio < 0.7, "{}", one.cpu_ratio);
        (one.disturbed, one.batches)
    };
    let (sleeping, batches) = disturbed(0);
    assert_eq!(sleeping, batches, "every batch is kept and counted");
    assert_eq!(disturbed(1).0, 0, "its switches are its own");
    // Suspect or invalid, by how much the neighbours take beside it.
    assert_ne!(found.verdict.level, steelyard_record::Level::Valid);
}

#[test]
fn work_that_changes_from_batch_to_batch_makes_the_result_invalid() {
    use std::sync::atomic::AtomicU64;
    static CALLS: AtomicU64 = AtomicU64::new(0);
    fn changing(operations: u64) -> u64 {
        spin_10(operations);
        CALLS.fetch_add(1, Ordering::Relaxed)
    }
    let found = measured(
        vec![Known::new("changes", changing)],
        &settings(Cores::One),
        &NEVER,
    )
    .expect("measured");
    assert_eq!(found.verdict.level, steelyard_record::Level::Invalid);
    assert_eq!(
        found.benchmarks[0]
            .one
            .as_ref()
            .and_then(|one| one.checksum.clone()),
        None
    );
}

#[test]
fn wrong_work_and_a_panic_are_errors_that_name_the_benchmark() {
    let mut wrong = Known::new("wrong", spin_10);
    wrong.fault = Some("the answer is not 42");
    let error = measured(vec![wrong], &settings(Cores::One), &NEVER).expect_err("refused");
    assert_eq!(error.to_string(), "wrong: the answer is not 42");
    fn panics(_operations: u64) -> u64 {
        panic!("no such thing")
    }
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let error = measured(
        vec![Known::new("panics", panics)],
        &settings(Cores::All),
        &NEVER,
    )
    .expect_err("refused");
    std::panic::set_hook(hook);
    assert_eq!(error.to_string(), "panics: no such thing");
}

#[test]
fn a_stop_before_the_first_round_is_an_error() {
    let stop = AtomicBool::new(true);
    let error = measured(
        vec![Known::new("spin", spin_10)],
        &settings(Cores::One),
        &stop,
    )
    .expect_err("stopped");
    assert!(matches!(error, TaxError::Stopped), "{error}");
}

#[test]
fn batches_are_sized_in_whole_cycles_from_a_short_list() {
    // An operation takes 100 ns: 2 ms are 20,000 operations, and of the list 16,384 and 24,576 are nearest.
    let sized = |target_ns, cycle, cost_ns: u64| {
        size_batch(target_ns, cycle, |operations| Ok(operations * cost_ns)).expect("sized")
    };
    assert_eq!(sized(2_000_000, 1, 100), 16_384);
    assert_eq!(sized(2_500_000, 1, 100), 24_576);
    assert_eq!(sized(2_000_000, 16, 100) % 16, 0);
    assert_eq!(
        sized(2_000_000, 1, 50_000_000),
        1,
        "one that takes longer than a batch"
    );
    assert_eq!(
        sized(1_000_000, 300, 1_000_000),
        300,
        "never less than a cycle"
    );
}

#[test]
fn settings_that_cannot_be_measured_with_are_refused() {
    let good = settings(Cores::One);
    for bad in [
        Settings {
            cpus: vec![],
            ..good.clone()
        },
        Settings {
            cpus: vec![1, 1],
            ..good.clone()
        },
        Settings {
            batch: Some(Duration::from_micros(1)),
            ..good.clone()
        },
        Settings {
            time: Duration::ZERO,
            ..good.clone()
        },
    ] {
        assert!(
            matches!(bad.check(), Err(TaxError::Setting { .. })),
            "{bad:?}"
        );
    }
    good.check().expect("good");
}
