//! Where the capacity may lie, given the probes so far.
//!
//! The model. A server has a capacity and a curve ([`super::curve`]) of unknown slope, base and patience. Each
//! load finds it at a capacity of its own: on a logarithmic scale the deviation is normal, of unknown spread,
//! and correlated with that of the load before to an unknown degree, since what disturbs a machine lasts. One
//! load in seven may be slowed by something else, by up to a half. What a load counts then has the likelihood of
//! [`super::occupation`]; a criterion that is no share of requests says only on which side of the capacity the rate was.
//! A closed loop says how much the server can do in all, and so where the queue is saturated, unless its
//! throughput is another's in closed loop.
//!
//! All of these are summed out on a grid: capacity by deviation of the last load (a hidden Markov model,
//! filtered forward), one row for each combination of the others. Monotone by construction: no probe can
//! say that more load is easier.
//!
//! Sources: probabilistic bisection (Horstein 1963; Waeber, Frazier and Henderson 2013), Bayesian staircase
//! methods (Kontsevich and Tyler 1999), hidden Markov filtering (Rabiner 1989).

use super::curve::{Bound, Curve};
use super::evidence::{Judgement, normal_cdf};
use super::occupation::Spell;
pub use super::prior::Prior;
use super::prior::{LAPSE, SLOWED, Table, curves};
use super::served::Served;

/// Distance of the grid's rates, as a logarithm.
const STEP: f64 = 0.02;
/// Distance when little is left of the grid.
const FINE: f64 = 0.004;
/// Cells that hold nearly all weight, below which the grid is made finer.
const FEW: usize = 16;
/// Deviations of a load from the server's capacity, in spreads.
const STATES: usize = 9;
const STATE_STEP: f64 = 0.6;
/// Share of loads that may count anything.
const ANYTHING: f64 = 0.002;
/// Spread of the capacity from load to load, as a logarithm, and how likely each is thought before any.
const SPREADS: [(f64, f64); 5] = [
    (0.005, 0.33),
    (0.025, 0.27),
    (0.06, 0.19),
    (0.12, 0.13),
    (0.22, 0.08),
];
/// Correlation of a load's deviation with that of the load before.
const CORRELATIONS: [(f64, f64); 2] = [(0.0, 0.6), (0.8, 0.4)];
/// Weight of a row, as a share of the heaviest, below which it is dropped.
const NOTHING: f64 = 1e-5;

/// A distribution over the server's capacity and its spread.
#[derive(Debug, Clone)]
pub struct Posterior {
    prior: Prior,
    bound: Bound,
    probes: Vec<(f64, Judgement, Spell, Option<Served>)>,
    /// Logarithm of the first grid rate, and the distance of the grid's rates.
    first: f64,
    step: f64,
    rows: Vec<Row>,
    /// Sums over rows and states, by cell.
    column: Vec<f64>,
}

#[derive(Debug, Clone)]
struct Row {
    curve: usize,
    spread: f64,
    correlation: f64,
    /// By state, then by cell.
    weights: Vec<f64>,
}

fn state(index: usize) -> f64 {
    (index as f64 - (STATES - 1) as f64 / 2.0) * STATE_STEP
}

/// Probability of each state after one, when deviations correlate so.
fn change(from: usize, correlation: f64) -> [f64; STATES] {
    let deviation = (1.0 - correlation * correlation).sqrt();
    let mut to = [0.0; STATES];
    for (index, weight) in to.iter_mut().enumerate() {
        let z = (state(index) - correlation * state(from)) / deviation;
        *weight = (-0.5 * z * z).exp();
    }
    let sum: f64 = to.iter().sum();
    to.map(|weight| weight / sum)
}

impl Posterior {
    /// The distribution before any probe, for a criterion of `bound`.
    pub fn new(prior: Prior, bound: Bound) -> Self {
        let (low, high) = prior.reach();
        let centre = prior.centre_per_s().ln();
        Self::over(prior, bound, (centre + low, centre + high), STEP)
    }

