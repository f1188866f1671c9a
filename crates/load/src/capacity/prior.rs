//! What is thought of a capacity before any probe, and how likely loads are that something else slowed.
//!
//! In: a closed loop or a guess. Out: weights of capacities and of curves. Not here: what probes say ([`super::posterior`]).

use super::curve::Curve;
use super::evidence::normal_cdf;

/// Share of loads that something else slows, and by how much, as a logarithm.
pub(super) const LAPSE: f64 = 0.15;
pub(super) const SLOWED: [f64; 5] = [0.1, 0.2, 0.35, 0.5, 0.7];
/// The same for the closed loop: everything else hangs on it, and it is not repeated.
const CLOSED_LAPSE: f64 = 0.25;
/// Slopes, all thought equally likely: from a server that slows down gently to one that is a wall.
const SLOPES: [f64; 15] = [
    3.0, 4.2, 6.0, 8.5, 12.0, 17.0, 24.0, 34.0, 48.0, 68.0, 96.0, 136.0, 192.0, 272.0, 384.0,
];
/// Share of the bound that is slow without a queue. A tenth is a few slow requests at any rate: without it a curve of
/// no base and a gentle slope stands for them, which has the capacity of a server with many threads too low.
const BASES: [(f64, f64); 3] = [(0.0, 0.4), (0.1, 0.25), (0.5, 0.35)];
/// How many times longer than in theory the queue remembers.
const PATIENCES: [(f64, f64); 3] = [(0.3, 0.2), (1.0, 0.5), (3.0, 0.3)];
/// How many times more than in theory the server serves in all.
const HEADROOMS: [(f64, f64); 3] = [(1.0, 0.5), (1.15, 0.25), (1.5, 0.25)];

/// Every curve that is thought possible, and how likely it is thought.
pub(super) fn curves() -> Vec<(Curve, f64)> {
    let mut curves = Vec::new();
    for slope in SLOPES {
        for (base_ratio, base_weight) in BASES {
            for (patience, weight) in PATIENCES {
                for (headroom, likely) in HEADROOMS {
                    let curve = Curve {
                        slope,
                        base_ratio,
                        patience,
                        headroom,
                    };
                    curves.push((curve, base_weight * weight * likely));
                }
            }
        }
    }
    curves
}

/// What is thought of the capacity before any probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Prior {
    /// A closed loop with the same connections completed so much per second.
    ClosedLoop {
        /// Completed per second.
        per_s: f64,
        /// Requests that were completed.
        completed: f64,
    },
    /// Somebody's guess, perhaps far off.
    Guess(f64),
}

impl Prior {
    /// The rate that it names.
    pub fn centre_per_s(&self) -> f64 {
        match *self {
            Self::ClosedLoop { per_s, .. } | Self::Guess(per_s) => per_s,
        }
    }

    /// Reach of the grid about the centre, as logarithms.
    pub(super) fn reach(&self) -> (f64, f64) {
        match self {
            Self::ClosedLoop { .. } => (-5.0, 0.8),
            Self::Guess(_) => (-6.9, 6.9),
        }
    }

    /// How likely a capacity `x` above the centre is.
    pub(super) fn weight(&self, x: f64) -> f64 {
        match self {
            // Even over the logarithm of rates: what is far below what can be done is a matter of the bound.
            Self::ClosedLoop { .. } => 1.0,
            // Cauchy: half of it within a factor of two, and no factor is out of the question.
            Self::Guess(_) => 1.0 / (1.0 + (x / std::f64::consts::LN_2).powi(2)),
        }
    }

    /// How likely the closed loop's throughput is when a load's capacity lies `above` it, as a logarithm, and the
    /// curve is saturated at `saturation` times the capacity.
    pub(super) fn likelihood(&self, above: f64, saturation: f64) -> f64 {
        let Self::ClosedLoop { completed, .. } = *self else {
            return 1.0;
        };
        // Counts of services that vary somewhat more than exponential ones, and what else differs.
        let error = (2.0 / completed.max(1.0) + 0.03f64.powi(2)).sqrt();
        let plain = |above: f64| {
            let z = (above + saturation.ln()) / error;
            let theory = (-0.5 * z * z).exp() / (error * (2.0 * std::f64::consts::PI).sqrt());
            let below = normal_cdf(-above / error) / 4.0;
            0.5 * theory + 0.5 * below
        };
        let slowed: f64 = SLOWED.iter().map(|by| plain(above - by)).sum();
        let thrashing = if above < 1.0 { 0.02 } else { 0.0 };
        (1.0 - CLOSED_LAPSE) * plain(above)
            + CLOSED_LAPSE / SLOWED.len() as f64 * slowed
            + thrashing
    }
}

/// A function of a logarithm, by linear interpolation.
pub(super) struct Table {
    first: f64,
    step: f64,
    values: Vec<f64>,
}

impl Table {
    pub(super) fn of(first: f64, step: f64, count: usize, value: impl Fn(f64) -> f64) -> Self {
        let values = (0..count)
            .map(|index| value(first + index as f64 * step))
            .collect();
        Self {
            first,
            step,
            values,
        }
    }

    pub(super) fn at(&self, x: f64) -> f64 {
        self.along(x, 0.0, 1).next().unwrap_or(0.0)
    }
}

impl Table {
    /// The values at `x`, `x + step` and so on.
    pub(super) fn along(&self, x: f64, step: f64, count: usize) -> impl Iterator<Item = f64> + '_ {
        let last = (self.values.len() - 2) as f64 + 0.999_999;
        let (begin, by) = ((x - self.first) / self.step, step / self.step);
        (0..count).map(move |index| {
            let position = (begin + by * index as f64).clamp(0.0, last);
            let at = position as usize;
            let part = position - at as f64;
            self.values[at] * (1.0 - part) + self.values[at + 1] * part
        })
    }
}
