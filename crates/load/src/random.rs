//! Repeatable randomness: streams that depend on a seed, a purpose and an index only.
//!
//! SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): the n-th value of a stream is a hash of its start plus n
//! times a constant, so a stream costs eight bytes, needs no warm-up, and never depends on which thread asks
//! or when. Not for secrets.

/// The odd constant of SplitMix64: 2^64 over the golden ratio.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of SplitMix64 (variant 13 of Stafford): a bijection on 64 bits that scatters them.
#[inline]
pub fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The top 53 bits as a number in [0, 1).
#[inline]
pub fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// What a stream is for: two purposes never share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Which operation on which key comes next.
    Requests = 1,
    /// When the next request is due.
    Arrivals = 2,
}

/// A stream of random values.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream number `index` for `purpose` under `seed`.
    pub fn stream(seed: u64, purpose: Purpose, index: u64) -> Self {
        let start = mix(seed.wrapping_add(GAMMA));
        let start = mix(start ^ (purpose as u64).wrapping_mul(GAMMA));
        Self {
            state: mix(start ^ index.wrapping_mul(GAMMA).wrapping_add(1)),
        }
    }

    /// The next 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }

    /// The next number in [0, 1).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        unit(self.bits())
    }

    /// The next integer below `bound`, without bias (Lemire, ACM TOMACS 2019).
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0);
        let mut product = u128::from(self.bits()) * u128::from(bound);
        if (product as u64) < bound {
            let threshold = bound.wrapping_neg() % bound;
            while (product as u64) < threshold {
                product = u128::from(self.bits()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }

    /// The next exponentially distributed number with mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        // 1 - u is in (0, 1], whose logarithm is finite.
        -(1.0 - self.unit()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let take = |seed, purpose, index| {
            let mut random = Random::stream(seed, purpose, index);
            [random.bits(), random.bits(), random.bits()]
        };
        assert_eq!(take(7, Purpose::Requests, 3), take(7, Purpose::Requests, 3));
        assert_ne!(take(7, Purpose::Requests, 3), take(8, Purpose::Requests, 3));
        assert_ne!(take(7, Purpose::Requests, 3), take(7, Purpose::Requests, 4));
        assert_ne!(take(7, Purpose::Requests, 3), take(7, Purpose::Arrivals, 3));
    }

    #[test]
    fn integers_below_a_bound_are_uniform() {
        // Chi-square with 9 degrees of freedom: 27.9 is the 0.999 quantile; the stream is fixed by its seed.
        let mut random = Random::stream(1, Purpose::Requests, 0);
        let mut counts = [0u64; 10];
        for _ in 0..100_000 {
            counts[random.below(10) as usize] += 1;
        }
        let chi: f64 = counts
            .iter()
            .map(|&n| (n as f64 - 10_000.0).powi(2) / 10_000.0)
            .sum();
        assert!(chi < 27.9, "{chi}");
    }

    #[test]
    fn exponential_numbers_pass_kolmogorov_smirnov() {
        let mut random = Random::stream(5, Purpose::Arrivals, 0);
        let mut values: Vec<f64> = (0..20_000).map(|_| random.exponential()).collect();
        values.sort_by(f64::total_cmp);
        let n = values.len() as f64;
        let distance = values
            .iter()
            .enumerate()
            .map(|(i, &x)| {
                let theory = 1.0 - (-x).exp();
                (theory - i as f64 / n)
                    .abs()
                    .max(((i + 1) as f64 / n - theory).abs())
            })
            .fold(0.0, f64::max);
        // 1.95 / sqrt(n) is the critical value at the 0.001 level.
        assert!(distance < 1.95 / n.sqrt(), "{distance}");
    }
}
