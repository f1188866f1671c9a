use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Clock;
use crate::version::{Kind, Record};

/// What a recording holds and how it ended: `telemetry.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Telemetry {
    /// Schema version and kind.
    #[serde(flatten)]
    pub kind: Kind,
    /// Version of the recorder.
    pub tool_version: String,
    /// The command line of the recorder.
    pub command: Vec<String>,
    /// Root of the /proc and /sys trees that were read.
    pub root: String,
    /// Both clocks at the start.
    pub clock: Clock,
    /// Time asked for between ticks; 0 means back to back.
    pub interval_ns: u64,
    /// First tick.
    pub begin_ns: u64,
    /// Last tick, null while recording.
    pub end_ns: Option<u64>,
    /// Ticks taken.
    pub ticks: u64,
    /// Ticks that were due but not taken because the one before had not ended.
    pub missed_ticks: u64,
    /// One row a source, those that this machine lacks included.
    pub sources: Vec<Source>,
    /// What recording cost, null while recording.
    pub cost: Option<SelfCost>,
    /// Whether every file was finished.
    pub complete: bool,
    /// Why the recording ended: `count`, `duration`, `signal`, `command`, `error: ...`; null while recording.
    pub end_reason: Option<String>,
    /// How the recorded command ended, when there was one.
    pub command_exit: Option<i32>,
}

/// One file of a recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Name, such as `cpu`.
    pub name: String,
    /// Whether this machine has it.
    pub available: bool,
    /// Why not, or what went wrong later.
    pub reason: Option<String>,
    /// File name inside the recording, null when there is none.
    pub file: Option<String>,
    /// Rows written.
    pub rows: u64,
    /// Reads that failed after the source was opened.
    pub failed_reads: u64,
    /// Mean time of one read, null when there was none.
    pub read_ns_mean: Option<f64>,
    /// The table's columns.
    pub columns: Vec<Column>,
    /// Things that were asked for and have no rows, or not all, such as an event that the CPU lacks: the
    /// reason by name. Absent before 1.1.
    #[serde(default)]
    pub missing_items: BTreeMap<String, String>,
    /// What a reader of the rows should know, one sentence each, such as that a group of events had to be
    /// split. Absent before 1.1.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// One column of a source's table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Name, with its unit where it has one.
    pub name: String,
    /// What the values are.
    pub kind: ColumnKind,
    /// Unit, `1` for a plain number, null for a label.
    pub unit: Option<String>,
    /// Why the column is all null on this machine, null when it is not.
    pub missing: Option<String>,
}

/// How a column's values are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnKind {
    /// The monotonic time of the read.
    Time,
    /// Which entity the row is of.
    Label,
    /// A count since some moment; only differences mean anything, and a fall is a reset or a wrap.
    Counter,
    /// A value at that moment.
    Gauge,
}

/// What the recorder itself used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelfCost {
    /// User CPU time, s.
    pub cpu_user_s: f64,
    /// System CPU time, s.
    pub cpu_system_s: f64,
    /// CPU time per tick, ns.
    pub cpu_per_tick_ns: f64,
    /// Largest resident set, null when it could not be read.
    pub rss_max_bytes: Option<u64>,
}

impl Record for Telemetry {
    const KIND: &'static str = "telemetry";
    const VERSION: &'static str = "1.1";
}
