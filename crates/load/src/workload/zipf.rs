//! Zipf's law over ranks 1 to N, exact for every exponent above 0, with constant memory.
//!
//! Rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone
//! discrete distributions", ACM TOMACS 6(3), 1996): a continuous hat over the steps of k^-s is inverted,
//! and the few points outside the steps are drawn again. No table, so N may be in the billions.

use crate::random::Random;

/// P(rank = k) proportional to k^-exponent, for k in 1..=count.
#[derive(Debug, Clone)]
pub struct Zipf {
    count: u64,
    exponent: f64,
    /// Integral of the hat from 1 to 1.5, less the first step's area.
    integral_first: f64,
    /// Integral of the hat from 1 to count + 0.5.
    integral_last: f64,
    /// Points this close below their rank are always inside the step.
    accept: f64,
}

/// (exp(x) - 1) / x, continuous at 0.
fn expm1_ratio(x: f64) -> f64 {
    if x.abs() > 1e-8 {
        x.exp_m1() / x
    } else {
        1.0 + x * 0.5 * (1.0 + x / 3.0)
    }
}

/// ln(1 + x) / x, continuous at 0.
fn ln1p_ratio(x: f64) -> f64 {
    if x.abs() > 1e-8 {
        x.ln_1p() / x
    } else {
        1.0 - x * (0.5 - x / 3.0)
    }
}

impl Zipf {
    /// The law over `count` ranks; `exponent` must be positive and finite, `count` at least 1.
    pub fn new(count: u64, exponent: f64) -> Self {
        assert!(count > 0 && exponent > 0.0 && exponent.is_finite());
        let mut zipf = Self {
            count,
            exponent,
            integral_first: 0.0,
            integral_last: 0.0,
            accept: 0.0,
        };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(count as f64 + 0.5);
        zipf.accept = 2.0 - zipf.integral_inverse(zipf.integral(2.5) - zipf.height(2.0));
        zipf
    }

    /// x^-s.
    fn height(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// The integral of t^-s from 1 to x: (x^(1-s) - 1) / (1 - s), or ln x at s = 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        expm1_ratio((1.0 - self.exponent) * log) * log
    }

    /// The x whose integral is `area`.
    fn integral_inverse(&self, area: f64) -> f64 {
        // Rounding may carry the argument of the logarithm past its pole at -1.
        let t = (area * (1.0 - self.exponent)).max(-1.0);
        (ln1p_ratio(t) * area).exp()
    }

    /// The next rank, from 1.
    #[inline]
    pub fn rank(&self, random: &mut Random) -> u64 {
        self.draw(self.count, self.integral_last, random)
    }

    /// The next rank, from 1, of the same law over `count` ranks instead.
    #[inline]
    pub fn rank_of(&self, count: u64, random: &mut Random) -> u64 {
        if count == self.count {
            return self.rank(random);
        }
        // Of all that is kept, the number of ranks shapes only this integral.
        self.draw(count, self.integral(count as f64 + 0.5), random)
    }

    #[inline]
    fn draw(&self, count: u64, integral_last: f64, random: &mut Random) -> u64 {
        loop {
            let area = integral_last + random.unit() * (self.integral_first - integral_last);
            let x = self.integral_inverse(area);
            let rank = (x + 0.5).clamp(1.0, count as f64) as u64;
            let k = rank as f64;
            if k - x <= self.accept || area >= self.integral(k + 0.5) - self.height(k) {
                return rank;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    /// Upper 0.9999 quantile of chi-square by Wilson and Hilferty's cube approximation (z = 3.719).
    fn chi_square_bound(freedom: f64) -> f64 {
        let c = 2.0 / (9.0 * freedom);
        freedom * (1.0 - c + 3.719 * c.sqrt()).powi(3)
    }

    #[test]
    fn counts_fit_the_closed_form() {
        let draws = 400_000;
        for exponent in [0.2, 0.6, 0.99, 1.0, 1.01, 1.5, 2.2, 4.0] {
            for count in [1u64, 2, 10, 500] {
                let zipf = Zipf::new(count, exponent);
                let mut random = Purpose::Requests.stream(11, count);
                let mut seen = vec![0u64; count as usize];
                for _ in 0..draws {
                    seen[zipf.rank(&mut random) as usize - 1] += 1;
                }
                let total: f64 = (1..=count).map(|k| (k as f64).powf(-exponent)).sum();
                // Ranks expected fewer than 20 times are pooled, as the test requires.
                let (mut chi, mut cells, mut pool_seen, mut pool_expected) = (0.0, 0.0, 0.0, 0.0);
                for k in 1..=count {
                    let expected = draws as f64 * (k as f64).powf(-exponent) / total;
                    let found = seen[k as usize - 1] as f64;
                    if expected < 20.0 {
                        pool_seen += found;
                        pool_expected += expected;
                    } else {
                        chi += (found - expected).powi(2) / expected;
                        cells += 1.0;
                    }
                }
                if pool_expected > 5.0 {
                    chi += (pool_seen - pool_expected).powi(2) / pool_expected;
                    cells += 1.0;
                }
                if cells > 1.0 {
                    assert!(
                        chi < chi_square_bound(cells - 1.0),
                        "s {exponent} N {count}: chi {chi} of {cells}"
                    );
                }
            }
        }
    }

    #[test]
    fn huge_key_spaces_stay_in_range() {
        for exponent in [0.5, 1.0, 1.2] {
            let count = 10_000_000_000;
            let zipf = Zipf::new(count, exponent);
            let mut random = Purpose::Requests.stream(3, 0);
            for _ in 0..10_000 {
                let rank = zipf.rank(&mut random);
                assert!((1..=count).contains(&rank));
            }
        }
    }
}
