//! Which rate to probe next, and for how long: a state machine without I/O, so that it can be simulated.
//!
//! Three stages. *Unloaded*: a rate far below what a closed loop completed, since a server that is slow without a
//! queue keeps the objective at no rate. *Bracket*: the median of what is thought, in steps of at most a factor of
//! four, until one probe met the objective and one did not. *Narrow*: rates about the median in turn, so that
//! the slope is learned too. A probe lasts as long as the queue is likely to need at its rate: a warm-up of one
//! relaxation time, then several of them, as the time that is left allows.
//!
//! Invariants: never more probes or time than allowed, but for the shortest probe; an answer is given
//! whatever the probes said; no interval is stated that the probes cannot bear. Not here: what a probe does
//! ([`super::measure`]).

use steelyard_record::BOUNDS;

use super::curve::Bound;
use super::evidence::Said;
use super::posterior::{Posterior, Prior};
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
        let needed = BOUNDS.samples_beyond_percentile as f64 / ratio.max(1e-4) / each_s;
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
}

impl Purpose {
    /// As records name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unloaded => "unloaded",
            Self::Bracket => "bracket",
            Self::Narrow => "narrow",
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
    /// What it said of the objective.
    pub said: Said,
    /// Completed requests per second.
    pub throughput_per_s: f64,
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
}

/// A search in progress.
#[derive(Debug, Clone)]
pub struct Search {
    plan: Plan,
    prior: Prior,
    posterior: Posterior,
    seen: Vec<Seen>,
    used_s: f64,
}

/// How far a step of the bracketing goes at most, as a factor.
const STRIDE: f64 = 4.0;
/// The rate that stands for a server without a queue, as a share of what a closed loop completed.
const UNLOADED: f64 = 0.3;
/// The share of the time that may be spent on it.
const UNLOADED_TIME: f64 = 0.1;
/// Relaxation times that a probe should last, and the share of it that its warm-up may take.
const RELAXATIONS: f64 = 3.0;
const WARMUP_SHARE: f64 = 0.3;
/// Probes besides the unloaded one that a search has at least, however slow the queue.
const LEAST: usize = 6;
/// Quantiles of the posterior that are probed in turn.
const ROUND: [f64; 5] = [0.25, 0.75, 0.5, 0.9, 0.1];
/// What an interval needs: so many probes, each so many times as long as the bound, and with so many requests
/// expected beyond it.
const BEARING: usize = 4;
const LONGER: f64 = 5.0;
const BEYOND: f64 = 3.0;
/// The widest interval that is stated, as a factor.
const WIDEST: f64 = 3.0;
/// Share of slow requests from which a probe shows how much the server serves.
const OVERLOADED: f64 = 0.9;
/// How much of what may lie outside the interval may lie below and above it. What disturbs a load makes it look like
/// less capacity, hardly ever like more, so that an interval that misses has ended too low (journal 0055).
const BELOW: f64 = 0.5;
const ABOVE: f64 = 0.1;

impl Search {
    /// A search that has seen nothing.
    pub fn new(plan: Plan, prior: Prior) -> Self {
        Self {
            plan,
            prior,
            posterior: Posterior::new(prior, plan.bound),
            seen: Vec::new(),
            used_s: 0.0,
        }
    }

    /// The probes so far.
    pub fn seen(&self) -> &[Seen] {
        &self.seen
    }

    fn highest_met(&self) -> Option<f64> {
        let met = self.seen.iter().filter(|seen| seen.said.met);
        met.map(|seen| seen.probe.rate_per_s).max_by(f64::total_cmp)
    }

    fn lowest_unmet(&self) -> Option<f64> {
        let unmet = self.seen.iter().filter(|seen| !seen.said.met);
        unmet
            .map(|seen| seen.probe.rate_per_s)
            .min_by(f64::total_cmp)
    }

    fn left(&self) -> usize {
        self.plan.limits.probes.saturating_sub(self.seen.len())
    }

    fn left_s(&self) -> f64 {
        self.plan.limits.time_s - self.used_s
    }

    /// Takes in what a probe came to.
    pub fn tell(&mut self, seen: Seen) {
        let Probe {
            rate_per_s,
            measure_s,
            warmup_s,
            ..
        } = seen.probe;
        self.posterior
            .tell(rate_per_s, &seen.said, measure_s, warmup_s);
        self.used_s += measure_s + warmup_s;
        self.seen.push(seen);
    }

