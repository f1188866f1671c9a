//! Repeatable randomness for inputs and orders: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), whose n-th
//! value is a hash of its start plus n times a constant. Not for secrets.

/// The odd constant of SplitMix64: 2^64 over the golden ratio.
pub const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of SplitMix64: a bijection on 64 bits that scatters them.
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

/// A stream of random values.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream that begins at `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The stream for `purpose` under `seed`; two purposes never share one.
    pub fn stream(seed: u64, purpose: &str) -> Self {
        let start = purpose
            .bytes()
            .fold(mix(seed.wrapping_add(GAMMA)), |state, byte| {
                mix(state ^ u64::from(byte).wrapping_mul(GAMMA))
            });
        Self { state: start }
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

    /// The next integer below `bound`, which is not 0, without bias (Lemire, ACM TOMACS 2019).
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

    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let bytes = self.bits().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }

    /// Puts `items` into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ_by_seed_and_purpose() {
        let take = |seed, purpose| {
            let mut random = Random::stream(seed, purpose);
            [random.bits(), random.bits(), random.bits()]
        };
        assert_eq!(take(7, "order"), take(7, "order"));
        assert_ne!(take(7, "order"), take(8, "order"));
        assert_ne!(take(7, "order"), take(7, "input"));
    }

    #[test]
    fn a_shuffle_puts_every_item_everywhere_alike() {
        let mut random = Random::stream(1, "shuffle");
        let mut counts = [[0u32; 5]; 5];
        for _ in 0..10_000 {
            let mut items = [0, 1, 2, 3, 4];
            random.shuffle(&mut items);
            for (place, &item) in items.iter().enumerate() {
                counts[item][place] += 1;
            }
        }
        // Five standard deviations of a binomial count with p = 1/5.
        for count in counts.as_flattened() {
            assert!((1800..2200).contains(count), "{counts:?}");
        }
    }

    #[test]
    fn integers_below_a_bound_are_uniform() {
        // Chi-square with 9 degrees of freedom: 27.9 is the 0.999 quantile; the stream is fixed by its seed.
        let mut random = Random::stream(1, "integers");
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
        let mut random = Random::stream(5, "exponential");
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
