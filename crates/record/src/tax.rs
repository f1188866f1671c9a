use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::load::Tool;
use crate::version::{Kind, Record};
use crate::{Clock, Verdict};

/// What microbenchmarks of the datacenter tax measured: `tax.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaxResult {
    /// Schema version and kind.
    #[serde(flatten)]
    pub kind: Kind,
    /// The program that wrote it.
    pub tool: Tool,
    /// Its command line.
    pub command: Vec<String>,
    /// Both clocks at the start.
    pub clock: Clock,
    /// What was asked for.
    pub settings: TaxSettings,
    /// Start of the first round, after inputs were made and batches sized.
    pub begin_ns: u64,
    /// End of the last round.
    pub end_ns: u64,
    /// User CPU time of the program between the two, s.
    pub cpu_user_s: f64,
    /// System CPU time of the program between the two, s.
    pub cpu_system_s: f64,
    /// Whether it was stopped before its time; rounds that were complete count all the same.
    pub interrupted: bool,
    /// Rounds that were completed; each ran every benchmark once, in an order of its own.
    pub rounds: u64,
    /// One row a benchmark, by category and name.
    pub benchmarks: Vec<TaxBenchmark>,
    /// Score on one core, null when it was not measured.
    pub score_one: Option<TaxScore>,
    /// Score on all cores at once, null when it was not measured.
    pub score_all: Option<TaxScore>,
    /// Whether the measuring vouches for the result.
    pub verdict: Verdict,
}

/// What was asked of the microbenchmarks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaxSettings {
    /// Time for everything, s.
    pub time_s: f64,
    /// Length that batches were sized for, ns.
    pub batch_ns: u64,
    /// Seed of inputs and orders.
    pub seed: u64,
    /// Words of which a benchmark's name or category must hold one; all benchmarks when empty.
    pub only: Vec<String>,
    /// `one`, `all` or `both`.
    pub cores: String,
    /// CPUs of the run on all cores.
    pub cpus: Vec<u32>,
    /// CPU of the run on one core.
    pub one_cpu: u32,
    /// Quantile of the rounds' times that stands for a benchmark.
    pub quantile: f64,
    /// Confidence of every interval.
    pub confidence: f64,
    /// Width of an interval over its value above which a result is `wide`.
    pub wide_bound_ratio: f64,
}

/// One benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaxBenchmark {
    /// Its name.
    pub name: String,
    /// Its category, such as `hashing`.
    pub category: String,
    /// What one operation is.
    pub operation: String,
    /// Bytes an operation takes in, null where operations have no size.
    pub bytes_per_operation: Option<f64>,
    /// Size after compression over size before, null where nothing is compressed.
    pub compressed_ratio: Option<f64>,
    /// Whether workers sleep as part of their work.
    pub waits: bool,
    /// On one core, null when it was not measured.
    pub one: Option<TaxMeasure>,
    /// On all cores at once, null when it was not measured.
    pub all: Option<TaxMeasure>,
    /// Why `one` or `all` is null although it was asked for, null where neither is.
    pub missing: Option<String>,
    /// Rate on all cores over rate on one core times the number of cores, null without both.
    pub scaling_ratio: Option<f64>,
}

/// What one benchmark did on one core, or on all at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaxMeasure {
    /// Cores that ran it at the same time.
    pub workers: u32,
    /// Operations a worker does in a batch.
    pub operations_per_batch: u64,
    /// Time per operation of one core, ns.
    pub time_ns: f64,
    /// Lower end of the interval of `time_ns`, null with too few rounds for the confidence.
    pub interval_low_ns: Option<f64>,
    /// Upper end of the interval of `time_ns`, null with too few rounds for the confidence.
    pub interval_high_ns: Option<f64>,
    /// Width of the interval over `time_ns`, null without an interval.
    pub width_ratio: Option<f64>,
    /// Whether the interval is wider than the bound, or there is none.
    pub wide: bool,
    /// Operations per second of all workers together.
    pub rate_per_s: f64,
    /// Bytes per second of all workers together, null where operations have no size.
    pub rate_bytes_per_s: Option<f64>,
    /// Operations per second of each worker, in the order of the CPUs.
    pub worker_rates_per_s: Vec<f64>,
    /// Median over rounds of the shortest worker's time over the longest's: 1 when all ran at the same time
    /// throughout.
    pub overlap_ratio: f64,
    /// Batches, one a round and worker.
    pub batches: u64,
    /// Batches in which something else had the CPU; they are part of the result.
    pub disturbed: u64,
    /// CPU time over wall time of all batches.
    pub cpu_ratio: f64,
    /// Checksum of what a batch computed, null where batches do not repeat it.
    pub checksum: Option<String>,
}

/// Rates as one figure. Only its ratio to that of another run of the same benchmarks means anything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaxScore {
    /// Geometric mean over categories, operations per second.
    pub rate_per_s: f64,
    /// Lower end of its interval, null with too few rounds.
    pub interval_low_per_s: Option<f64>,
    /// Upper end of its interval, null with too few rounds.
    pub interval_high_per_s: Option<f64>,
    /// By category.
    pub categories: BTreeMap<String, TaxCategory>,
}

/// One category's part of a score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaxCategory {
    /// Benchmarks in it.
    pub benchmarks: u32,
    /// Geometric mean over them, operations per second.
    pub rate_per_s: f64,
    /// Lower end of its interval, null with too few rounds.
    pub interval_low_per_s: Option<f64>,
    /// Upper end of its interval, null with too few rounds.
    pub interval_high_per_s: Option<f64>,
}

impl Record for TaxResult {
    const KIND: &'static str = "tax_result";
}
