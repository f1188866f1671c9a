//! The search with real loads: offers the rates that [`super::search`] chooses and returns the results.
//!
//! In: settings of a load, an objective, a plan. Out: a [`CapacityResult`], whole or marked interrupted. Not
//! here: how loads are offered ([`crate::offer`]), what a result is worth ([`super::report`]).

use std::sync::atomic::{AtomicBool, Ordering};

use steelyard_record::{CONSTANTS, CapacityCriterion, CapacityProbe, ClosedLoop};

use super::evidence::{Criterion, sum_up, weigh};
use super::posterior::Prior;
use super::search::{Ended, Limits, Plan, Probe, Search, Seen, Step};
use super::served::Served;
use crate::LoadError;
use crate::control::LATE_NS;
use crate::latency::quantile;
use crate::offer::{Lost, Offer, Offered, busy_ratio, is_there};
use crate::progress::Progress;
use crate::settings::Settings;
use crate::slo::Slo;

/// Share of the time that the closed loop may take.
const CLOSED_TIME: f64 = 0.06;

/// What a search for the capacity is to be.
#[derive(Debug, Clone)]
pub struct Capacity {
    /// The load; its rate is replaced, and its warm-up and duration are the shortest of a probe.
    pub settings: Settings,
    /// The objective.
    pub slo: Slo,
    /// Most loads, the closed loop at the start included.
    pub probes: usize,
    /// Time for all of them; None: as if each were one of the shortest.
    pub time_ns: Option<u64>,
    /// Wanted probability that the capacity lies in the interval.
    pub confidence: f64,
    /// Width of the interval, as a share of its lower end, at which the search may end early.
    pub width_ratio: f64,
    /// Where to begin; None: where a closed loop says.
    pub start_per_s: Option<f64>,
}

/// How a search with real loads ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself.
    Search(Ended),
    /// It was stopped.
    Interrupted,
    /// The server has gone.
    Lost,
    /// One of the hosts that load has gone.
    HostLost,
}

/// What the search leaves behind.
#[derive(Debug)]
pub struct Trail {
    /// How it ended.
    pub end: End,
    /// The closed loop at its start.
    pub closed_loop: Option<ClosedLoop>,
    /// Every probe.
    pub probes: Vec<CapacityProbe>,
    /// The search, None when it did not begin.
    pub search: Option<Search>,
    /// The transport that was used, None before the first load has ended.
    pub io: Option<String>,
    /// The host that has gone, if that was the end.
    pub host: Option<Lost>,
}

impl Trail {
    fn lose(&mut self, host: Lost) -> End {
        self.host = Some(host);
        self.end = End::HostLost;
        self.end
    }
}

impl Capacity {
    /// Refuses what cannot be searched.
    pub fn check(&self) -> Result<(), LoadError> {
        let wrong = |name, why: &str| Err(LoadError::setting(name, why));
        if !(5..=1000).contains(&self.probes) {
            return wrong("--probes", "must be between 5 and 1000");
        }
        if self
            .time_ns
            .is_some_and(|time_ns| time_ns < self.settings.duration_ns)
        {
            return wrong("--time", "must be at least --duration");
        }
        if !(0.5..=0.999).contains(&self.confidence) {
            return wrong("--confidence", "must be between 0.5 and 0.999");
        }
        if !(0.001..=1.0).contains(&self.width_ratio) {
            return wrong("--width", "must be between 0.001 and 1");
        }
        if self.settings.arrival.mean_rate_per_s().is_some() {
            return wrong(
                "--arrival",
                "must be constant or poisson in a capacity search",
            );
        }
        self.settings.check()
    }

