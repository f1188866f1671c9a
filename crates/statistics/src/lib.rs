//! Statistics that several measuring programs need: quantiles with intervals, means, repeatable random numbers.
//!
//! An interval is the pair of order statistics that holds the true quantile with at least the stated
//! confidence (David and Nagaraja, Order Statistics, 3rd ed., section 7.1). It asks nothing of the
//! distribution but that the values be independent. Pure functions of their arguments.
//!
//! Not here: histograms of latencies (`load`), what the control plane computes from records (`stats`).

mod random;

pub use random::{GAMMA, Random, mix, unit};

/// Confidence of every interval.
pub const CONFIDENCE: f64 = 0.95;

/// An estimate with its interval, in the unit of the values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The quantile.
    pub value: f64,
    /// Both ends of the interval; `None` where there are too few values for the confidence.
    pub interval: Option<(f64, f64)>,
}

impl Estimate {
    /// Width of the interval over the value.
    pub fn width_ratio(&self) -> Option<f64> {
        self.interval.map(|(low, high)| (high - low) / self.value)
    }
}

/// Probabilities of a binomial count with `n` trials: `P(count = k)` for k from 0 to n.
fn binomial(n: usize, p: f64) -> Vec<f64> {
    let odds = (p / (1.0 - p)).ln();
    // In logarithms, because (1 - p)^n underflows for a few thousand rounds.
    let mut log = n as f64 * (1.0 - p).ln();
    (0..=n)
        .map(|k| {
            let here = log.exp();
            log += ((n - k) as f64 / (k + 1) as f64).ln() + odds;
            here
        })
        .collect()
}

/// Ranks (from 0) of the two order statistics among `n` values that hold quantile `q` between them with
/// probability at least `confidence`, the tails cut as evenly as whole ranks allow; `None` where even the
/// smallest and the largest do not.
pub fn ranks(n: usize, q: f64, confidence: f64) -> Option<(usize, usize)> {
    if n == 0 {
        return None;
    }
    let mass = binomial(n, q);
    let tail = (1.0 - confidence) / 2.0;
    // The quantile lies below the r-th smallest value (from 0) when at most r values lie below it.
    let mut below = 0.0;
    let mut low = 0;
    while low + 1 < n && below + mass[low] <= tail {
        below += mass[low];
        low += 1;
    }
    let mut above = 0.0;
    let mut high = n;
    while high > 1 && above + mass[high] <= tail {
        above += mass[high];
        high -= 1;
    }
    // Values of rank low-1 .. high (from 0) enclose it: P(low <= count <= high) is what remains.
    let (first, last) = (low.checked_sub(1)?, high);
    if last >= n || 1.0 - below - above < confidence {
        return None;
    }
    Some((first, last))
}

/// Probability that quantile `q` of `n` values lies between those of rank `first` and `last` (from 0).
pub fn coverage(n: usize, q: f64, first: usize, last: usize) -> f64 {
    let mass = binomial(n, q);
    // Not `sum`, which is -0.0 of nothing.
    (first + 1..=last).fold(0.0, |sum, k| sum + mass[k])
}

/// The median of `values`, which it sorts; the mean of the middle two of an even number. NaN without values.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    if values.is_empty() {
        f64::NAN
    } else {
        quantile(values, 0.5)
    }
}

/// The value below which `ratio` of `values` lie (nearest rank). Sorts in place. None without values.
pub fn nearest_rank(values: &mut [u64], ratio: f64) -> Option<f64> {
    values.sort_unstable();
    let rank = (ratio * values.len() as f64).ceil() as usize;
    values
        .get(rank.clamp(1, values.len().max(1)) - 1)
        .map(|value| *value as f64)
}

/// The quantile `q` of sorted values, linear between them.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let place = q * (sorted.len() - 1) as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (place - below as f64) * (sorted[above] - sorted[below])
}

