//! Repeatable randomness for inputs and orders: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), whose n-th
//! value is a hash of its start plus n times a constant. Not for secrets.

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of SplitMix64: a bijection on 64 bits that scatters them.
#[inline]
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A stream of random values that depends on a seed and a purpose only.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
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
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// The next integer below `bound`, which is not 0; the bias is below 2^-32 for bounds below 2^32.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0);
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
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
}
