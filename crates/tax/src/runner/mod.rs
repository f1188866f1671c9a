//! Prepares benchmarks, sizes their batches, and runs rounds until the time is over.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use steelyard_kernel::usage::Usage;
use steelyard_launch::Stop;
use steelyard_record::{CONSTANTS, Clock, TaxResult, monotonic_ns};
use steelyard_statistics::Random;

use crate::TaxError;
use crate::batch::Batch;
use crate::benchmark::{Microbenchmark, Setup};
use crate::progress::Progress;
use crate::summary;
use crate::workers::{Pin, Workers};

/// Time that the result may take after a request to stop.
const FINISH: Duration = Duration::from_secs(10);

/// Rounds that batches are made short for when the time is short: about thrice what an interval needs.
const ROUNDS: f64 = 40.0;

/// On how many cores benchmarks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cores {
    /// One core while the others rest.
    One,
    /// Every core at the same time.
    All,
    /// Both, one after the other in every round.
    Both,
}

impl Cores {
    /// Its name in records and on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::All => "all",
            Self::Both => "both",
        }
    }
}

/// What to measure, where and for how long.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Time for everything, making inputs and sizing batches included. The least number of rounds is run
    /// whatever it says.
    pub time: Duration,
    /// Length to size batches for; without it, what lets enough rounds into the time.
    pub batch: Option<Duration>,
    /// Seed of inputs and orders.
    pub seed: u64,
    /// Words that select benchmarks; all when empty.
    pub only: Vec<String>,
    /// On how many cores.
    pub cores: Cores,
    /// CPUs to use, in ascending order.
    pub cpus: Vec<usize>,
}

impl Settings {
    /// Refuses settings that cannot be measured with.
    pub fn check(&self) -> Result<(), TaxError> {
        let wrong = |name, why: &str| {
            Err(TaxError::Setting {
                name,
                why: why.to_owned(),
            })
        };
        if self.cpus.is_empty() {
            return wrong("--cpus", "names no CPU");
        }
        let mut sorted = self.cpus.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() != self.cpus.len() {
            return wrong("--cpus", "names a CPU twice");
        }
        let allowed = Duration::from_micros(50)..=Duration::from_secs(1);
        if self.batch.is_some_and(|batch| !allowed.contains(&batch)) {
            return wrong("--batch", "is not between 50us and 1s");
        }
        if self.time < Duration::from_millis(100) || self.time > Duration::from_secs(86_400) {
            return wrong("--time", "is not between 100ms and 24h");
        }
        Ok(())
    }

    /// How many workers run at once in what was asked for.
    pub(crate) fn workers(&self) -> Vec<usize> {
        match self.cores {
            Cores::One => vec![1],
            Cores::All => vec![self.cpus.len()],
            Cores::Both => vec![1, self.cpus.len()],
        }
    }

    /// The length of a batch when `benchmarks` are measured: as asked for, else a share of the time that depends on
    /// nothing that is measured, so that two runs choose the same.
    pub(crate) fn batch_for(&self, benchmarks: usize) -> Duration {
        let modes = if self.cores == Cores::Both { 2 } else { 1 };
        // A warm-up of a tenth, and as much again for switching between threads.
        let batches = (benchmarks * modes).max(1) as f64 * ROUNDS * 1.2;
        self.batch.unwrap_or_else(|| {
            Duration::from_secs_f64(self.time.as_secs_f64() / batches)
                .clamp(Duration::from_micros(250), Duration::from_millis(2))
        })
    }

    /// Index of the CPU of runs on one core: the last, because the first takes most interrupts.
    pub(crate) fn single_cpu_index(&self) -> usize {
        self.cpus.len() - 1
    }
}

/// What the caller provides.
pub struct Surroundings<'a> {
    /// The command line, for the record.
    pub command: Vec<String>,
    /// Format of progress.
    pub progress: Progress,
    /// Set to end after the batch that runs.
    pub stop: &'a AtomicBool,
    /// Binds a thread to CPUs.
    pub pin: Pin,
    /// File that gets a line for every batch (CSV).
    pub batches: Option<PathBuf>,
}

/// One benchmark on one core or on all, with what was measured.
pub(crate) struct Entry {
    /// Which benchmark.
    pub benchmark: usize,
    /// Whether it runs on all cores.
    pub all: bool,
    /// Thread and slot of each worker.
    pub(crate) places: Vec<(usize, usize)>,
    /// Operations a worker does in a batch.
    pub operations: u64,
    /// Bytes per operation.
    pub bytes_per_operation: Option<f64>,
    /// Size after compression over size before.
    pub compressed_ratio: Option<f64>,
    /// Batches of each round, one a worker.
    pub rounds: Vec<Vec<Batch>>,
}