    fn is_bracketed(&self) -> bool {
        self.highest_met().is_some() && self.lowest_unmet().is_some()
    }

    /// Whether the interval is narrow enough.
    fn is_narrow(&self) -> bool {
        let (low, high) = self.credible();
        high - low <= self.plan.limits.width_ratio * low
    }

    /// The rates between which the capacity lies with the confidence that is wanted.
    fn credible(&self) -> (f64, f64) {
        let outside = 1.0 - self.plan.limits.confidence;
        (
            self.posterior.quantile(BELOW * outside),
            self.posterior.quantile(1.0 - ABOVE * outside),
        )
    }

    /// What to do next.
    pub fn next(&self) -> Step {
        let floor = self.plan.rate_min_per_s;
        let failed_at_floor = self
            .seen
            .iter()
            .filter(|seen| !seen.said.met && seen.probe.rate_per_s <= floor * 1.001);
        let never = self.highest_met().is_none();
        if never && failed_at_floor.count() >= 2 {
            return Step::Done(Ended::NeverMet);
        }
        let shortest_s = self.plan.limits.warmup_s + self.plan.limits.measure_s;
        if self.left() == 0 || self.left_s() < 0.99 * shortest_s {
            return Step::Done(if never {
                Ended::NeverMet
            } else {
                self.ended(Ended::Used)
            });
        }
        if self.is_bracketed() && self.seen.len() > LEAST && self.is_narrow() {
            return Step::Done(self.ended(Ended::Narrow));
        }
        let (rate_per_s, purpose) = self.approach();
        Step::Probe(self.lasting(rate_per_s.max(floor), purpose))
    }

    /// A probe with the length that the queue needs at its rate, as far as time allows.
    fn lasting(&self, rate_per_s: f64, purpose: Purpose) -> Probe {
        let relaxation_s = self.posterior.relaxation_s(rate_per_s);
        let left_s = self.left_s();
        let slot_s = if purpose == Purpose::Unloaded {
            UNLOADED_TIME * self.plan.limits.time_s
        } else {
            let wanted = left_s / ((RELAXATIONS + 1.0) * relaxation_s);
            let least = (LEAST + 1).saturating_sub(self.seen.len()).max(1);
            let probes = (wanted as usize).max(least).min(self.left());
            left_s / probes as f64
        };
        let warmup_s = relaxation_s
            .min(WARMUP_SHARE * slot_s)
            .max(self.plan.limits.warmup_s);
        Probe {
            rate_per_s,
            warmup_s,
            measure_s: (slot_s - warmup_s).max(self.plan.limits.measure_s),
            purpose,
        }
    }

    /// The next rate, as far as one step goes.
    fn approach(&self) -> (f64, Purpose) {
        let closed = matches!(self.prior, Prior::ClosedLoop { .. });
        if self.seen.is_empty() && closed {
            let rate = UNLOADED * self.prior.centre_per_s();
            return (rate, Purpose::Unloaded);
        }
        let median = self.posterior.quantile(0.5);
        match (self.highest_met(), self.lowest_unmet()) {
            (Some(_), Some(_)) => {
                let narrowed = self
                    .seen
                    .iter()
                    .filter(|seen| seen.probe.purpose == Purpose::Narrow);
                let quantile = ROUND[narrowed.count() % ROUND.len()];
                (self.posterior.quantile(quantile), Purpose::Narrow)
            }
            (Some(met), None) => {
                // Time is short: what is surely too much shows where the limit is.
                let rate = if self.seen.len() >= 3 {
                    1.1 * self.posterior.quantile(0.95)
                } else {
                    self.posterior.quantile(0.8)
                };
                (rate.clamp(met * 1.02, met * STRIDE), Purpose::Bracket)
            }
            (None, Some(unmet)) => {
                // Far below is cheap to try: nothing was met yet, and there are few probes to find out.
                let rate = if self.seen.len() >= 3 || closed {
                    unmet / (2.0 * STRIDE)
                } else {
                    median
                };
                let purpose = if closed {
                    Purpose::Unloaded
                } else {
                    Purpose::Bracket
                };
                (rate.clamp(unmet / (2.0 * STRIDE), unmet * 0.98), purpose)
            }
            (None, None) => (median, Purpose::Bracket),
        }
    }

