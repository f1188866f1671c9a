//! What co-location costs two workloads.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::run::{Orchestrator, RunStatus};
use crate::version::{Kind, Record};
use crate::{Check, Clock, Level};

/// What ran in a turn of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// The first workload alone.
    First,
    /// The second workload alone.
    Second,
    /// Both.
    Together,
}

/// One run of a workload, alone or beside the other; the whole is in the run's own directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColocationRun {
    /// Which of the two, 0 or 1.
    pub workload: u32,
    /// Whether it ran alone or beside the other.
    pub condition: Condition,
    /// Name of the run and of its directory, null where none was begun.
    pub run_id: Option<String>,
    /// How far it came.
    pub status: RunStatus,
    /// Why it is incomplete, null otherwise.
    pub status_reason: Option<String>,
    /// The workload's metric, null without a result.
    pub value: Option<f64>,
    /// Share of its measure phase in which the other was in its own, null for a run alone.
    pub overlap_ratio: Option<f64>,
    /// Checks of its verdict that object, without the load of the other workload.
    pub objections: Vec<Check>,
    /// Why it does not count, null where it does.
    pub refused: Option<String>,
}

/// Each condition once, in random order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColocationBlock {
    /// Number of the block, from 1.
    pub index: u32,
    /// The order of the conditions.
    pub order: Vec<Condition>,
    /// The runs made so far.
    pub runs: Vec<ColocationRun>,
}

/// What was expected of a workload, from how hard both press on the machine alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColocationPrediction {
    /// How many times as long work takes, null when not predicted.
    pub slowdown: Option<f64>,
    /// Lower end of its interval, null for a prediction without observed pairs.
    pub slowdown_low: Option<f64>,
    /// Upper end of it.
    pub slowdown_high: Option<f64>,
    /// `shared limits` or `observed pairs`, null when not predicted.
    pub method: Option<String>,
    /// The resource that is expected to be short, null for none.
    pub resource: Option<String>,
    /// Why nothing is predicted, null otherwise.
    pub missing: Option<String>,
    /// Predicted over measured slowdown less 1, null without one of them.
    pub error_ratio: Option<f64>,
    /// Whether it is within the interval of the measured one, null without that.
    pub is_within_interval: Option<bool>,
}

/// One of the two workloads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColocationWorkload {
    /// What it is called: the benchmark, or the program of a command.
    pub name: String,
    /// Which benchmark.
    pub benchmark: String,
    /// Parameters that were asked for.
    pub parameters: BTreeMap<String, String>,
    /// The metric that is compared.
    pub metric: String,
    /// Its unit, null before the first result.
    pub unit: Option<String>,
    /// `higher` or `lower`, null before the first result.
    pub better: Option<String>,
    /// Values that count, alone.
    pub alone: Vec<f64>,
    /// Values that count, beside the other.
    pub together: Vec<f64>,
    /// Median alone over median together, or the reverse where lower is better.
    pub slowdown: Option<f64>,
    /// Lower end of its 95 % interval, null below 3 values of either side.
    pub slowdown_low: Option<f64>,
    /// Upper end of it.
    pub slowdown_high: Option<f64>,
    /// Earlier sessions of the same pair whose spread the interval has, null where it is of this one alone.
    #[serde(default)]
    pub sessions: Option<u64>,
    /// Why there is no slowdown or no interval.
    pub missing: Option<String>,
    /// Share of each limit of the machine that it used alone, mean over its runs; null unknown.
    pub r#use: BTreeMap<String, Option<f64>>,
    /// What the other used alone of the same limits: on the same CPUs for `cpu`.
    pub beside: BTreeMap<String, Option<f64>>,
    /// Null before the last run.
    pub prediction: Option<ColocationPrediction>,
}

/// Two workloads alone and together: `colocation.json`, beside the directories of their runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Colocation {
    /// Schema version and kind.
    #[serde(flatten)]
    pub kind: Kind,
    /// Unique name, also of the directory.
    pub colocation_id: String,
    /// `smoke`, `quick`, `standard` or `full`.
    pub tier: String,
    /// Number of blocks that were asked for.
    pub repeats: u32,
    /// Length of the measure phases that was asked for, null where the tier decides; one that is shorter than the other
    /// is made longer.
    pub measure_s: Option<f64>,
    /// Of the order of the conditions.
    pub seed: u64,
    /// Limits that were set for all runs, such as lo=1Gbit.
    pub limits: Vec<String>,
    /// How far it came.
    pub status: RunStatus,
    /// Why it is incomplete, null otherwise.
    pub status_reason: Option<String>,
    /// Version of Steelyard.
    pub steelyard_version: String,
    /// The exact command.
    pub command: Vec<String>,
    /// Both clocks at the start.
    pub clock: Clock,
    /// When the last run ended, null before.
    pub end_ns: Option<u64>,
    /// The process that drives it: one that says `running` and whose process is gone was killed.
    pub orchestrator: Orchestrator,
    /// The two workloads.
    pub workloads: Vec<ColocationWorkload>,
    /// Blocks in the order in which they ran.
    pub blocks: Vec<ColocationBlock>,
    /// Share of each limit that both would use together, by their runs alone.
    pub together: BTreeMap<String, f64>,
    /// Resources that they would press past the threshold together.
    pub over: Vec<String>,
    /// The verdict, null before the end.
    pub level: Option<Level>,
    /// Why it is not valid.
    pub objections: Vec<String>,
}

impl Record for Colocation {
    const KIND: &'static str = "colocation";
    const VERSION: &'static str = "1.1";
}