    /// Runs the search. An error is one of the first load; later ones end the search.
    pub fn run(
        &self,
        offer: &mut dyn Offer,
        stop: &AtomicBool,
        progress: Progress,
    ) -> Result<Trail, LoadError> {
        self.check()?;
        let mut trail = Trail {
            end: End::Interrupted,
            closed_loop: None,
            probes: Vec::new(),
            search: None,
            io: None,
            host: None,
        };
        let prior = match self.start_per_s {
            Some(start_per_s) => Prior::Guess(start_per_s),
            None => {
                let offered = offer.offer(&self.closed(), &self.slo)?;
                let closed = closed_loop(&offered);
                let completed = offered.result.requests.completed as f64;
                progress.closed_loop(closed.throughput_per_s);
                let nothing = closed.throughput_per_s <= 0.0;
                let throughput_per_s = closed.throughput_per_s;
                trail.closed_loop = Some(closed);
                if let Some(lost) = offered.lost {
                    trail.lose(lost);
                    return Ok(trail);
                }
                trail.io = Some(offered.result.settings.io.clone());
                if offered.result.interrupted {
                    return Ok(trail);
                }
                if nothing {
                    trail.end = End::Lost;
                    return Ok(trail);
                }
                Prior::ClosedLoop {
                    per_s: throughput_per_s,
                    completed,
                }
            }
        };
        let plan = self.plan(prior);
        let mut search = Search::new(plan, prior);
        trail.end = self.probe(&mut search, &mut trail, offer, stop, progress)?;
        trail.search = Some(search);
        Ok(trail)
    }

    /// Time for all loads, s.
    pub(super) fn time_s(&self) -> f64 {
        let each_ns = self.settings.duration_ns + self.settings.warmup_ns;
        let time_ns = self.time_ns.unwrap_or(each_ns * self.probes as u64);
        time_ns as f64 / 1e9
    }

    fn plan(&self, prior: Prior) -> Plan {
        let closed = self.start_per_s.is_none();
        let spent_s = if closed {
            let settings = self.closed();
            (settings.duration_ns + settings.warmup_ns) as f64 / 1e9
        } else {
            0.0
        };
        let limits = Limits {
            probes: self.probes - usize::from(closed),
            time_s: self.time_s() - spent_s,
            warmup_s: self.settings.warmup_ns as f64 / 1e9,
            measure_s: self.settings.duration_ns as f64 / 1e9,
            confidence: self.confidence,
            width_ratio: self.width_ratio,
        };
        Plan::new(&self.slo, &limits, prior.centre_per_s())
    }

    fn probe(
        &self,
        search: &mut Search,
        trail: &mut Trail,
        offer: &mut dyn Offer,
        stop: &AtomicBool,
        progress: Progress,
    ) -> Result<End, LoadError> {
        loop {
            if stop.load(Ordering::Relaxed) {
                return Ok(End::Interrupted);
            }
            let asked = match search.next() {
                Step::Done(ended) => return Ok(End::Search(ended)),
                Step::Probe(probe) => probe,
            };
            let number = trail.probes.len();
            let settings = self.open(&asked, number as u64 + 1, trail.io.is_none());
            let offered = match offer.offer(&settings, &self.slo) {
                Ok(offered) => offered,
                Err(error) if trail.io.is_some() && error.is_unreachable() => {
                    return Ok(End::Lost);
                }
                Err(LoadError::Host { host, why }) if trail.io.is_some() => {
                    return Ok(trail.lose(Lost { host, why }));
                }
                Err(error) => return Err(error),
            };
            if let Some(lost) = offered.lost {
                return Ok(trail.lose(lost));
            }
            trail.io = Some(offered.result.settings.io.clone());
            if offered.result.interrupted {
                return Ok(End::Interrupted);
            }
            if lost_connections(&offered) && !is_there(&self.settings) {
                return Ok(End::Lost);
            }
            let criteria = weigh(&self.slo, &offered.counted);
            let judgement = sum_up(&criteria);
            let generator_bound = !judgement.met && self.is_generator_bound(&offered);
            search.tell(Seen {
                probe: asked,
                judgement,
                throughput_per_s: offered.result.throughput_per_s,
                served: Served::of(&offered.counted, asked.measure_s, &search.plan().bound),
                generator_bound,
            });
            let probe = self.record(&asked, &criteria, generator_bound, offered);
            progress.probe(number + 1, &probe);
            trail.probes.push(probe);
        }
    }