    fn over(prior: Prior, bound: Bound, (low, high): (f64, f64), step: f64) -> Self {
        let cells = ((high - low) / step).ceil() as usize;
        let centre = prior.centre_per_s().ln();
        let at = |cell: usize| low + (cell as f64 + 0.5) * step;
        let begin = change(STATES / 2, 0.0);
        let wanted: Vec<f64> = (0..cells)
            .map(|cell| prior.weight(at(cell) - centre))
            .collect();
        let mut rows = Vec::new();
        for (index, (curve, curve_weight)) in curves().into_iter().enumerate() {
            let saturation = curve.saturation(&bound);
            let reach = low - centre - 1.0;
            let seen = Table::of(
                reach,
                STEP / 4.0,
                ((high - low + 2.0) * 200.0) as usize,
                |x| prior.likelihood(x, saturation),
            );
            for (spread, spread_weight) in SPREADS {
                for (correlation, weight) in CORRELATIONS {
                    let likely = curve_weight * spread_weight * weight;
                    let mut weights = Vec::with_capacity(STATES * cells);
                    for (number, begin) in begin.iter().enumerate() {
                        let offset = at(0) - centre + spread * state(number);
                        let seen = seen.along(offset, step, cells);
                        weights.extend(
                            seen.zip(&wanted)
                                .map(|(seen, wanted)| likely * begin * wanted * seen),
                        );
                    }
                    rows.push(Row {
                        curve: index,
                        spread,
                        correlation,
                        weights,
                    });
                }
            }
        }
        let mut posterior = Self {
            prior,
            bound,
            probes: Vec::new(),
            first: low,
            step,
            rows,
            column: vec![0.0; cells],
        };
        posterior.normalize();
        posterior
    }

    fn normalize(&mut self) {
        let cells = self.column.len();
        let sums: Vec<f64> = self
            .rows
            .iter()
            .map(|row| row.weights.iter().sum())
            .collect();
        let heaviest = sums.iter().copied().fold(0.0, f64::max);
        let mut sums = sums.into_iter();
        self.rows
            .retain(|_| sums.next().is_some_and(|sum| sum > NOTHING * heaviest));
        let sum: f64 = self.rows.iter().flat_map(|row| &row.weights).sum();
        self.column.fill(0.0);
        for row in &mut self.rows {
            for (at, weight) in row.weights.iter_mut().enumerate() {
                *weight /= sum;
                self.column[at % cells] += *weight;
            }
        }
    }

    fn rate(&self, position: f64) -> f64 {
        (self.first + position * self.step).exp()
    }

    /// Takes in the judgement of a probe at `rate_per_s`.
    pub fn tell(
        &mut self,
        rate_per_s: f64,
        judgement: &Judgement,
        measure_s: f64,
        warmup_s: f64,
        served: Option<Served>,
    ) {
        let share = judgement.share.unwrap_or_default();
        let spell = Spell {
            bad: share.bad,
            all: share.all,
            measure_s,
            warmup_s,
        };
        self.probes.push((rate_per_s, *judgement, spell, served));
        self.take_in(rate_per_s, judgement, &spell, served);
        self.trim();
    }

    fn take_in(
        &mut self,
        rate_per_s: f64,
        judgement: &Judgement,
        spell: &Spell,
        served: Option<Served>,
    ) {
        let tables = self.tables(judgement, spell, rate_per_s, served);
        let cells = self.column.len();
        let x = rate_per_s.ln();
        for row in &mut self.rows {
            row.step(cells);
            let Some(table) = &tables[row.curve] else {
                continue;
            };
            for (number, weights) in row.weights.chunks_exact_mut(cells).enumerate() {
                let offset = x - self.first - row.spread * state(number);
                let likely = table.along(offset - 0.5 * self.step, -self.step, cells);
                for (weight, likely) in weights.iter_mut().zip(likely) {
                    *weight *= likely;
                }
            }
        }
        self.normalize();
    }

    /// For each curve the likelihood of a probe over the logarithm of its rate over a load's capacity.
    fn tables(
        &self,
        judgement: &Judgement,
        spell: &Spell,
        rate_per_s: f64,
        served: Option<Served>,
    ) -> Vec<Option<Table>> {
        let (gap_s, step) = (1.0 / rate_per_s, 0.01);
        // As far as the grid, its deviations and what slows a load reach.
        let reach = 0.6 + SLOWED[SLOWED.len() - 1];
        let width = self.column.len() as f64 * self.step;
        let first = rate_per_s.ln() - self.first - width - reach;
        let count = ((width + 2.0 * reach) / step) as usize;
        let mut used = vec![false; curves().len()];
        for row in &self.rows {
            used[row.curve] = true;
        }
        let bound = judgement.share.map_or(self.bound, |share| share.bound);
        let table = |(index, (curve, _)): (usize, (Curve, f64))| {
            used[index].then(|| {
                let all = curve.saturation(&self.bound).ln();
                let plain = Table::of(first, step, count, |above: f64| {
                    let share = match judgement.share {
                        Some(_) => curve.at(&bound, above.exp(), gap_s).likelihood(spell),
                        None => side(above, judgement.met_probability),
                    };
                    let served = served.map_or(1.0, |served| {
                        served.likelihood(rate_per_s, all - above, &curve, &self.bound)
                    });
                    share * served
                });
                let anything = ANYTHING / (spell.all + 1.0);
                Table::of(first, step, count, |above| {
                    let slowed: f64 = SLOWED.iter().map(|by| plain.at(above + by)).sum();
                    let lapse = slowed / SLOWED.len() as f64;
                    (1.0 - LAPSE) * plain.at(above) + LAPSE * lapse + anything
                })
            })
        };
        curves().into_iter().enumerate().map(table).collect()
    }

