//! Streams of random values that depend on a seed, a purpose and an index only, whichever thread asks and when.

use steelyard_statistics::GAMMA;
pub use steelyard_statistics::{Random, mix, unit};

/// What a stream is for: two purposes never share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Which operation on which key comes next.
    Requests = 1,
    /// When the next request is due.
    Arrivals = 2,
}

impl Purpose {
    /// The stream number `index` under `seed`.
    pub fn stream(self, seed: u64, index: u64) -> Random {
        let start = mix(seed.wrapping_add(GAMMA));
        let start = mix(start ^ (self as u64).wrapping_mul(GAMMA));
        Random::new(mix(start ^ index.wrapping_mul(GAMMA).wrapping_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let take = |seed, purpose: Purpose, index| {
            let mut random = purpose.stream(seed, index);
            [random.bits(), random.bits(), random.bits()]
        };
        assert_eq!(take(7, Purpose::Requests, 3), take(7, Purpose::Requests, 3));
        assert_ne!(take(7, Purpose::Requests, 3), take(8, Purpose::Requests, 3));
        assert_ne!(take(7, Purpose::Requests, 3), take(7, Purpose::Requests, 4));
        assert_ne!(take(7, Purpose::Requests, 3), take(7, Purpose::Arrivals, 3));
    }
}