    /// The record of a probe.
    fn record(
        &self,
        asked: &Probe,
        criteria: &[Criterion],
        generator_bound: bool,
        offered: Offered,
    ) -> CapacityProbe {
        let judgement = sum_up(criteria);
        let outcome = match (judgement.met, generator_bound) {
            (true, _) => "met",
            (false, false) => "unmet",
            (false, true) => "generator",
        };
        CapacityProbe {
            purpose: asked.purpose.name().to_owned(),
            rate_per_s: asked.rate_per_s,
            warmup_s: Some(asked.warmup_s),
            begin_ns: offered.result.begin_ns,
            end_ns: offered.result.end_ns,
            outcome: outcome.to_owned(),
            met_probability: judgement.met_probability,
            criteria: self.criteria(criteria, &offered),
            offered_per_s: offered.result.offered_per_s.unwrap_or(asked.rate_per_s),
            throughput_per_s: offered.result.throughput_per_s,
            busy_ratio: busy_ratio(&offered.result),
            requests: offered.result.requests,
            response: offered.result.latency.response,
            verdict: offered.result.verdict,
        }
    }

    /// A short closed loop.
    fn closed(&self) -> Settings {
        Settings {
            rate_per_s: None,
            duration_ns: (self.settings.duration_ns / 2)
                .max((CLOSED_TIME * self.time_s() * 1e9) as u64)
                .max(1_000_000_000),
            ..self.settings.clone()
        }
    }

    /// An open loop of requests that no other probe has made.
    fn open(&self, probe: &Probe, number: u64, first: bool) -> Settings {
        let duration_ns = (probe.measure_s * 1e9) as u64;
        Settings {
            rate_per_s: Some(probe.rate_per_s),
            warmup_ns: (probe.warmup_s * 1e9) as u64,
            duration_ns,
            seed: self.settings.seed.wrapping_add(number),
            prefill: self.settings.prefill.filter(|_| first),
            // Twenty batches or more, of a tenth of a second at least.
            interval_ns: (duration_ns / 20).clamp(100_000_000, 1_000_000_000),
            ..self.settings.clone()
        }
    }

    /// Whether it was the generator that could do no more: its own lag alone breaks a bound, or a thread of it
    /// had no CPU time left.
    fn is_generator_bound(&self, offered: &Offered) -> bool {
        let lag = &offered.latencies.lag;
        let lags = self.slo.percentiles.iter().any(|bound| {
            quantile(lag, bound.quantile()).is_some_and(|lag_ns| {
                lag_ns > LATE_NS.min(bound.at_most_ns) && 2 * lag_ns > bound.at_most_ns
            })
        });
        lags || busy_ratio(&offered.result) > CONSTANTS.generator_busy_ratio
    }

    fn criteria(&self, criteria: &[Criterion], offered: &Offered) -> Vec<CapacityCriterion> {
        let row = |(index, criterion): (usize, &Criterion)| {
            let percentile = self.slo.percentiles.get(index);
            let (value, bound) = match percentile {
                Some(bound) => (
                    quantile(&offered.latencies.response, bound.quantile()).map(|ns| ns as f64),
                    bound.at_most_ns as f64,
                ),
                None => (Some(criterion.ratio), criterion.bound_ratio),
            };
            CapacityCriterion {
                name: criterion.name.clone(),
                value,
                bound,
                unit: if percentile.is_some() { "ns" } else { "ratio" }.to_owned(),
                ratio: criterion.ratio,
                met: criterion.met,
            }
        };
        criteria.iter().enumerate().map(row).collect()
    }
}

/// Whether the load lost connections or could not make them again.
fn lost_connections(offered: &Offered) -> bool {
    let checks = &offered.result.verdict.checks;
    let lost = checks.iter().find(|check| check.id == "connections");
    offered.counted.whole.completed == 0 || lost.is_some_and(|check| check.value > Some(0.0))
}

fn closed_loop(offered: &Offered) -> ClosedLoop {
    ClosedLoop {
        begin_ns: offered.result.begin_ns,
        end_ns: offered.result.end_ns,
        throughput_per_s: offered.result.throughput_per_s,
        busy_ratio: busy_ratio(&offered.result),
    }
}
