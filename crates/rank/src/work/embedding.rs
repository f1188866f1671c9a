//! Embedding lookups: for each story some rows of a large table, each a cache line from anywhere in memory, added up.

use super::{ROW, Row, mix, place, rows};

/// A table of embeddings.
#[derive(Debug)]
pub struct Embeddings {
    rows: Vec<Row>,
    lookups: usize,
}

impl Embeddings {
    /// A table of `bytes` bytes, of which each story takes `lookups` rows (at most 256).
    pub fn new(bytes: u64, lookups: usize, seed: u64) -> Self {
        assert!(
            lookups <= 256,
            "sums of more than 256 rows may leave 16 bits"
        );
        Self {
            rows: rows(bytes, mix(seed ^ 0xe3be_dd16)),
            lookups,
        }
    }

    /// The sum of a story's rows.
    #[inline]
    pub fn pool(&self, story: u64) -> [i16; ROW] {
        let mut sums = [0i16; ROW];
        for lookup in 0..self.lookups {
            let hash =
                mix(story.wrapping_add((lookup as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            let row = &self.rows[place(hash, self.rows.len())];
            for (sum, &value) in sums.iter_mut().zip(&row.0) {
                // 256 rows of -128..127 stay within 16 bits.
                *sum += i16::from(value);
            }
        }
        sums
    }
}
