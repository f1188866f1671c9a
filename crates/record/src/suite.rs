use serde::{Deserialize, Serialize};

use crate::run::{Orchestrator, RunStatus};
use crate::version::{Kind, Record};
use crate::{Check, Clock, Level};

/// The manifest of one execution of a suite: `suite.json`, beside the directories of its members' runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Suite {
    /// Schema version and kind.
    #[serde(flatten)]
    pub kind: Kind,
    /// Unique name, also of the directory.
    pub suite_id: String,
    /// Which suite.
    pub suite: String,
    /// `smoke`, `quick`, `standard` or `full`.
    pub tier: String,
    /// Number of runs of each member that were asked for.
    pub repeats: u32,
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
    /// Both clocks at each time that it went on after an interruption.
    #[serde(default)]
    pub resumed: Vec<Clock>,
    /// When the last member ended, null before.
    pub end_ns: Option<u64>,
    /// The process that drives the suite: one that says `running` and whose process is gone was killed.
    pub orchestrator: Orchestrator,
    /// Benchmarks in the order in which they run.
    pub members: Vec<SuiteMember>,
    /// The overall score, null before the last member ended.
    pub overall: Option<SuiteOverall>,
}

/// One benchmark of a suite with what its runs amount to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuiteMember {
    /// Which benchmark.
    pub benchmark: String,
    /// Its runs in the order in which they were made; empty before the first began.
    pub runs: Vec<SuiteRun>,
    /// Why it was not run, null otherwise.
    pub refused: Option<String>,
    /// The metric that it is scored by.
    pub metric: String,
    /// Median of the metric over the runs that count, null when there is none.
    pub value: Option<f64>,
    /// Unit of `value`.
    pub unit: Option<String>,
    /// Score against the baseline, null when there is none.
    pub score: Option<f64>,
    /// Lower end of the interval for the score, null below 3 runs of either side.
    pub score_low: Option<f64>,
    /// Upper end of it.
    pub score_high: Option<f64>,
    /// Why there is no score, null otherwise.
    pub no_score: Option<String>,
    /// Why the score has no interval, null where it has one or there is no score.
    #[serde(default)]
    pub no_interval: Option<String>,
    /// Earlier sessions of the machine whose spread the interval has, null where it is of this one alone.
    #[serde(default)]
    pub sessions: Option<u64>,
    /// Largest minus smallest run over their median, null below two runs.
    #[serde(default)]
    pub spread_ratio: Option<f64>,
    /// The part with the smallest score, null where the result has no parts.
    #[serde(default)]
    pub worst_part: Option<SuitePart>,
    /// The part with the largest score.
    #[serde(default)]
    pub best_part: Option<SuitePart>,
    /// What the baseline's figure rests on, null where there is no score.
    #[serde(default)]
    pub baseline: Option<SuiteBaseline>,
}

/// A part of a score: a category of a benchmark, or a member of the suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuitePart {
    /// Its metric, or the benchmark.
    pub name: String,
    /// Its score against the baseline.
    pub score: f64,
}

/// What the baseline's figure for one benchmark rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuiteBaseline {
    /// When it was measured, such as 2026-11-21.
    pub date: String,
    /// Runs of which it is the median.
    pub runs: u32,
    /// How many of them are suspect.
    pub suspect_runs: u32,
    /// Score of the worst of them by itself.
    pub lowest: f64,
    /// Score of the best of them by itself.
    pub highest: f64,
}

/// One run of a member, in short; the whole is in the run's own directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuiteRun {
    /// Name of the run and of its directory, which lies in the suite's.
    pub run_id: String,
    /// Number of the repeat, from 1.
    pub index: u32,
    /// How far it came.
    pub status: RunStatus,
    /// Why it is incomplete, null otherwise.
    pub status_reason: Option<String>,
    /// Its verdict, null while running or incomplete.
    pub level: Option<Level>,
    /// The checks that object.
    pub reasons: Vec<Check>,
}

/// The geometric mean of the members' scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuiteOverall {
    /// The mean, null when it is withheld.
    pub score: Option<f64>,
    /// Lower end of the interval for the score, null below 3 runs of either side.
    #[serde(default)]
    pub score_low: Option<f64>,
    /// Upper end of it.
    #[serde(default)]
    pub score_high: Option<f64>,
    /// Why the score has no interval, null where it has one or is withheld.
    #[serde(default)]
    pub no_interval: Option<String>,
    /// Earlier sessions of the machine whose spread the interval has, null where it is of this one alone.
    #[serde(default)]
    pub sessions: Option<u64>,
    /// The member with the smallest score.
    #[serde(default)]
    pub worst: Option<SuitePart>,
    /// The member with the largest score.
    #[serde(default)]
    pub best: Option<SuitePart>,
    /// Why it is withheld, null otherwise.
    pub withheld: Option<String>,
    /// Members whose result is suspect: the score rests on them too.
    pub suspect: Vec<String>,
    /// How users name the baseline, null when there is none.
    pub baseline: Option<String>,
    /// How a report names the baseline's machine, null when there is none.
    pub baseline_title: Option<String>,
}

impl Record for Suite {
    const KIND: &'static str = "suite";
    const VERSION: &'static str = "1.3";
}