    /// Drops cells without weight, and makes the grid finer when few are left.
    fn trim(&mut self) {
        let (first, last) = (self.cell_of(1e-6), self.cell_of(1.0 - 1e-6));
        let cells = self.column.len();
        let (from, to) = (first.saturating_sub(8), (last + 9).min(cells));
        if self.cell_of(0.99) - self.cell_of(0.01) < FEW && self.step > FINE {
            let range = (
                self.first + from as f64 * self.step,
                self.first + to as f64 * self.step,
            );
            let mut finer = Self::over(self.prior, self.bound, range, FINE);
            let kept: Vec<_> = self.rows.iter().map(Row::key).collect();
            finer.rows.retain(|row| kept.contains(&row.key()));
            for (rate_per_s, judgement, spell, served) in std::mem::take(&mut self.probes) {
                finer.take_in(rate_per_s, &judgement, &spell, served);
                finer.probes.push((rate_per_s, judgement, spell, served));
            }
            *self = finer;
        } else if to - from < cells * 3 / 4 {
            for row in &mut self.rows {
                let kept = row.weights.chunks_exact(cells);
                row.weights = kept.flat_map(|chunk| &chunk[from..to]).copied().collect();
            }
            self.first += from as f64 * self.step;
            self.column = vec![0.0; to - from];
            self.normalize();
        }
    }

    fn cell_of(&self, p: f64) -> usize {
        let mut sum = 0.0;
        let reached = self.column.iter().position(|weight| {
            sum += weight;
            sum >= p
        });
        reached.unwrap_or(self.column.len() - 1)
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
        let position = (rate_per_s.ln() - self.first) / self.step;
        let whole = position.floor().max(0.0) as usize;
        let sum: f64 = self.column.iter().take(whole).sum();
        let part = self.column.get(whole).copied().unwrap_or(0.0) * (position - position.floor());
        (sum + if position > 0.0 { part } else { 0.0 }).clamp(0.0, 1.0)
    }

    fn mean(&self, of: impl Fn(&Row) -> f64) -> f64 {
        let weight = |row: &Row| row.weights.iter().sum::<f64>();
        self.rows.iter().map(|row| of(row) * weight(row)).sum()
    }

    /// Expected spread of the capacity from load to load, as a ratio.
    pub fn spread_ratio(&self) -> f64 {
        self.mean(|row| row.spread)
    }

    /// How long the queue is likely to remember at `rate_per_s`, when the capacity is the median.
    pub fn relaxation_s(&self, rate_per_s: f64) -> f64 {
        let ratio = rate_per_s / self.quantile(0.5);
        let curves = curves();
        let bound = self.bound;
        self.mean(|row| {
            let states = curves[row.curve].0.at(&bound, ratio, 1.0 / rate_per_s);
            states.long.relaxation_s.ln()
        })
        .exp()
    }

    /// The share of slow requests that the curve has at `rate_per_s`: its 5 %, 50 % and 95 % points.
    pub fn share_ratio(&self, rate_per_s: f64) -> [f64; 3] {
        let cells = self.column.len();
        let curves = curves();
        let mut shares = Vec::new();
        for row in &self.rows {
            let curve = curves[row.curve].0;
            for cell in 0..cells {
                let weight: f64 = (0..STATES).map(|at| row.weights[at * cells + cell]).sum();
                if weight > 1e-9 {
                    let ratio = rate_per_s / self.rate(cell as f64 + 0.5);
                    shares.push((
                        curve.at(&self.bound, ratio, 1.0 / rate_per_s).ratio(),
                        weight,
                    ));
                }
            }
        }
        shares.sort_by(|a, b| a.0.total_cmp(&b.0));
        let all: f64 = shares.iter().map(|share| share.1).sum();
        [0.05, 0.5, 0.95].map(|p| {
            let mut sum = 0.0;
            let reached = shares.iter().find(|share| {
                sum += share.1;
                sum >= p * all
            });
            reached.map_or(1.0, |share| share.0)
        })
    }
}