    /// The same end, unless the generator set the upper edge.
    fn ended(&self, ended: Ended) -> Ended {
        if self.generator_sets_the_edge() {
            Ended::GeneratorBound
        } else {
            ended
        }
    }

    /// Whether the rates that were too much were so for the generator, at least in half of the probes between
    /// the lower end and a quarter above the upper one.
    fn generator_sets_the_edge(&self) -> bool {
        let (low, high) = self.credible();
        let near = self.seen.iter().filter(|seen| {
            !seen.said.met && seen.probe.rate_per_s >= low && seen.probe.rate_per_s <= high * 1.25
        });
        let (mut all, mut generator) = (0, 0);
        for seen in near {
            all += 1;
            generator += usize::from(seen.generator_bound);
        }
        all > 0 && 2 * generator >= all
    }

    /// Why the probes cannot bear an interval, None when they can.
    fn unable(&self) -> Option<Unable> {
        let (low, high) = self.credible();
        let bound = self.plan.bound;
        let measure_s = (LONGER * bound.at_most_s).max(BEYOND / bound.ratio / low);
        let long = self.seen.iter().filter(|seen| {
            let probe = seen.probe;
            probe.measure_s >= LONGER * bound.at_most_s
                && probe.measure_s * probe.rate_per_s >= BEYOND / bound.ratio
        });
        let probes = long.count();
        if probes < BEARING {
            return Some(Unable::Short {
                probes,
                needed: BEARING,
                measure_s,
            });
        }
        (high > WIDEST * low).then(|| Unable::Wide(high / low))
    }

    /// What is known now; may be asked at any time.
    pub fn answer(&self) -> Answer {
        let (met_per_s, unmet_per_s) = (self.highest_met(), self.lowest_unmet());
        let unable = self.unable();
        let open = unmet_per_s.is_none() || self.generator_sets_the_edge();
        let (low, high) = self.credible();
        let stated = unable.is_none() && self.is_bracketed() && !open;
        let least = met_per_s.is_some() && open;
        let high_per_s = stated.then_some(high);
        let low_per_s = if stated {
            Some(low)
        } else if least {
            met_per_s.map(|met| met.min(self.posterior.quantile(1.0 - self.plan.limits.confidence)))
        } else {
            None
        };
        let confidence = if stated {
            self.plan.limits.confidence
        } else {
            low_per_s.map_or(0.0, |low| 1.0 - self.posterior.below(low))
        };
        Answer {
            low_per_s,
            high_per_s,
            confidence,
            estimate_per_s: stated.then(|| self.estimate()),
            spread_ratio: self.posterior.spread_ratio(),
            met_per_s,
            unmet_per_s,
            unable: unable.filter(|_| !least),
        }
    }

    /// The median, but no more than the server surely serves: what the closed loop and the overloaded probes
    /// completed, less two standard deviations of their count, or what one load completed, less three, since it is the
    /// best of several. So one slowed load, the closed loop among them, does not set it.
    fn estimate(&self) -> f64 {
        let median = self.posterior.quantile(0.5);
        let Prior::ClosedLoop { per_s, completed } = self.prior else {
            return median;
        };
        let surely = |all: f64, time_s: f64, deviations: f64| {
            all / time_s * (1.0 - deviations / all.max(16.0).sqrt())
        };
        let (mut all, mut time_s) = (completed, completed / per_s);
        let mut served = surely(all, time_s, 3.0);
        for seen in self.seen.iter().filter(|seen| !seen.generator_bound) {
            let measure_s = seen.probe.measure_s;
            let done = seen.throughput_per_s * measure_s;
            served = served.max(surely(done, measure_s, 3.0));
            let share = seen.said.share.map_or(0.0, |share| share.bad / share.all);
            if share > OVERLOADED {
                all += done;
                time_s += measure_s;
            }
        }
        median
            .min(served.max(surely(all, time_s, 2.0)))
            .max(self.credible().0)
    }

    /// Share of slow requests at `rate_per_s` as the curve has it: its 5 %, 50 % and 95 % points.
    pub fn share_ratio(&self, rate_per_s: f64) -> [f64; 3] {
        self.posterior.share_ratio(rate_per_s)
    }
}
