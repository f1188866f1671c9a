use serde::{Deserialize, Serialize};

use crate::load::{LoadLatency, LoadRequests, LoadSettings, Tool};
use crate::version::{Kind, Record};
use crate::{Clock, Verdict};

/// Latency over throughput: `sweep.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepResult {
    /// Schema version and kind.
    #[serde(flatten)]
    pub kind: Kind,
    /// The program that wrote it.
    pub tool: Tool,
    /// Its command line.
    pub command: Vec<String>,
    /// Both clocks at the start.
    pub clock: Clock,
    /// What was asked for; the rate is null, since each point has its own.
    pub settings: LoadSettings,
    /// `shuffled` or `ascending`: the order in which the rates were offered.
    pub order: String,
    /// Start of the sweep.
    pub begin_ns: u64,
    /// End of the sweep.
    pub end_ns: u64,
    /// Whether the sweep was stopped before its time.
    pub interrupted: bool,
    /// Completed requests per second of the closed loop that the rates were chosen by, null when they were given.
    pub closed_loop_per_s: Option<f64>,
    /// One row a rate that was offered, lowest first.
    pub points: Vec<SweepPoint>,
    /// Whether the curve may be believed.
    pub verdict: Verdict,
}

/// One load at one rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepPoint {
    /// Place in the order of time, from 0.
    pub position: u32,
    /// Rate that was asked for.
    pub rate_per_s: f64,
    /// Start of its measure phase.
    pub begin_ns: u64,
    /// End of its measure phase.
    pub end_ns: u64,
    /// Counts over the measure phase.
    pub requests: LoadRequests,
    /// Requests per second that the schedule asked for.
    pub offered_per_s: f64,
    /// Completed requests per second.
    pub throughput_per_s: f64,
    /// Completed over offered.
    pub achieved_ratio: f64,
    /// Distributions.
    pub latency: LoadLatency,
    /// The busiest generator thread's share of its CPU.
    pub busy_ratio: f64,
    /// What the generator says of this load; `invalid` where the rate is more than the server can do.
    pub verdict: Verdict,
}

impl Record for SweepResult {
    const KIND: &'static str = "sweep_result";
}
