//! Where the capacity may lie, given the probes so far.
//!
//! The model: on a logarithmic scale of rates a run's own capacity is the server's capacity plus a normal
//! deviation of that run, of an unknown spread. Near the capacity the share of requests that count against the
//! objective, in logits, grows with the logarithm of the rate along a line of unknown slope; a probe measures it
//! with an error that it knows ([`super::evidence`]). Farther than [`REACH`] from the bound the line says
//! nothing, only on which side of it the probe was. Capacity, slope and spread are unknown, on a grid of all
//! three. One probe in fifty may say anything: a machine has other work to do now and then. Monotone by
//! construction: no probe can say that more load is easier.
//!
//! Sources: probabilistic bisection (Horstein 1963; Waeber, Frazier and Henderson 2013), Bayesian staircase
//! methods (Kontsevich and Tyler 1999), censored regression (Tobin 1958).

use super::evidence::{Excess, Said, normal_cdf};

/// Distance of the grid's rates, as a logarithm.
const STEP: f64 = 0.0025;
/// How far the grid reaches about its centre, as logarithms.
const BELOW: f64 = 6.9;
const ABOVE: f64 = 4.7;
/// Share of probes that may say anything.
const LAPSE: f64 = 0.005;
/// Distance from the bound, in logits, within which the line is believed: a factor of about three.
pub const REACH: f64 = 1.2;
/// Spread of the capacity from run to run, as a logarithm, and how likely each is thought before any probe.
const SPREADS: [(f64, f64); 5] = [
    (0.004, 0.18),
    (0.01, 0.30),
    (0.02, 0.28),
    (0.04, 0.17),
    (0.08, 0.07),
];
/// Logits by which the share grows when the logarithm of the rate grows by one, all thought equally likely.
const SLOPES: [f64; 8] = [3.0, 6.0, 12.0, 25.0, 50.0, 100.0, 200.0, 400.0];

/// What is thought of the capacity before any probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Prior {
    /// A closed loop with the same connections completed so much per second, which an open loop can hardly pass.
    ClosedLoop(f64),
    /// Somebody's guess, perhaps far off.
    Guess(f64),
}

/// A distribution over the server's capacity and its spread.
#[derive(Debug, Clone)]
pub struct Posterior {
    /// Logarithm of the first grid rate.
    first: f64,
    /// Weight of each grid rate, one row for each spread and slope.
    rows: Vec<Row>,
    /// Sums over rows, by cell.
    column: Vec<f64>,
}

#[derive(Debug, Clone)]
struct Row {
    spread: f64,
    slope: f64,
    weights: Vec<f64>,
}

impl Posterior {
    /// The distribution before any probe.
    pub fn new(prior: Prior) -> Self {
        let (Prior::ClosedLoop(centre) | Prior::Guess(centre)) = prior;
        let first = centre.ln() - BELOW;
        let cells = ((BELOW + ABOVE) / STEP) as usize;
        let weight = |cell: usize| {
            let x = (cell as f64 + 0.5) * STEP - BELOW;
            match prior {
                // Even over rates below what was completed, more likely near it, thin above.
                Prior::ClosedLoop(_) if x < 0.0 => x.exp() + 2.0 * (20.0 * x).exp(),
                Prior::ClosedLoop(_) => 3.0 * (-30.0 * x).exp() + 0.02 * (-1.5 * x).exp(),
                // Cauchy: half of it within a factor of two, and no factor is out of the question.
                Prior::Guess(_) => 1.0 / (1.0 + (x / std::f64::consts::LN_2).powi(2)),
            }
        };
        let weights: Vec<f64> = (0..cells).map(weight).collect();
        let row = |slope: f64, (spread, likely): (f64, f64)| Row {
            spread,
            slope,
            weights: weights.iter().map(|w| w * likely).collect(),
        };
        let rows = SLOPES
            .iter()
            .flat_map(|&slope| SPREADS.map(|spread| row(slope, spread)))
            .collect();
        let column = vec![0.0; cells];
        let mut posterior = Self {
            first,
            rows,
            column,
        };
        posterior.normalize();
        posterior
    }

    fn normalize(&mut self) {
        let sum: f64 = self.rows.iter().flat_map(|row| &row.weights).sum();
        self.column.fill(0.0);
        for row in &mut self.rows {
            for (cell, weight) in self.column.iter_mut().zip(&mut row.weights) {
                *weight /= sum;
                *cell += *weight;
            }
        }
    }

    fn rate(&self, position: f64) -> f64 {
        (self.first + position * STEP).exp()
    }

    /// Takes in what a probe at `rate_per_s` said.
    pub fn tell(&mut self, rate_per_s: f64, said: &Said) {
        let x = rate_per_s.ln();
        let first = self.first;
        for row in &mut self.rows {
            let (spread, slope) = (row.spread, row.slope);
            for (cell, weight) in row.weights.iter_mut().enumerate() {
                // Cells that are out of the question are left alone: they are most, and cost time.
                if *weight > 1e-15 {
                    let above = first + (cell as f64 + 0.5) * STEP - x;
                    *weight *= match said.excess {
                        Some(excess) => line(above, slope, spread, excess),
                        None => side(above / spread, said.met_probability),
                    };
                }
            }
        }
        self.normalize();
    }

