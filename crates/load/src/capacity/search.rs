//! Which rate to probe next, and for how long: a state machine without I/O, so that it can be simulated.
//!
//! Three stages. *Unloaded*: a rate far below what a closed loop completed, since a server that is slow without a
//! queue keeps the objective at no rate. *Bracket*: the median of what is thought, in steps of at most a factor of
//! four, until one probe met the objective and one did not. *Narrow*: rates about the median in turn, so that
//! the slope is learned too. *Overload* and *return*, where overloaded probes complete less than one before: overload again
//! until it is known whether the server collapses, then a rate at which it comes back. A probe lasts as long as the queue is likely to need at its rate: a warm-up of one
//! relaxation time, then several of them, as the time that is left allows.
//!
//! Invariants: never more probes or time than allowed, but for the shortest probe; an answer is given
//! whatever the probes show; no interval is stated that the probes cannot bear. Not here: what a probe does
//! ([`super::measure`]).

use super::collapse::{Collapse, Overload, overload};
use super::posterior::{Posterior, Prior};
use super::served::changing;
pub use super::steps::{Answer, Ended, Limits, Plan, Probe, Purpose, Seen, Step, Unable};

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
/// How much of what may lie outside the interval may lie below and above it. Short probes of a queue that varies
/// much see too little of it, so that an interval that misses has begun too high (journal 0055).
const BELOW: f64 = 0.05;
const ABOVE: f64 = 0.4;

/// Overloaded probes that are added where a server seems to collapse, and their rate over what it held.
const AGAIN: usize = 2;
const OVER: f64 = 1.3;
/// How far below what a collapsed server serves it is tried whether it comes back, and how often lower.
const LOWER: f64 = 0.75;
const TRIES: usize = 4;
/// Where it is seen whether it has come back, over what it held.
const CHECKED: f64 = 0.9;
/// The capacity of a server in its slow state, at least, over what it serves then in all.
const SLOWEST: f64 = 0.9;

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

    /// What it was asked.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The probes so far.
    pub fn seen(&self) -> &[Seen] {
        &self.seen
    }

    fn highest_met(&self) -> Option<f64> {
        let met = self.seen.iter().filter(|seen| seen.judgement.met);
        met.map(|seen| seen.probe.rate_per_s).max_by(f64::total_cmp)
    }

    fn lowest_unmet(&self) -> Option<f64> {
        let unmet = self.seen.iter().filter(|seen| !seen.judgement.met);
        unmet
            .map(|seen| seen.probe.rate_per_s)
            .min_by(f64::total_cmp)
    }

    /// What overload does to the server.
    fn overload(&self) -> Overload {
        overload(&self.seen)
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
        self.posterior.tell(
            rate_per_s,
            &seen.judgement,
            measure_s,
            warmup_s,
            (!seen.generator_bound).then_some(seen.served),
        );
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
            .filter(|seen| !seen.judgement.met && seen.probe.rate_per_s <= floor * 1.001);
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
        let steady = self.overload() == Overload::Steady;
        if steady && self.is_bracketed() && self.seen.len() > LEAST && self.is_narrow() {
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
        if let Some(step) = self.after_overload() {
            return step;
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

    /// The next rate for a server that seems to collapse under overload: overload again until that is known, then
    /// rates at which it may come back and, once it is back, rates between what it held and where it collapsed.
    fn after_overload(&self) -> Option<(f64, Purpose)> {
        match self.overload() {
            Overload::Steady => None,
            Overload::Suspected { held_per_s, .. } => {
                let again = self.made(Purpose::Overload) < AGAIN;
                again.then_some((held_per_s * OVER, Purpose::Overload))
            }
            Overload::Collapsed(collapse) => {
                let last = self.seen.last()?;
                let met = last.judgement.met;
                if met && last.probe.rate_per_s > collapse.served_per_s {
                    let rate = (collapse.held_per_s * collapse.lost_per_s).sqrt();
                    return Some((rate, Purpose::Narrow));
                }
                if met && last.probe.purpose == Purpose::Return {
                    return Some((CHECKED * collapse.held_per_s, Purpose::Narrow));
                }
                let tries = self.made(Purpose::Return).min(TRIES) as i32;
                let lower = collapse.served_per_s * LOWER.powi(tries + 1);
                Some((collapse.back_per_s.unwrap_or(lower), Purpose::Return))
            }
        }
    }

    fn made(&self, purpose: Purpose) -> usize {
        self.seen
            .iter()
            .filter(|seen| seen.probe.purpose == purpose)
            .count()
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
            !seen.judgement.met
                && seen.probe.rate_per_s >= low
                && seen.probe.rate_per_s <= high * 1.25
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
        let overload = self.overload();
        let changing = changing(self.seen.iter().map(|seen| &seen.served)).filter(|_| stated);
        let slow = changing.map_or(f64::INFINITY, |changing| SLOWEST * changing.slow_per_s);
        let (less, lost) = match overload {
            Overload::Suspected {
                served_per_s,
                lost_per_s,
                ..
            } if stated => (SLOWEST * served_per_s, lost_per_s),
            _ => (f64::INFINITY, 0.0),
        };
        let low_per_s = low_per_s.map(|low| low.min(slow).min(less));
        let high_per_s = high_per_s.map(|high| high.max(lost));
        let answer = Answer {
            low_per_s,
            high_per_s,
            confidence,
            estimate_per_s: stated.then(|| self.estimate()),
            spread_ratio: self.posterior.spread_ratio(),
            met_per_s,
            unmet_per_s,
            unable: unable.filter(|_| !least),
            overload,
            changing,
        };
        match overload {
            Overload::Collapsed(collapse) => self.collapsed(answer, collapse),
            _ => answer,
        }
    }

    /// The answer for a server that collapses: between where it comes back and where it collapsed.
    fn collapsed(&self, answer: Answer, collapse: Collapse) -> Answer {
        let sure = collapse.back_per_s.unwrap_or(LOWER * collapse.served_per_s);
        Answer {
            low_per_s: Some(sure),
            high_per_s: Some(collapse.lost_per_s),
            confidence: self.plan.limits.confidence,
            estimate_per_s: Some(collapse.held_per_s),
            unable: None,
            changing: None,
            ..answer
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
            let share = seen
                .judgement
                .share
                .map_or(0.0, |share| share.bad / share.all);
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
