//! The median of repeats with a distribution-free interval.

use steelyard_record::Estimate;

const CONFIDENCE: f64 = 0.95;

/// The median of `samples` and the narrowest interval of order statistics that holds the true median with at
/// least 95 % probability: from the k-th smallest to the k-th largest, coverage `1 - 2 BinomialCDF(k-1; n, 1/2)`
/// (David and Nagaraja, Order Statistics, 3rd ed., section 7.1). Fewer than six samples cannot reach 95 %: then it
/// is smallest to largest with the coverage that gives. None without samples or with one that is not finite.
pub fn estimate(samples: Vec<f64>) -> Option<Estimate> {
    let count = samples.len();
    if count == 0 || samples.iter().any(|sample| !sample.is_finite()) {
        return None;
    }
    let mut ordered = samples.clone();
    ordered.sort_by(f64::total_cmp);
    let middle = count / 2;
    let median = if count % 2 == 1 {
        ordered[middle]
    } else {
        ordered[middle - 1] / 2.0 + ordered[middle] / 2.0
    };
    let (mut rank, mut coverage) = (1, coverage(1, count));
    while rank < count.div_ceil(2) && self::coverage(rank + 1, count) >= CONFIDENCE {
        rank += 1;
        coverage = self::coverage(rank, count);
    }
    Some(Estimate {
        median,
        low: ordered[rank - 1],
        high: ordered[count - rank],
        coverage,
        samples,
    })
}

/// Probability that the median lies between the `rank`-th smallest and the `rank`-th largest of `count`.
fn coverage(rank: usize, count: usize) -> f64 {
    // The terms of Binomial(count, 1/2), each from the one before it.
    let mut term = 0.5f64.powi(count as i32);
    let mut below = 0.0;
    for successes in 0..rank {
        below += term;
        term *= (count - successes) as f64 / (successes + 1) as f64;
    }
    (1.0 - 2.0 * below).max(0.0)
}

/// The value below which `ratio` of `values` lie (nearest rank). Sorts in place. None without values.
pub(super) fn quantile(values: &mut [u64], ratio: f64) -> Option<f64> {
    values.sort_unstable();
    let rank = (ratio * values.len() as f64).ceil() as usize;
    values
        .get(rank.clamp(1, values.len().max(1)) - 1)
        .map(|value| *value as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_is_that_of_order_statistics() {
        // Values of the same function of the control plane's `stats.intervals`.
        let six = estimate(vec![15.0, 10.0, 11.0, 14.0, 12.0, 13.0]).expect("six");
        assert_eq!((six.median, six.low, six.high), (12.5, 10.0, 15.0));
        assert!((six.coverage - 0.96875).abs() < 1e-12);
        assert_eq!(six.samples[0], 15.0, "samples keep their order");
        let eleven = estimate((1..=11).map(f64::from).collect()).expect("eleven");
        // n = 11: ranks 2 and 10 cover 1 - 2 * 12/2048.
        assert_eq!((eleven.low, eleven.high), (2.0, 10.0));
        assert!((eleven.coverage - (1.0 - 24.0 / 2048.0)).abs() < 1e-12);
        let three = estimate(vec![1.0, 2.0, 3.0]).expect("three");
        assert!((three.coverage - 0.75).abs() < 1e-12);
        let one = estimate(vec![7.0]).expect("one");
        assert_eq!((one.median, one.coverage), (7.0, 0.0));
    }

    #[test]
    fn nothing_is_made_of_nothing() {
        assert_eq!(estimate(vec![]), None);
        assert_eq!(estimate(vec![1.0, f64::NAN]), None);
        assert_eq!(quantile(&mut [], 0.5), None);
    }

    #[test]
    fn quantiles_are_those_of_nearest_rank() {
        let mut values: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(quantile(&mut values, 0.5), Some(50.0));
        assert_eq!(quantile(&mut values, 0.99), Some(99.0));
        assert_eq!(quantile(&mut values, 0.0), Some(1.0));
        assert_eq!(quantile(&mut values, 1.0), Some(100.0));
    }
}