    /// The rate below which the capacity lies with probability `p`.
    pub fn quantile(&self, p: f64) -> f64 {
        let mut sum = 0.0;
        for (cell, &weight) in self.column.iter().enumerate() {
            if sum + weight >= p {
                return self.rate(cell as f64 + (p - sum) / weight.max(f64::MIN_POSITIVE));
            }
            sum += weight;
        }
        self.rate(self.column.len() as f64)
    }

    /// Probability that the capacity lies below `rate_per_s`.
    pub fn below(&self, rate_per_s: f64) -> f64 {
        let position = (rate_per_s.ln() - self.first) / STEP;
        let whole = position.floor().max(0.0) as usize;
        let sum: f64 = self.column.iter().take(whole).sum();
        let part = self.column.get(whole).copied().unwrap_or(0.0) * (position - position.floor());
        (sum + if position > 0.0 { part } else { 0.0 }).clamp(0.0, 1.0)
    }

    /// Expected spread of the capacity from run to run, as a ratio.
    pub fn spread_ratio(&self) -> f64 {
        self.rows
            .iter()
            .map(|row| row.spread * row.weights.iter().sum::<f64>())
            .sum()
    }
}

/// How likely it is to measure `excess` when the capacity lies `above` the rate, as a logarithm.
fn line(above: f64, slope: f64, spread: f64, excess: Excess) -> f64 {
    // The share itself is measured without bias; its logarithm is low by half of its variance, as a length of
    // time that happens to hold no burst looks better than the server is.
    let expected = -slope * above - 0.5 * excess.error * excess.error;
    let deviation = (excess.error * excess.error + slope * slope * spread * spread).sqrt();
    if excess.logits <= -REACH {
        LAPSE * 0.5 + (1.0 - LAPSE) * normal_cdf((-REACH - expected) / deviation)
    } else if excess.logits >= REACH {
        LAPSE * 0.5 + (1.0 - LAPSE) * normal_cdf((expected - REACH) / deviation)
    } else {
        let z = (excess.logits - expected) / deviation;
        let density = (-0.5 * z * z).exp() / (deviation * (2.0 * std::f64::consts::PI).sqrt());
        // Anything within a few logits.
        LAPSE / 6.0 + (1.0 - LAPSE) * density
    }
}

/// How likely it is to see the objective met with `met_probability` when the capacity lies `z` spreads above
/// the rate.
fn side(z: f64, met_probability: f64) -> f64 {
    let above = normal_cdf(z);
    let said = met_probability * above + (1.0 - met_probability) * (1.0 - above);
    LAPSE * 0.5 + (1.0 - LAPSE) * said
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clear(met: bool) -> Said {
        Said {
            met,
            met_probability: f64::from(u8::from(met)),
            excess: Some(Excess {
                logits: if met { -5.0 } else { 5.0 },
                error: 0.2,
            }),
        }
    }

    fn near(logits: f64) -> Said {
        let error = 0.2;
        let met_probability = normal_cdf(-logits / error);
        Said {
            met: logits <= 0.0,
            met_probability,
            excess: Some(Excess { logits, error }),
        }
    }

    #[test]
    fn a_guess_is_doubled_and_halved() {
        let mut posterior = Posterior::new(Prior::Guess(1000.0));
        assert!((posterior.quantile(0.5) / 1000.0 - 1.0).abs() < 0.3);
        posterior.tell(1000.0, &clear(true));
        let up = posterior.quantile(0.5);
        assert!((1_500.0..3_500.0).contains(&up), "{up}");
        posterior.tell(2000.0, &clear(false));
        let between = posterior.quantile(0.5);
        assert!((1_000.0..2_000.0).contains(&between), "{between}");
    }

    #[test]
    fn probes_narrow_it_and_an_outlier_does_not_fix_it() {
        let mut posterior = Posterior::new(Prior::ClosedLoop(1000.0));
        posterior.tell(300.0, &clear(false));
        for _ in 0..3 {
            posterior.tell(700.0, &near(-0.6));
            posterior.tell(760.0, &near(0.6));
        }
        let (low, high) = (posterior.quantile(0.05), posterior.quantile(0.95));
        assert!(low > 700.0 && high < 760.0, "{low} {high}");
        let inside = posterior.below(high) - posterior.below(low);
        assert!((inside - 0.9).abs() < 0.01, "{inside}");
    }

    #[test]
    fn a_probe_without_a_distance_says_on_which_side_it_was() {
        let said = |met_probability| Said {
            met: met_probability > 0.5,
            met_probability,
            excess: None,
        };
        let before = Posterior::new(Prior::ClosedLoop(1000.0));
        let mut after = before.clone();
        after.tell(800.0, &said(0.5));
        assert!((before.quantile(0.3) / after.quantile(0.3) - 1.0).abs() < 1e-9);
        after.tell(800.0, &said(0.0));
        assert!(after.below(850.0) > 0.95);
    }
}
