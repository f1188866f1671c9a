//! How the share of slow requests and its fluctuations depend on the rate.
//!
//! A queue near saturation is a reflected Brownian motion, whatever its arrivals, services and servers
//! (Kingman 1961; Whitt, Stochastic-Process Limits, 2002): waiting times are exponential with a mean that grows
//! as one over the idle share, and fluctuations of the queue last as one over its square. Both follow from
//! one figure, the slope: by how much the logarithm of the share grows with that of the rate where the objective
//! just holds. A steep curve means a queue near saturation, which is a slow one. So the slope says how long a
//! probe must be.
//!
//! In: slope, base (the share that is slow without any queue), patience (how much slower or faster than
//! that theory the queue moves). Out: [`Spells`] at a rate. Not here: which of them a server has; that is learned
//! ([`super::posterior`]).

use super::occupation::{Spells, TwoStates};

/// A curve of one server, relative to its capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Curve {
    /// d ln(slow share - base) / d ln(rate), at the capacity.
    pub slope: f64,
    /// Share of the bound that is slow without any queue.
    pub base_ratio: f64,
    /// How many times longer than in theory the queue remembers.
    pub patience: f64,
    /// How many times more than in theory the server serves in all.
    pub headroom: f64,
}

/// What the curve is about: the bound of a criterion.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// Share of requests that may count against it.
    pub ratio: f64,
    /// Response time beyond which they do.
    pub at_most_s: f64,
}

/// Relaxation times of short and long spells over that of both together. Half of the slow time is spent in each, so
/// that the variance is that of theory; that the lengths have a squared coefficient of variation of 4 is what M/M/2 shows
/// (journal 0055).
const SHORT: f64 = 0.225;
const LONG: f64 = 1.775;

impl Curve {
    /// Logarithm of the bound over the share that is due to the queue at the capacity, negative.
    fn depth(&self, bound: &Bound) -> f64 {
        -(bound.ratio * (1.0 - self.base_ratio) / (1.0 - bound.ratio * self.base_ratio)).ln()
    }

    /// What the server serves in all, over its capacity.
    pub fn saturation(&self, bound: &Bound) -> f64 {
        (1.0 + self.depth(bound) / self.slope) * self.headroom
    }

    /// The sum of the indices of dispersion of arrivals and services where the server serves `all_per_s` in all: the
    /// variance that makes the queue, over the rate.
    pub fn variability(&self, bound: &Bound, all_per_s: f64) -> f64 {
        2.0 * bound.at_most_s * all_per_s / (self.slope + self.depth(bound))
    }

    /// Share and relaxation time when the offered rate is `ratio` times the capacity and requests are `gap_s`
    /// apart.
    pub fn at(&self, bound: &Bound, ratio: f64, gap_s: f64) -> Spells {
        let depth = self.depth(bound);
        // Idle share over that at the capacity; the exponent of the waiting time is proportional to it.
        let idle = 1.0 - (ratio - 1.0) * self.slope / depth;
        let queued = (-depth * idle).min(0.0).exp().min(0.999);
        let base = bound.ratio * self.base_ratio;
        // Time in which drift and fluctuations of the queue are alike, at the capacity.
        let unit_s = 2.0 * bound.at_most_s / (depth * (1.0 - 1.0 / self.saturation(bound)));
        let relaxation_s = unit_s * self.patience * relaxation(depth, idle);
        let queued = (1.0 - base) * queued;
        let short = 0.5 * queued * (1.0 - queued);
        // Requests that are slow by themselves are so independently of each other.
        let shared = short / (short + base).max(f64::MIN_POSITIVE);
        Spells {
            short: TwoStates {
                ratio: short + base,
                relaxation_s: (SHORT * relaxation_s * shared).max(gap_s),
            },
            long: TwoStates {
                ratio: queued - short,
                relaxation_s: (LONG * relaxation_s).max(gap_s),
            },
        }
    }
}

/// Relaxation time of "the wait is beyond the bound" for a reflected Brownian motion whose drift is `idle` times
/// what it is at the capacity, in units of that drift's own time.
///
/// Half of the indicator's asymptotic variance over its variance, from Poisson's equation for the motion's
/// generator (Whitt 1992, Asymptotic formulas for Markov processes). Near saturation and above it, the time in
/// which the queue first reaches the bound.
fn relaxation(depth: f64, idle: f64) -> f64 {
    let reach = 0.25 * depth * depth;
    if idle > 1e-3 {
        let q = depth * idle;
        ((1.0 - q / q.exp_m1()) / (idle * idle)).min(reach)
    } else if idle < -1e-3 {
        (-0.5 * depth / idle).min(reach)
    } else {
        reach
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Bound = Bound {
        ratio: 0.05,
        at_most_s: 0.5,
    };

    /// M/M/c of 50/s: P(T > 0.5 s) = exp(-(50 - rate) 0.5 s), 5 % at 44/s.
    #[test]
    fn the_curve_of_a_markovian_queue_is_its_own() {
        let capacity = 50.0 - 20f64.ln() / 0.5;
        let curve = Curve {
            slope: 0.5 * capacity,
            base_ratio: 0.0,
            patience: 1.0,
            headroom: 1.0,
        };
        assert!((curve.saturation(&BOUND) * capacity - 50.0).abs() < 1e-9);
        for rate in [30.0, 40.0, 44.0, 48.0] {
            let share = (-(50.0 - rate) * 0.5f64).exp();
            let found = curve.at(&BOUND, rate / capacity, 1.0 / rate);
            assert!((found.ratio() / share - 1.0).abs() < 1e-9, "{rate}");
        }
        // Asymptotic variance of the indicator in M/M/1: about 2.3 s of relaxation at the capacity.
        let found = curve.at(&BOUND, 1.0, 0.02);
        assert!((3.6..4.8).contains(&found.long.relaxation_s), "{found:?}");
        assert!(curve.at(&BOUND, 0.8, 0.02).long.relaxation_s < 0.4 * found.long.relaxation_s);
    }

    #[test]
    fn what_is_slow_without_a_queue_stays() {
        let curve = Curve {
            slope: 10.0,
            base_ratio: 0.6,
            patience: 1.0,
            headroom: 1.0,
        };
        assert!((curve.at(&BOUND, 0.01, 1.0).ratio() - 0.03).abs() < 1e-4);
        assert!((curve.at(&BOUND, 1.0, 1.0).ratio() - 0.05).abs() < 1e-9);
        assert!(curve.at(&BOUND, 3.0, 1.0).ratio() > 0.9);
    }
}