/// Chooses how many operations make a batch of `target_ns`, in whole cycles; of the numbers 1, 2, 3, 4, 6, 8,
/// 12 ... so that two runs choose the same.
fn size_batch(
    target_ns: u64,
    cycle: u64,
    mut measure: impl FnMut(u64) -> Result<u64, TaxError>,
) -> Result<u64, TaxError> {
    let mut cycles = 1u64;
    loop {
        // The shortest of three: a disturbance would otherwise size every batch of the run.
        let mut took_ns = u64::MAX;
        for _ in 0..3 {
            took_ns = took_ns.min(measure(cycles * cycle)?.max(1));
        }
        if took_ns * 4 >= target_ns || cycles >= 1 << 40 {
            let wanted = (cycles as f64 * target_ns as f64 / took_ns as f64).max(1.0);
            let power = 2f64.powf(wanted.log2().floor());
            let rounded = [power, power * 1.5, power * 2.0]
                .into_iter()
                .min_by(|a, b| {
                    let distance = |x: f64| (x / wanted).ln().abs();
                    distance(*a).total_cmp(&distance(*b))
                })
                .expect("three of them");
            return Ok((rounded.round() as u64).max(1) * cycle);
        }
        cycles *= 4;
    }
}

struct Run<'a> {
    settings: &'a Settings,
    batch: Duration,
    surroundings: &'a Surroundings<'a>,
    benchmarks: Vec<Box<dyn Microbenchmark>>,
    workers: Workers,
    slots: Vec<usize>,
    entries: Vec<Entry>,
}

impl Run<'_> {
    fn stopped(&self) -> bool {
        let is_asked = self.surroundings.stop.load(Ordering::Relaxed);
        if is_asked {
            Stop::allow_if_asked(FINISH);
        }
        is_asked
    }

    fn prepare(&mut self, benchmark: usize, all: bool) -> Result<(), TaxError> {
        let threads: Vec<usize> = if all {
            (0..self.settings.cpus.len()).collect()
        } else {
            vec![self.settings.single_cpu_index()]
        };
        let kind = self.benchmarks[benchmark].as_ref();
        let prepared = kind.prepare(&Setup {
            seed: self.settings.seed,
            workers: threads.len(),
        })?;
        assert_eq!(
            prepared.workers.len(),
            threads.len(),
            "{}: one worker a core",
            kind.name()
        );
        let mut places = Vec::new();
        for (&thread, worker) in threads.iter().zip(prepared.workers) {
            self.workers.give(thread, worker, kind.name())?;
            places.push((thread, self.slots[thread]));
            self.slots[thread] += 1;
        }
        let target_ns = self.batch.as_nanos() as u64;
        let operations = size_batch(target_ns, prepared.cycle, |operations| {
            let batches = self.workers.batch(&places, operations, kind.name())?;
            Ok(batches.iter().map(|b| b.wall_ns).min().unwrap_or(1))
        })?;
        self.entries.push(Entry {
            benchmark,
            all,
            places,
            operations,
            bytes_per_operation: prepared.bytes_per_operation,
            compressed_ratio: prepared.compressed_ratio,
            rounds: Vec::new(),
        });
        Ok(())
    }

    fn prepare_all(&mut self) -> Result<(), TaxError> {
        for benchmark in 0..self.benchmarks.len() {
            let name = self.benchmarks[benchmark].name();
            self.surroundings
                .progress
                .step(&format!("preparing {name}"));
            for all in [false, true] {
                let wanted = match self.settings.cores {
                    Cores::One => !all,
                    Cores::All => all,
                    Cores::Both => true,
                };
                if self.stopped() {
                    return Err(TaxError::Stopped);
                }
                let workers = if all { self.settings.cpus.len() } else { 1 };
                let possible = self.benchmarks[benchmark].missing(workers).is_none();
                if wanted && possible {
                    self.prepare(benchmark, all)?;
                }
            }
        }
        Ok(())
    }

    /// Runs every entry once in a random order; false when it was stopped midway, and nothing is kept.
    fn round(&mut self, random: &mut Random) -> Result<bool, TaxError> {
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        random.shuffle(&mut order);
        let mut round = vec![Vec::new(); order.len()];
        for index in order {
            if self.stopped() {
                return Ok(false);
            }
            let entry = &self.entries[index];
            let name = self.benchmarks[entry.benchmark].name();
            round[index] = self.workers.batch(&entry.places, entry.operations, name)?;
        }
        for (entry, batches) in self.entries.iter_mut().zip(round) {
            entry.rounds.push(batches);
        }
        Ok(true)
    }

    /// Runs rounds until `until`; returns whether it was stopped before.
    fn rounds(&mut self, started: Instant) -> Result<bool, TaxError> {
        let mut random = Random::stream(self.settings.seed, "order");
        let until = started + self.settings.time;
        let (mut done, mut longest) = (0u64, Duration::ZERO);
        let mut reported = Instant::now();
        loop {
            let begin = Instant::now();
            if done >= CONSTANTS.tax_rounds && begin + longest > until {
                return Ok(false);
            }
            if !self.round(&mut random)? {
                return Ok(true);
            }
            done += 1;
            longest = longest.max(begin.elapsed());
            if reported.elapsed() >= Duration::from_millis(500) {
                reported = Instant::now();
                self.surroundings.progress.round(
                    done,
                    started.elapsed().as_secs_f64(),
                    self.settings.time.as_secs_f64(),
                );
            }
        }
    }
}

