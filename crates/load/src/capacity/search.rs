//! Which rate to probe next: a state machine without I/O, so that it can be simulated.
//!
//! Four stages. *Bracket*: probe the median of what is thought, in steps of at most a factor of four, until one
//! probe met the objective and one did not. *Narrow*: probe the median. *Confirm*: choose two edges, one that
//! should meet the objective and one that should not, and probe each afresh, twice; an edge that those probes
//! contradict is chosen anew. *Done*: with the edges as the interval, and with the probability that the capacity lies inside.
//!
//! Invariants: never more probes than allowed; an answer is given whatever the probes said; an edge that is
//! called confirmed was probed at least twice after it was chosen. Not here: what a probe does
//! ([`super::measure`]).

use super::evidence::{Excess, Said};
use super::posterior::{Posterior, Prior, REACH};

/// What the search may cost and how sure it must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// Most probes.
    pub probes: usize,
    /// Probability with which the capacity must lie in the interval.
    pub confidence: f64,
    /// Width of the interval, as a share of the rate, below which it is narrow enough to be confirmed.
    pub width_ratio: f64,
    /// Lowest rate that can be measured in a probe.
    pub rate_min_per_s: f64,
}

/// Why a rate is probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To find a rate that meets the objective and one that does not.
    Bracket,
    /// To come nearer.
    Narrow,
    /// To see again that the lower edge meets the objective.
    ConfirmLow,
    /// To see again that the upper edge does not.
    ConfirmHigh,
}

impl Purpose {
    /// As records name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bracket => "bracket",
            Self::Narrow => "narrow",
            Self::ConfirmLow => "confirm-low",
            Self::ConfirmHigh => "confirm-high",
        }
    }
}

/// What a probe came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// Offered rate.
    pub rate_per_s: f64,
    /// Why it was probed.
    pub purpose: Purpose,
    /// What it said of the objective.
    pub said: Said,
    /// Whether it was the generator that could do no more.
    pub generator_bound: bool,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// Offer this rate.
    Probe(f64, Purpose),
    /// No further probe would help.
    Done(Ended),
}

/// Why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Both edges are confirmed.
    Confirmed,
    /// All probes are used.
    ProbesUsed,
    /// The objective is not met at the lowest rate that can be measured.
    NeverMet,
    /// The generator can offer no more, and the server met the objective up to there.
    GeneratorBound,
}

/// One end of the interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Edge {
    /// Rate.
    pub rate_per_s: f64,
    /// Fresh probes there: made after it was chosen.
    pub repeats: usize,
    /// How many of them said what an edge must say.
    pub agreed: usize,
    /// Sum of what they weighed for it, each from -1 to 1.
    weight: f64,
}

impl Edge {
    fn at(rate_per_s: f64) -> Self {
        Self {
            rate_per_s,
            repeats: 0,
            agreed: 0,
            weight: 0.0,
        }
    }

    fn tell(&mut self, agrees: bool, weight: f64) {
        self.repeats += 1;
        self.agreed += usize::from(agrees);
        self.weight += weight;
    }

    /// Whether fresh probes taken together have confirmed it.
    pub fn is_confirmed(&self) -> bool {
        self.repeats >= REPEATS && self.weight > 0.0
    }

    /// Whether fresh probes taken together contradict it.
    fn is_contradicted(&self) -> bool {
        self.repeats >= REPEATS && self.weight <= 0.0
    }
}

/// What is known of the capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// Lower end, None when the objective was never met.
    pub low_per_s: Option<f64>,
    /// Upper end, None when no rate was seen to be too much for the server.
    pub high_per_s: Option<f64>,
    /// Probability that the capacity lies between them.
    pub confidence: f64,
    /// Where the ends were probed afresh, None before that.
    pub edges: Option<(Edge, Edge)>,
    /// The rate that the capacity is as likely above as below.
    pub estimate_per_s: Option<f64>,
    /// Expected spread of the capacity from run to run.
    pub spread_ratio: f64,
}

/// A search in progress.
#[derive(Debug, Clone)]
pub struct Search {
    plan: Plan,
    posterior: Posterior,
    seen: Vec<Seen>,
    edges: Option<(Edge, Edge)>,
    /// Sum of the squared errors of probes near the bound, and their number.
    errors: (f64, f64),
}

