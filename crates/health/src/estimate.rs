//! The median of repeats with a distribution-free interval.

use steelyard_record::Estimate;
use steelyard_statistics::{CONFIDENCE, coverage, median, ranks};

/// The median of `samples` and the narrowest interval of order statistics that holds the true median with at
/// least 95 % probability. Fewer than six samples cannot reach 95 %: then it is smallest to largest with the
/// coverage that gives. None without samples or with one that is not finite.
pub fn estimate(samples: Vec<f64>) -> Option<Estimate> {
    let count = samples.len();
    if count == 0 || samples.iter().any(|sample| !sample.is_finite()) {
        return None;
    }
    let mut ordered = samples.clone();
    let median = median(&mut ordered);
    let (first, last) = ranks(count, 0.5, CONFIDENCE).unwrap_or((0, count - 1));
    Some(Estimate {
        median,
        low: ordered[first],
        high: ordered[last],
        coverage: coverage(count, 0.5, first, last),
        samples,
    })
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
    }
}
