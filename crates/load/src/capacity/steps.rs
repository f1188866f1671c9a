//! What a search is asked, does and answers: its limits, probes and answer.
//!
//! Plain values that the parts of the search share. Not here: what is decided by them ([`super::search`]).

use steelyard_record::CONSTANTS;

use super::collapse::{Collapse, Overload};
use super::curve::Bound;
use super::evidence::Judgement;
use super::served::{Changing, Served};
use crate::slo::Slo;

/// What the search may cost and how sure it must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Most probes.
    pub probes: usize,
    /// Time for all of them, warm-ups included.
    pub time_s: f64,
    /// Shortest warm-up of a probe.
    pub warmup_s: f64,
    /// Shortest measure phase of a probe.
    pub measure_s: f64,
    /// Probability with which the capacity must lie in the interval.
    pub confidence: f64,
    /// Width of the interval, as a share of the rate, below which the search may end early.
    pub width_ratio: f64,
}

/// A search that is to be made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// Its limits.
    pub limits: Limits,
    /// Lowest rate that can be measured in a probe.
    pub rate_min_per_s: f64,
    /// The objective's rarest percentile and its bound.
    pub bound: Bound,
}

impl Plan {
    /// A plan for `slo`, whose closed loop or guess is `centre_per_s`.
    pub fn new(slo: &Slo, limits: &Limits, centre_per_s: f64) -> Self {
        let ratio = slo.rarest_ratio().unwrap_or(slo.errors_ratio_max);
        let each_s = limits.time_s / limits.probes.max(1) as f64;
        let needed = CONSTANTS.samples_beyond_percentile as f64 / ratio.max(1e-4) / each_s;
        Self {
            limits: *limits,
            rate_min_per_s: needed.min(centre_per_s / 8.0).max(centre_per_s / 500.0),
            bound: Bound {
                ratio: ratio.clamp(1e-4, 0.5),
                at_most_s: slo.longest_s().unwrap_or(1.0),
            },
        }
    }
}

/// Why a rate is probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To see whether a server without a queue meets the objective.
    Unloaded,
    /// To find a rate that meets the objective and one that does not.
    Bracket,
    /// To come nearer.
    Narrow,
    /// To see again what an overloaded server answers, since it answered less than it had before.
    Overload,
    /// To see at which rate a server that collapsed comes back.
    Return,
}

impl Purpose {
    /// As records name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unloaded => "unloaded",
            Self::Bracket => "bracket",
            Self::Narrow => "narrow",
            Self::Overload => "overload",
            Self::Return => "return",
        }
    }
}

/// A probe that is to be made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probe {
    /// Rate to offer.
    pub rate_per_s: f64,
    /// Load before the measure phase.
    pub warmup_s: f64,
    /// Length of the measure phase.
    pub measure_s: f64,
    /// Why.
    pub purpose: Purpose,
}

/// What a probe came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// The probe.
    pub probe: Probe,
    /// Whether it met the objective.
    pub judgement: Judgement,
    /// Completed requests per second.
    pub throughput_per_s: f64,
    /// What it completed while requests waited.
    pub served: Served,
    /// Whether it was the generator that could do no more.
    pub generator_bound: bool,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// Make this probe.
    Probe(Probe),
    /// No further probe would help.
    Done(Ended),
}

/// Why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The interval is narrow enough.
    Narrow,
    /// All probes or all time is used.
    Used,
    /// The objective is not met at the lowest rate that can be measured.
    NeverMet,
    /// The generator can offer no more, and the server met the objective up to there.
    GeneratorBound,
}

/// Why no interval is stated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Unable {
    /// Fewer probes than needed were long enough: so many, of so many that are needed, of so many seconds.
    Short {
        /// Long enough.
        probes: usize,
        /// Needed.
        needed: usize,
        /// Length that is needed.
        measure_s: f64,
    },
    /// What is left is wider than this factor.
    Wide(f64),
}

impl Answer {
    /// How the server collapses under overload, None when it does not, or that is not known.
    pub fn collapse(&self) -> Option<Collapse> {
        match self.overload {
            Overload::Collapsed(collapse) => Some(collapse),
            _ => None,
        }
    }

    /// Width of the interval over the estimate, None when either is not stated.
    pub fn width_ratio(&self) -> Option<f64> {
        Some((self.high_per_s? - self.low_per_s?) / self.estimate_per_s?)
    }
}

/// What is known of the capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// Lower end, None when no interval is stated.
    pub low_per_s: Option<f64>,
    /// Upper end, None also when no rate was seen to be too much for the server.
    pub high_per_s: Option<f64>,
    /// Probability that the capacity lies between them.
    pub confidence: f64,
    /// The rate that the capacity is as likely above as below.
    pub estimate_per_s: Option<f64>,
    /// Expected spread of the capacity from run to run.
    pub spread_ratio: f64,
    /// Highest rate at which a probe met the objective.
    pub met_per_s: Option<f64>,
    /// Lowest rate at which a probe did not.
    pub unmet_per_s: Option<f64>,
    /// Why nothing is stated.
    pub unable: Option<Unable>,
    /// What overload does to the server. Where it collapses the interval reaches from where it comes back to where it
    /// collapsed, and the estimate is the highest rate that it held.
    pub overload: Overload,
    /// That its speed changes while it is loaded. The interval then reaches down to what it serves when it is slow.
    pub changing: Option<Changing>,
}