/// How far a step of the bracketing goes at most, as a factor.
const STRIDE: f64 = 4.0;
/// Probes that are kept for the confirmation: two for each edge, and one for a surprise.
const KEPT: usize = 6;
/// Fresh probes of an edge.
const REPEATS: usize = 2;
/// How likely the posterior may find it that the capacity lies outside, as a share of what is allowed: it takes the errors that probes
/// state of themselves at their word, and simulations against known queues show that they are sometimes too small
/// (journal 0055).
const OVERSURE: f64 = 0.6;
/// Where edges are probed: so likely does the capacity lie beyond. Nearer than the ends of the interval, since
/// what is met at a higher rate is met at a lower one, and nearer probes tell more.
const INNER: f64 = 0.15;

impl Search {
    /// A search that has seen nothing.
    pub fn new(plan: Plan, prior: Prior) -> Self {
        Self {
            plan,
            posterior: Posterior::new(prior),
            seen: Vec::new(),
            edges: None,
            errors: (0.0, 0.0),
        }
    }

    /// The probes so far.
    pub fn seen(&self) -> &[Seen] {
        &self.seen
    }

    fn highest_met(&self) -> Option<f64> {
        let met = self.seen.iter().filter(|seen| seen.said.met);
        met.map(|seen| seen.rate_per_s).max_by(f64::total_cmp)
    }

    fn lowest_unmet(&self) -> Option<f64> {
        let unmet = self.seen.iter().filter(|seen| !seen.said.met);
        unmet.map(|seen| seen.rate_per_s).min_by(f64::total_cmp)
    }

    fn left(&self) -> usize {
        self.plan.probes.saturating_sub(self.seen.len())
    }

    /// The error of a probe near the bound, together with those before it: twenty batches tell little of their
    /// own spread, and a probe without a burst knows nothing of bursts.
    fn pooled(&mut self, said: Said) -> Said {
        let Some(excess) = said.excess else {
            return said;
        };
        if excess.logits.abs() < REACH {
            self.errors.0 += excess.error * excess.error;
            self.errors.1 += 1.0;
        }
        let error = if self.errors.1 > 0.0 {
            (self.errors.0 / self.errors.1).sqrt()
        } else {
            excess.error
        };
        Said {
            excess: Some(Excess { error, ..excess }),
            ..said
        }
    }

    /// Takes in what a probe came to.
    pub fn tell(&mut self, seen: Seen) {
        let said = self.pooled(seen.said);
        self.posterior.tell(seen.rate_per_s, &said);
        if let Some((low, high)) = &mut self.edges {
            let distance = seen.said.excess.map_or_else(
                || 1.0 - 2.0 * seen.said.met_probability,
                |excess| excess.logits.clamp(-1.0, 1.0),
            );
            match seen.purpose {
                Purpose::ConfirmLow => low.tell(seen.said.met, -distance),
                Purpose::ConfirmHigh => high.tell(!seen.said.met, distance),
                Purpose::Bracket | Purpose::Narrow => {}
            }
        }
        self.seen.push(seen);
        self.move_edges();
    }

    /// Chooses the edges, or those anew that what was seen since has made unlikely.
    fn move_edges(&mut self) {
        let bracketed = self.highest_met().is_some() && self.lowest_unmet().is_some();
        match self.edges {
            None if bracketed && (self.left() <= KEPT || self.is_narrow()) => {
                self.edges = Some((self.edge(INNER), self.edge(1.0 - INNER)));
            }
            Some((mut low, mut high)) => {
                // An edge that its fresh probes contradict, or that the others have overtaken, is no edge.
                if low.is_contradicted() || self.posterior.below(low.rate_per_s) > 0.5 {
                    low = self.edge(INNER);
                }
                if high.is_contradicted() || self.posterior.below(high.rate_per_s) < 0.5 {
                    high = self.edge(1.0 - INNER);
                }
                self.edges = Some((low, high));
            }
            None => {}
        }
    }

    /// Whether the interval is narrow enough.
    fn is_narrow(&self) -> bool {
        let (low, high) = self.credible();
        high - low <= self.plan.width_ratio * low
    }

    /// The rates between which the capacity lies with the confidence that is wanted.
    fn credible(&self) -> (f64, f64) {
        let tail = 0.5 * (1.0 - self.plan.confidence) * OVERSURE;
        (
            self.posterior.quantile(tail),
            self.posterior.quantile(1.0 - tail),
        )
    }