/// Writes every batch as a line of `path`, in the order of benchmarks.
fn write_batches(run: &Run<'_>, path: &Path) -> Result<(), TaxError> {
    let written = (|| {
        let mut out = BufWriter::new(std::fs::File::create(path)?);
        writeln!(
            out,
            "benchmark,cores,round,worker,operations,begin_ns,wall_ns,cpu_ns,preemptions"
        )?;
        for entry in &run.entries {
            let name = run.benchmarks[entry.benchmark].name();
            let cores = if entry.all { "all" } else { "one" };
            for (number, round) in entry.rounds.iter().enumerate() {
                for (worker, batch) in round.iter().enumerate() {
                    writeln!(
                        out,
                        "{name},{cores},{number},{worker},{},{},{},{},{}",
                        batch.operations,
                        batch.begin_ns,
                        batch.wall_ns,
                        batch.cpu_ns,
                        batch.preemptions
                    )?;
                }
            }
        }
        out.flush()
    })();
    written.map_err(|source| TaxError::File {
        path: path.to_owned(),
        source,
    })
}

/// Measures what `settings` ask for.
pub fn run(settings: &Settings, surroundings: &Surroundings<'_>) -> Result<TaxResult, TaxError> {
    let benchmarks = crate::benchmarks::select(&settings.only)?;
    run_these(benchmarks, settings, surroundings)
}

/// The same with benchmarks of the caller's.
pub(crate) fn run_these(
    benchmarks: Vec<Box<dyn Microbenchmark>>,
    settings: &Settings,
    surroundings: &Surroundings<'_>,
) -> Result<TaxResult, TaxError> {
    settings.check()?;
    let clock = Clock::now();
    let started = Instant::now();
    let mut run = Run {
        settings,
        batch: settings.batch_for(benchmarks.len()),
        surroundings,
        benchmarks,
        workers: Workers::start(&settings.cpus, surroundings.pin)?,
        slots: vec![0; settings.cpus.len()],
        entries: Vec::new(),
    };
    run.prepare_all()?;
    if run.entries.is_empty() {
        let why = run.benchmarks.iter().find_map(|benchmark| {
            settings
                .workers()
                .into_iter()
                .find_map(|workers| benchmark.missing(workers))
        });
        return Err(TaxError::Setting {
            name: "--only",
            why: format!(
                "none of it can be measured here: {}",
                why.unwrap_or_default()
            ),
        });
    }
    let begin_ns = monotonic_ns();
    surroundings.progress.measure(begin_ns);
    let before = Usage::of_process();
    let interrupted = run.rounds(started)?;
    let after = Usage::of_process();
    let end_ns = monotonic_ns();
    surroundings.progress.end();
    if run.entries.iter().all(|entry| entry.rounds.is_empty()) {
        return Err(TaxError::Stopped);
    }
    if let Some(path) = &surroundings.batches {
        write_batches(&run, path)?;
    }
    Ok(summary::summarize(
        &run.benchmarks,
        &run.entries,
        settings,
        summary::Occasion {
            batch_ns: run.batch.as_nanos() as u64,
            command: surroundings.command.clone(),
            clock,
            begin_ns,
            end_ns,
            cpu_user_s: (after.user_ns - before.user_ns) as f64 / 1e9,
            cpu_system_s: (after.system_ns - before.system_ns) as f64 / 1e9,
            interrupted,
        },
    ))
}

#[cfg(test)]
mod tests;