impl Row {
    /// What distinguishes it from other rows.
    fn key(&self) -> (usize, u64, u64) {
        (
            self.curve,
            self.spread.to_bits(),
            self.correlation.to_bits(),
        )
    }

    /// Lets the deviation change from one load to the next.
    fn step(&mut self, cells: usize) {
        let mut next = vec![0.0; self.weights.len()];
        if self.correlation == 0.0 {
            let to = change(0, 0.0);
            for cell in 0..cells {
                let sum: f64 = (0..STATES).map(|at| self.weights[at * cells + cell]).sum();
                for (at, share) in to.iter().enumerate() {
                    next[at * cells + cell] = sum * share;
                }
            }
        } else {
            for from in 0..STATES {
                for (at, share) in change(from, self.correlation).into_iter().enumerate() {
                    let old = &self.weights[from * cells..(from + 1) * cells];
                    let new = &mut next[at * cells..(at + 1) * cells];
                    for (new, old) in new.iter_mut().zip(old) {
                        *new += share * old;
                    }
                }
            }
        }
        self.weights = next;
    }
}

/// How likely it is to see the objective met with `met_probability` at a rate `above` a load's capacity.
fn side(above: f64, met_probability: f64) -> f64 {
    let over = normal_cdf(above / 0.02);
    met_probability * (1.0 - over) + (1.0 - met_probability) * over
}

#[cfg(test)]
mod tests {
    use super::super::evidence::Share;
    use super::*;

    const BOUND: Bound = Bound {
        ratio: 0.05,
        at_most_s: 0.01,
    };

    /// What a long probe of many requests says when so large a share of them was slow.
    fn judgement(share: f64) -> Judgement {
        let all = 2000.0;
        let bad = (share * all).round();
        let met = share <= BOUND.ratio;
        Judgement {
            met,
            met_probability: f64::from(u8::from(met)),
            share: Some(Share {
                bad,
                all,
                bound: BOUND,
            }),
        }
    }

    #[test]
    fn a_guess_is_doubled_and_halved() {
        let mut posterior = Posterior::new(Prior::Guess(1000.0), BOUND);
        assert!((posterior.quantile(0.5) / 1000.0 - 1.0).abs() < 0.3);
        posterior.tell(1000.0, &judgement(0.0), 5.0, 1.0, None);
        let up = posterior.quantile(0.5);
        assert!((1_200.0..6_000.0).contains(&up), "{up}");
        posterior.tell(2000.0, &judgement(1.0), 5.0, 1.0, None);
        let between = posterior.quantile(0.5);
        assert!((1_000.0..2_000.0).contains(&between), "{between}");
    }

    #[test]
    fn probes_narrow_it_and_an_outlier_does_not_fix_it() {
        let closed = Prior::ClosedLoop {
            per_s: 1000.0,
            completed: 5000.0,
        };
        let mut posterior = Posterior::new(closed, BOUND);
        posterior.tell(300.0, &judgement(0.9), 5.0, 1.0, None);
        for _ in 0..4 {
            posterior.tell(800.0, &judgement(0.01), 5.0, 1.0, None);
            posterior.tell(900.0, &judgement(0.15), 5.0, 1.0, None);
        }
        let (low, high) = (posterior.quantile(0.05), posterior.quantile(0.95));
        assert!(low > 700.0 && high < 960.0, "{low} {high}");
        let inside = posterior.below(high) - posterior.below(low);
        assert!((inside - 0.9).abs() < 0.01, "{inside}");
        // The curve goes through what was measured.
        let [_, share, _] = posterior.share_ratio(900.0);
        assert!((0.05..0.4).contains(&share), "{share}");
    }

    #[test]
    fn a_probe_without_a_share_says_on_which_side_it_was() {
        let judgement = |met_probability| Judgement {
            met: met_probability > 0.5,
            met_probability,
            share: None,
        };
        let closed = Prior::ClosedLoop {
            per_s: 1000.0,
            completed: 5000.0,
        };
        let before = Posterior::new(closed, BOUND);
        let mut after = before.clone();
        after.tell(800.0, &judgement(0.5), 5.0, 1.0, None);
        assert!((before.quantile(0.3) / after.quantile(0.3) - 1.0).abs() < 0.02);
        for _ in 0..3 {
            after.tell(800.0, &judgement(0.0), 5.0, 1.0, None);
        }
        assert!(after.below(850.0) > 0.9, "{}", after.below(850.0));
    }
}