    fn edge(&self, quantile: f64) -> Edge {
        Edge::at(
            self.posterior
                .quantile(quantile)
                .max(self.plan.rate_min_per_s),
        )
    }

    /// What to do next.
    pub fn next(&self) -> Step {
        if let Some((low, high)) = self.edges
            && low.is_confirmed()
            && high.is_confirmed()
            && (self.is_narrow() || self.left() == 0)
        {
            return Step::Done(self.ended(Ended::Confirmed));
        }
        let floor = self.plan.rate_min_per_s;
        let failed_at_floor = self
            .seen
            .iter()
            .filter(|seen| !seen.said.met && seen.rate_per_s <= floor * 1.001);
        if self.highest_met().is_none() && failed_at_floor.count() >= 2 {
            return Step::Done(Ended::NeverMet);
        }
        if self.left() == 0 {
            let never = self.highest_met().is_none();
            return Step::Done(if never {
                Ended::NeverMet
            } else {
                self.ended(Ended::ProbesUsed)
            });
        }
        match self.edges {
            Some((low, high)) => Self::confirm(low, high),
            None => self.approach(),
        }
    }

    /// The edge that lacks most.
    fn confirm(low: Edge, high: Edge) -> Step {
        if low.repeats <= high.repeats {
            Step::Probe(low.rate_per_s, Purpose::ConfirmLow)
        } else {
            Step::Probe(high.rate_per_s, Purpose::ConfirmHigh)
        }
    }

    /// The median, as far as one step goes.
    fn approach(&self) -> Step {
        let median = self.posterior.quantile(0.5);
        let (met, unmet) = (self.highest_met(), self.lowest_unmet());
        let (rate, purpose) = match (met, unmet) {
            (Some(_), Some(_)) => (median, Purpose::Narrow),
            (Some(met), None) => (median.clamp(met * 1.02, met * STRIDE), Purpose::Bracket),
            (None, Some(unmet)) => {
                // Far below is cheap to try: nothing was met yet, and there are few probes to find out.
                let rate = if self.seen.len() >= 3 {
                    unmet / (2.0 * STRIDE)
                } else {
                    median
                };
                (
                    rate.clamp(unmet / (2.0 * STRIDE), unmet * 0.98),
                    Purpose::Bracket,
                )
            }
            (None, None) => (median, Purpose::Bracket),
        };
        Step::Probe(rate.max(self.plan.rate_min_per_s), purpose)
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
    /// the best estimate and a tenth above the upper edge.
    fn generator_sets_the_edge(&self) -> bool {
        let (low, high) = self.interval();
        let near = self.seen.iter().filter(|seen| {
            !seen.said.met
                && low.is_none_or(|low| seen.rate_per_s >= low)
                && high.is_none_or(|high| seen.rate_per_s <= high * 1.1)
        });
        let (mut all, mut generator) = (0, 0);
        for seen in near {
            all += 1;
            generator += usize::from(seen.generator_bound);
        }
        all > 0 && 2 * generator >= all
    }

    fn interval(&self) -> (Option<f64>, Option<f64>) {
        let (met, unmet) = (self.highest_met(), self.lowest_unmet());
        if met.is_none() || unmet.is_none() {
            return (met, unmet);
        }
        let (mut low, mut high) = self.credible();
        if let Some(edges) = self.edges {
            low = low.min(edges.0.rate_per_s);
            high = high.max(edges.1.rate_per_s);
        }
        (Some(low), Some(high))
    }

    /// What is known now; may be asked at any time.
    pub fn answer(&self) -> Answer {
        let (low, high) = self.interval();
        let high = high.filter(|_| !self.generator_sets_the_edge());
        let below = |rate: f64| self.posterior.below(rate);
        let inside = high.map_or(1.0, below) - low.map_or(0.0, below);
        let confidence = 1.0 - (1.0 - inside) / OVERSURE;
        let bracketed = self.highest_met().is_some() && self.lowest_unmet().is_some();
        Answer {
            low_per_s: low,
            high_per_s: high,
            confidence: if self.seen.is_empty() {
                0.0
            } else {
                confidence.clamp(0.0, 1.0)
            },
            edges: self.edges,
            estimate_per_s: bracketed.then(|| self.posterior.quantile(0.5)),
            spread_ratio: self.posterior.spread_ratio(),
        }
    }
}
