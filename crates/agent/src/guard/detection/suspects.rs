//! Whose CPU usage goes with a victim's CPI: the antagonist correlation, and the ranking by it.
//!
//! In: a victim's CPI and its threshold, and suspects' usage in the same windows. Out: a figure in [-1, 1] for each, and
//! their order. Pure functions; nothing here is acted upon.
//!
//! Source: Zhang et al., "CPI2: CPU performance isolation for shared compute clusters", EuroSys 2013, section 4.2.

/// The antagonist correlation of a suspect: near 1 where it is busy while the victim's CPI is above `threshold`, near -1
/// where it is busy while the CPI is below.
///
/// `points` are time-aligned: the victim's CPI and the suspect's usage in CPU-s/s. Usage is scaled so that its sum is 1;
/// a CPI c above the threshold t adds u(1 - t/c), one below adds u(c/t - 1).
/// None for a suspect that used no CPU time in these windows, or where there are none: that is no evidence, not a correlation of 0.
pub fn correlation(
    points: impl Iterator<Item = (f64, f64)> + Clone,
    threshold: f64,
) -> Option<f64> {
    let possible = |&(cpi, usage): &(f64, f64)| {
        cpi.is_finite() && cpi > 0.0 && usage.is_finite() && usage >= 0.0
    };
    if !(threshold.is_finite() && threshold > 0.0) {
        return None;
    }
    // Divided by the largest first, so that the sum of very large usages is finite.
    let largest = points
        .clone()
        .filter(possible)
        .fold(0.0_f64, |largest, (_, usage)| largest.max(usage));
    if largest == 0.0 {
        return None;
    }
    let (sum, total) = points
        .filter(possible)
        .fold((0.0, 0.0), |(sum, total), (cpi, usage)| {
            let share = usage / largest;
            let strain = if cpi > threshold {
                1.0 - threshold / cpi
            } else {
                cpi / threshold - 1.0
            };
            (sum + share * strain, total + share)
        });
    // Only rounding can leave the interval.
    Some((sum / total).clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(points: &[(f64, f64)], threshold: f64) -> Option<f64> {
        correlation(points.iter().copied(), threshold)
    }

    #[test]
    fn closed_forms() {
        // All usage while the CPI is twice the threshold: 1 - 1/2.
        assert_eq!(of(&[(4.0, 1.0), (1.0, 0.0)], 2.0), Some(0.5));
        // All usage while it is half the threshold: 1/2 - 1.
        assert_eq!(of(&[(4.0, 0.0), (1.0, 1.0)], 2.0), Some(-0.5));
        // At the threshold nothing is said either way.
        assert_eq!(of(&[(2.0, 0.7)], 2.0), Some(0.0));
        // Half and half of the first two.
        assert_eq!(of(&[(4.0, 0.3), (1.0, 0.3)], 2.0), Some(0.0));
    }

    #[test]
    fn no_evidence_is_no_correlation() {
        assert_eq!(of(&[], 2.0), None);
        assert_eq!(of(&[(4.0, 0.0), (1.0, 0.0)], 2.0), None);
        assert_eq!(of(&[(f64::NAN, 1.0), (4.0, f64::INFINITY)], 2.0), None);
        assert_eq!(of(&[(4.0, 1.0)], 0.0), None);
        assert_eq!(of(&[(4.0, 1e308), (4.0, 1e308)], 2.0), Some(0.5));
    }

    proptest! {
        #[test]
        fn it_lies_between_minus_one_and_one(
            points in prop::collection::vec((1e-12..1e12_f64, 0.0..1e9_f64), 0..40), threshold in 1e-9..1e9_f64,
        ) {
            if let Some(found) = of(&points, threshold) {
                prop_assert!((-1.0..=1.0).contains(&found));
            }
        }

        #[test]
        fn the_unit_of_usage_and_of_cpi_does_not_matter(
            points in prop::collection::vec((0.1..10.0_f64, 0.001..4.0_f64), 1..20), threshold in 0.2..8.0_f64,
        ) {
            let plain = of(&points, threshold).unwrap();
            let usage: Vec<_> = points.iter().map(|&(cpi, usage)| (cpi, usage * 1000.0)).collect();
            let cpi: Vec<_> = points.iter().map(|&(cpi, usage)| (cpi * 1e-6, usage)).collect();
            prop_assert!((plain - of(&usage, threshold).unwrap()).abs() < 1e-9);
            prop_assert!((plain - of(&cpi, threshold * 1e-6).unwrap()).abs() < 1e-9);
        }

        #[test]
        fn more_usage_while_the_victim_suffers_never_lowers_it(
            points in prop::collection::vec((0.1..10.0_f64, 0.001..4.0_f64), 1..20), more in 0.0..4.0_f64,
        ) {
            let threshold = 1.0;
            let worst = points.iter().enumerate().max_by(|a, b| a.1.0.total_cmp(&b.1.0)).unwrap().0;
            let mut changed = points.clone();
            changed[worst].1 += more;
            prop_assert!(of(&changed, threshold).unwrap() >= of(&points, threshold).unwrap() - 1e-9);
        }
    }
}