/// Quantile `q` of `values` with its interval; `None` without values.
pub fn estimate(values: &[f64], q: f64) -> Option<Estimate> {
    if values.is_empty() {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(Estimate {
        value: quantile(&sorted, q),
        interval: ranks(sorted.len(), q, CONFIDENCE).map(|(a, b)| (sorted[a], sorted[b])),
    })
}

/// The geometric mean; `None` without values or with one that is not above zero.
pub fn geometric_mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0u32);
    for value in values {
        if value <= 0.0 || !value.is_finite() {
            return None;
        }
        sum += value.ln();
        count += 1;
    }
    (count > 0).then(|| (sum / f64::from(count)).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_the_median_are_those_of_the_tables() {
        // Conover, Practical Nonparametric Statistics, table of the sign test's intervals at 95 %:
        // n = 6: 1st and 6th; n = 10: 2nd and 9th; n = 20: 6th and 15th; n = 50: 18th and 33rd.
        for (n, first, last) in [(6, 1, 6), (10, 2, 9), (20, 6, 15), (50, 18, 33)] {
            assert_eq!(ranks(n, 0.5, 0.95), Some((first - 1, last - 1)), "{n}");
        }
        // Five values hold the median with probability 1 - 2/32 only.
        assert_eq!(ranks(5, 0.5, 0.95), None);
        assert_eq!(ranks(0, 0.5, 0.95), None);
        // The smallest of 12 lies above the lower quartile with probability 0.75^12 = 0.032, of 13 with 0.024.
        assert_eq!(ranks(12, 0.25, 0.95), None);
        assert_eq!(ranks(13, 0.25, 0.95).map(|(first, _)| first), Some(0));
    }

    #[test]
    fn the_interval_holds_the_quantile_as_often_as_it_says() {
        let mut random = Random::stream(11, "coverage");
        for (n, q) in [(8, 0.5), (30, 0.5), (300, 0.5), (30, 0.25), (100, 0.25)] {
            let rounds = 4000;
            let mut held = 0;
            for _ in 0..rounds {
                // A skewed law, as times are: 1 + exponential, whose quantile is 1 - ln(1 - q).
                let values: Vec<f64> = (0..n).map(|_| 1.0 - (1.0 - random.unit()).ln()).collect();
                let (low, high) = estimate(&values, q)
                    .and_then(|e| e.interval)
                    .expect("enough");
                let truth = 1.0 - (1.0 - q).ln();
                held += u32::from((low..=high).contains(&truth));
            }
            let share = f64::from(held) / f64::from(rounds);
            // At least 95 %, less four standard errors of the simulation; discreteness makes it wider for few rounds.
            assert!(
                share > 0.95 - 4.0 * (0.95 * 0.05 / f64::from(rounds)).sqrt(),
                "{n} {q} {share}"
            );
            assert!(share < 0.995, "{n} {q} {share}: wider than it needs to be");
        }
    }

    #[test]
    fn coverage_is_that_of_order_statistics() {
        for (n, first, last, truth) in [
            (6, 0, 5, 1.0 - 2.0 / 64.0),
            // n = 11: ranks 2 and 10 cover 1 - 2 * 12/2048.
            (11, 1, 9, 1.0 - 24.0 / 2048.0),
            (3, 0, 2, 0.75),
            (1, 0, 0, 0.0),
        ] {
            let covered = coverage(n, 0.5, first, last);
            assert!((covered - truth).abs() < 1e-12, "{n} {covered}");
        }
    }

    #[test]
    fn binomial_probabilities_sum_to_one_even_where_powers_underflow() {
        for (n, p) in [(1, 0.5), (10, 0.25), (5000, 0.5), (5000, 0.1)] {
            let sum: f64 = binomial(n, p).iter().sum();
            assert!((sum - 1.0).abs() < 1e-9, "{n} {p} {sum}");
        }
    }

    #[test]
    fn quantiles_and_means_match_closed_forms() {
        let values = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(quantile(&values, 0.5), 3.0);
        assert_eq!(quantile(&values, 0.25), 2.0);
        assert_eq!(quantile(&values, 0.9), 4.6);
        assert_eq!(quantile(&[7.0], 0.3), 7.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0]), 2.5);
        assert!(median(&mut []).is_nan());
        assert!((geometric_mean([1.0, 10.0, 100.0]).expect("a mean") - 10.0).abs() < 1e-12);
        assert_eq!(geometric_mean([]), None);
        assert_eq!(geometric_mean([1.0, 0.0]), None);
        assert_eq!(estimate(&[], 0.5), None);
    }

    #[test]
    fn nearest_ranks_are_values() {
        let mut values: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(nearest_rank(&mut values, 0.5), Some(50.0));
        assert_eq!(nearest_rank(&mut values, 0.99), Some(99.0));
        assert_eq!(nearest_rank(&mut values, 0.0), Some(1.0));
        assert_eq!(nearest_rank(&mut values, 1.0), Some(100.0));
        assert_eq!(nearest_rank(&mut [], 0.5), None);
    }
}
