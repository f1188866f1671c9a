use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::version::{Kind, Record};
use crate::{Clock, Verdict};

/// The manifest of one execution: `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Schema version and kind.
    #[serde(flatten)]
    pub kind: Kind,
    /// Unique name, also of the directory.
    pub run_id: String,
    /// Which benchmark.
    pub benchmark: String,
    /// The suite it ran in, null when it ran alone.
    pub suite: Option<String>,
    /// `smoke`, `quick`, `standard` or `full`.
    pub tier: String,
    /// The repeats it belongs to.
    pub series: Series,
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
    /// The process that drives the run: a run that says `running` and whose process is gone was killed.
    pub orchestrator: Orchestrator,
    /// Settings by name.
    pub parameters: BTreeMap<String, Parameter>,
    /// Who runs where.
    pub cpus: Cpus,
    /// Phases in order.
    pub phases: Vec<Phase>,
    /// Parts of the measure phase, in order; empty where it is one (from 1.2).
    #[serde(default)]
    pub steps: Vec<Phase>,
    /// Processes that were started.
    pub processes: Vec<Process>,
    /// Results by name; empty while running.
    pub metrics: BTreeMap<String, Metric>,
    /// Whether the result may be believed, null while running or incomplete.
    pub verdict: Option<Verdict>,
    /// What hooks added, by hook.
    pub hooks: BTreeMap<String, Value>,
    /// Files of the run by role, relative to its directory.
    pub artifacts: BTreeMap<String, String>,
}

/// How far a run came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// Under way, if its orchestrator is alive.
    Running,
    /// Ended, with metrics and a verdict.
    Complete,
    /// Ended without a result.
    Incomplete,
}

/// Repeats of the same thing: the run is the replicate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// Common to all runs of one command.
    pub id: String,
    /// Number of this repeat, from 1.
    pub index: u32,
    /// Number of repeats asked for.
    pub count: u32,
}

/// The process that drives a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orchestrator {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since boot (field 22 of /proc/PID/stat), which reveals a reused id.
    pub start_ticks: u64,
    /// Boot that the process belongs to.
    pub boot_id: Option<String>,
    /// Host that it runs on.
    pub hostname: Option<String>,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Value: a number, a string or a truth value.
    pub value: Value,
    /// Unit, null for none.
    pub unit: Option<String>,
    /// Who chose it: `default`, `machine` or `set`.
    pub source: String,
}

/// CPU lists in the kernel's notation, null where not pinned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpus {
    /// Of the servers.
    pub server: Option<String>,
    /// Of the load.
    pub load: Option<String>,
    /// Instance by instance; empty where a benchmark has none.
    #[serde(default)]
    pub instances: Vec<CpuInstance>,
    /// Limits that were respected, choices, and why memory is not bound.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Where one instance runs: lists in the kernel's notation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuInstance {
    /// From 1.
    pub number: u32,
    /// CPUs of its servers.
    pub server: String,
    /// CPUs of the load on it, null without a load.
    pub load: Option<String>,
    /// NUMA nodes of its servers' CPUs, null where the kernel reports none.
    pub nodes: Option<String>,
    /// NUMA nodes that its servers' memory is bound to, null when it is not bound.
    pub memory_nodes: Option<String>,
}

/// A named interval of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// `install`, `start`, `warmup`, `measure` or `drain`.
    pub name: String,
    /// Start.
    pub begin_ns: u64,
    /// End, null while it lasts.
    pub end_ns: Option<u64>,
}

/// A process of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Role, such as `server`.
    pub name: String,
    /// Command line.
    pub command: Vec<String>,
    /// Process id.
    pub pid: u32,
    /// Exit code, null when it was killed or still runs.
    pub exit_code: Option<i32>,
    /// Signal that ended it, null when none did.
    pub signal: Option<i32>,
    /// Log file, relative to the run's directory.
    pub log: Option<String>,
}

/// One result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Value in base units, null when it could not be measured.
    pub value: Option<f64>,
    /// Unit, `1` for ratios and counts.
    pub unit: String,
    /// `higher`, `lower`, or null when neither is better.
    pub better: Option<String>,
    /// Why the value is null.
    pub missing: Option<String>,
}

impl Record for Run {
    const KIND: &'static str = "run";
    const VERSION: &'static str = "1.2";
}
