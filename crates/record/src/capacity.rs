use serde::{Deserialize, Serialize};

use crate::load::{LatencySummary, LoadRequests, LoadSettings, Tool};
use crate::version::{Kind, Record};
use crate::{Clock, Verdict};

/// The highest offered rate at which a server meets an objective: `capacity.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityResult {
    /// Schema version and kind.
    #[serde(flatten)]
    pub kind: Kind,
    /// The program that wrote it.
    pub tool: Tool,
    /// Its command line.
    pub command: Vec<String>,
    /// Both clocks at the start.
    pub clock: Clock,
    /// What was asked for; the rate is null, since it is what was sought.
    pub settings: LoadSettings,
    /// The objective, such as `p95<=500ms,errors<=0.001,achieved>=0.99`.
    pub slo: String,
    /// Start of the search.
    pub begin_ns: u64,
    /// End of the search.
    pub end_ns: u64,
    /// Whether the search was stopped before its time.
    pub interrupted: bool,
    /// The closed loop that the search began with, null when a start rate was given.
    pub closed_loop: Option<ClosedLoop>,
    /// Every probe, in order.
    pub probes: Vec<CapacityProbe>,
    /// Time that the search was given for all loads, s; null in older records.
    #[serde(default)]
    pub time_s: Option<f64>,
    /// What the probes showed by themselves, whatever is concluded from them; null in older records.
    #[serde(default)]
    pub tried: Option<CapacityTried>,
    /// The curve behind the interval, lowest rate first; empty without one.
    #[serde(default)]
    pub curve: Vec<CapacityPoint>,
    /// How the server collapses under overload, null where it does not.
    #[serde(default)]
    pub collapse: Option<CapacityCollapse>,
    /// How the server's speed changes under load, null where it does not.
    #[serde(default)]
    pub changing: Option<CapacityChanging>,
    /// Where the capacity lies, null when the objective was met nowhere or the probes cannot bear an interval.
    pub interval: Option<CapacityInterval>,
    /// The rate that the capacity is as likely above as below, or the highest that was held where the server
    /// collapses; null without one rate that met the objective and one that did not.
    pub estimate_per_s: Option<f64>,
    /// Expected standard deviation of the capacity from run to run, as a share of it, null without an estimate.
    pub spread_ratio: Option<f64>,
    /// `interval`, `at-least` (nothing showed the server's limit), `never` (the objective was not met at any
    /// rate) or `unknown` (the search was stopped, or its probes cannot bear an interval).
    pub answer: String,
    /// Why the search ended, one sentence.
    pub ended: String,
    /// Whether the answer may be believed.
    pub verdict: Verdict,
}

/// A closed loop that shows about how much the server can do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClosedLoop {
    /// Start of its measure phase.
    pub begin_ns: u64,
    /// End of its measure phase.
    pub end_ns: u64,
    /// Completed requests per second.
    pub throughput_per_s: f64,
    /// The busiest generator thread's share of its CPU.
    pub busy_ratio: f64,
}

/// What the probes of a search showed by themselves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityTried {
    /// Highest rate at which a probe met the objective, null when none did.
    pub met_per_s: Option<f64>,
    /// Lowest rate at which a probe did not, null when all did.
    pub unmet_per_s: Option<f64>,
    /// Whether the server met the objective nearly without load, null when that was not tried.
    pub unloaded_met: Option<bool>,
}

/// A server that completes less under overload than it did before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityCollapse {
    /// Highest rate that it held before it collapsed.
    pub held_per_s: f64,
    /// Lowest rate above it at which it collapsed.
    pub lost_per_s: f64,
    /// Completed per second under overload.
    pub served_per_s: f64,
    /// Highest rate after which it held what it had held before, null when no probe showed one.
    pub back_per_s: Option<f64>,
}

/// A server whose speed changes under load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityChanging {
    /// Completed per second while it is slow.
    pub slow_per_s: f64,
    /// Completed per second while it is fast.
    pub fast_per_s: f64,
    /// About how long one speed lasts, s.
    pub lasts_s: f64,
}

/// A point of the curve that was fitted: the share of requests beyond the bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityPoint {
    /// Offered rate.
    pub rate_per_s: f64,
    /// Share that is as likely too high as too low.
    pub ratio: f64,
    /// 5 % point of it.
    pub low_ratio: f64,
    /// 95 % point of it.
    pub high_ratio: f64,
}

/// One load at one rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityProbe {
    /// `unloaded`, `bracket`, `narrow`, `overload` or `return`; in older records also `confirm-low` and `confirm-high`.
    pub purpose: String,
    /// Rate that was asked for.
    pub rate_per_s: f64,
    /// Load at this rate before the measure phase, s; null in older records.
    #[serde(default)]
    pub warmup_s: Option<f64>,
    /// Start of its measure phase.
    pub begin_ns: u64,
    /// End of its measure phase.
    pub end_ns: u64,
    /// `met`, `unmet` or `generator` (unmet, and the generator could do no more).
    pub outcome: String,
    /// Probability that the objective is met at this rate but for the probe's own noise.
    pub met_probability: f64,
    /// One row a bound of the objective.
    pub criteria: Vec<CapacityCriterion>,
    /// Counts over the measure phase.
    pub requests: LoadRequests,
    /// Requests per second that the schedule asked for.
    pub offered_per_s: f64,
    /// Completed requests per second.
    pub throughput_per_s: f64,
    /// Response times, from the intended time.
    pub response: LatencySummary,
    /// The busiest generator thread's share of its CPU.
    pub busy_ratio: f64,
    /// What the generator says of this load; `invalid` where the rate is more than the server can do.
    pub verdict: Verdict,
}

/// A bound of the objective and what a probe measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityCriterion {
    /// `p95` and the like, `errors` or `achieved`.
    pub name: String,
    /// What was measured: ns for a percentile, else a share; null without answers.
    pub value: Option<f64>,
    /// Its bound.
    pub bound: f64,
    /// `ns` or `1`.
    pub unit: String,
    /// Share of requests that count against it: slower than the bound, or failed; for `achieved` the share of
    /// the offered rate that was completed.
    pub ratio: f64,
    /// Whether the bound is kept.
    pub met: bool,
}

/// Rates between which the capacity lies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityInterval {
    /// Lower end: the objective is met, null when it was not met anywhere.
    pub low_per_s: Option<f64>,
    /// Upper end: the objective is not met, null when nothing showed the server's limit.
    pub high_per_s: Option<f64>,
    /// Probability that the capacity lies between them.
    pub confidence: f64,
    /// How the lower end was probed afresh; older records only.
    #[serde(default)]
    pub low_edge: Option<CapacityEdge>,
    /// How the upper end was probed afresh; older records only.
    #[serde(default)]
    pub high_edge: Option<CapacityEdge>,
}

/// Fresh probes of an end of the interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityEdge {
    /// Where: not outside the interval.
    pub rate_per_s: f64,
    /// Probes made there after it was chosen.
    pub repeats: u32,
    /// How many of them said what the end says.
    pub agreed: u32,
    /// Whether all of them together confirm it.
    pub confirmed: bool,
}

impl Record for CapacityResult {
    const KIND: &'static str = "capacity_result";
}
