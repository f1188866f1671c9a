//! The keys of a workload: their text, their values, and which of them are popular.
//!
//! A key is a number below the count. Its text, its size and its value are pure functions of that number, so
//! that every client process, every run and every seed means the same item by it. Popularity ranks are
//! scattered over the numbers by a fixed permutation: neighbours in rank are no neighbours in the key space.

use crate::random::{mix, unit};
use crate::{LoadError, Sizes};

/// memcached's bound on keys.
pub const KEY_BYTES_MAX: usize = 250;
const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
/// Values start anywhere in the first part of the block of random bytes.
const OFFSETS: usize = 1 << 16;

const KEY_SIZE_SALT: u64 = 0x6b65_7973_697a_6531;
const VALUE_SIZE_SALT: u64 = 0x7661_6c75_6573_697a;
const TEXT_SALT: u64 = 0x6b65_7974_6578_7431;
const VALUE_SALT: u64 = 0x7661_6c75_6574_6578;
const RANK_SALT: u64 = 0x7261_6e6b_7261_6e6b;

/// The key space of one workload.
#[derive(Debug)]
pub struct Keyspace {
    count: u64,
    key_sizes: Sizes,
    value_sizes: Sizes,
    /// Digits that distinguish all keys.
    width: usize,
    /// Random bytes that values are cut from.
    block: Vec<u8>,
    /// Random digits that printable values are cut from.
    printable: Vec<u8>,
    /// Half the bits of the permutation's domain.
    half_bits: u32,
}

impl Keyspace {
    /// `count` keys with these sizes; values are made only if something will store them.
    pub fn new(
        count: u64,
        key_sizes: Sizes,
        value_sizes: Sizes,
        stores: bool,
    ) -> Result<Self, LoadError> {
        let wrong = |name, why: String| Err(LoadError::setting(name, why));
        if count == 0 {
            return wrong("--keys", "needs at least one key".to_owned());
        }
        if key_sizes.largest() > KEY_BYTES_MAX {
            let largest = key_sizes.largest();
            return wrong(
                "--key-sizes",
                format!("{largest} B is more than the protocol's {KEY_BYTES_MAX} B"),
            );
        }
        let width = digits(count);
        if key_sizes.largest() < width {
            return wrong(
                "--key-sizes",
                format!("{count} keys do not fit in {} B", key_sizes.largest()),
            );
        }
        let block = if stores {
            random_block(value_sizes.largest())
        } else {
            Vec::new()
        };
        let bits = 64 - (count - 1).leading_zeros();
        let half_bits = bits.div_ceil(2).max(1);
        Ok(Self {
            count,
            key_sizes,
            value_sizes,
            width,
            block,
            printable: Vec::new(),
            half_bits,
        })
    }

    /// The same keys, made ready for values up to `bytes` (0: as large as the sizes say), printable ones too
    /// where `printable`.
    #[must_use]
    pub fn with_values(mut self, bytes: usize, printable: bool) -> Self {
        let bytes = bytes.max(self.value_sizes.largest());
        self.block = random_block(bytes);
        if printable {
            let digit = |byte: &u8| DIGITS[usize::from(*byte) & 31];
            self.printable = self.block.iter().map(digit).collect();
        }
        self
    }

    /// The same keys, with texts that leave room for inserted ones: a thousand times as many, and never less than 2^30.
    pub fn growing(mut self) -> Result<Self, LoadError> {
        self.width = digits(self.count.saturating_mul(1000).max(1 << 30));
        if self.key_sizes.largest() < self.width {
            let why = format!(
                "a growing key space needs keys of {} B, these have up to {} B",
                self.width,
                self.key_sizes.largest()
            );
            return Err(LoadError::setting("--key-sizes", why));
        }
        Ok(self)
    }

    /// Number of keys.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The key with popularity `rank`, from 0: a bijection on 0..count.
    ///
    /// A four-round Feistel network over the smallest even number of bits that holds the count, walked along
    /// its cycle until it falls inside (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002).
    #[inline]
    pub fn key_at_rank(&self, rank: u64) -> u64 {
        debug_assert!(rank < self.count);
        let mask = (1u64 << self.half_bits) - 1;
        let mut value = rank;
        loop {
            let (mut left, mut right) = (value >> self.half_bits, value & mask);
            for round in 0..4u64 {
                let scattered = mix(right ^ RANK_SALT.wrapping_add(round << 56)) & mask;
                (left, right) = (right, left ^ scattered);
            }
            value = left << self.half_bits | right;
            if value < self.count {
                return value;
            }
        }
    }

    /// Appends the key's text: digits that make it unique, then filler up to its size. Where the distribution
    /// asks for fewer bytes than the digits take, the key has the digits.
    #[inline]
    pub fn write_key(&self, key: u64, out: &mut Vec<u8>) {
        let size = self.key_size(key);
        let end = out.len() + size;
        // Pieces of a fixed size and a cut at the end: shorter than copying as much as is wanted.
        if self.width > 8 {
            out.extend_from_slice(&last_digits(key >> 40, self.width - 8));
            out.truncate(end - size + self.width - 8);
        }
        let low = self.width.min(8);
        out.extend_from_slice(&last_digits(key, low));
        out.truncate(end - size + self.width);
        let mut word = key ^ TEXT_SALT;
        while out.len() < end {
            word = mix(word);
            out.extend_from_slice(&digits_of(word).to_le_bytes());
            out.extend_from_slice(&(digits_of(word >> 40) as u32).to_le_bytes());
        }
        out.truncate(end);
    }

    /// Size of the key's text, bytes.
    #[inline]
    pub fn key_size(&self, key: u64) -> usize {
        self.key_sizes
            .only()
            .unwrap_or_else(|| self.key_sizes.at(unit(mix(key ^ KEY_SIZE_SALT))))
            .max(self.width)
    }

    /// Size of the key's value, bytes.
    #[inline]
    pub fn value_size(&self, key: u64) -> usize {
        self.value_sizes
            .only()
            .unwrap_or_else(|| self.value_sizes.at(unit(mix(key ^ VALUE_SIZE_SALT))))
    }

    /// The key's value: random bytes, which no compression shrinks. Empty in a key space without stores.
    #[inline]
    pub fn value(&self, key: u64) -> &[u8] {
        cut(&self.block, mix(key ^ VALUE_SALT), self.value_size(key))
    }

    /// `bytes` random bytes that are a function of `hash`.
    #[inline]
    pub fn bytes_at(&self, hash: u64, bytes: usize) -> &[u8] {
        cut(&self.block, hash, bytes)
    }

    /// `bytes` random digits and letters that are a function of `hash`.
    #[inline]
    pub fn printable_at(&self, hash: u64, bytes: usize) -> &[u8] {
        cut(&self.printable, hash, bytes)
    }
}

/// The digits of the low 40 bits of `number`, the lowest in the lowest byte.
///
/// All eight at once: the bits are halved three times into lanes of a byte, and what is 10 or more moves on from '9' to 'a'.
#[inline]
fn digits_of(number: u64) -> u64 {
    let lanes = number & 0xf_ffff | (number & 0xff_fff0_0000) << 12;
    let lanes = lanes & 0x3ff_0000_03ff | (lanes & 0xf_fc00_000f_fc00) << 6;
    let lanes = lanes & 0x1f_001f_001f_001f | (lanes & 0x3e0_03e0_03e0_03e0) << 3;
    let letters = (lanes + 0x7676_7676_7676_7676) >> 7 & 0x0101_0101_0101_0101;
    lanes + 0x3030_3030_3030_3030 + letters * u64::from(b'a' - b'9' - 1)
}

/// The last `count` (1 to 8) of the digits of `number`, the highest first, and after them bytes of no meaning.
#[inline]
fn last_digits(number: u64, count: usize) -> [u8; 8] {
    (digits_of(number).swap_bytes() >> (8 * (8 - count))).to_le_bytes()
}

/// A piece of `block` that begins where `hash` says; empty of an empty block.
#[inline]
fn cut(block: &[u8], hash: u64, bytes: usize) -> &[u8] {
    let offset = (hash as usize) % OFFSETS;
    block.get(offset..offset + bytes).unwrap_or_default()
}

/// Random bytes that values up to `largest` can be cut from.
fn random_block(largest: usize) -> Vec<u8> {
    let bytes = largest + OFFSETS + 8;
    let mut block = Vec::with_capacity(bytes);
    let mut word = 0;
    while block.len() < bytes {
        word += 1;
        block.extend_from_slice(&mix(word ^ VALUE_SALT).to_le_bytes());
    }
    block
}

/// Digits of base 32 that distinguish `count` keys.
fn digits(count: u64) -> usize {
    let mut width = 1;
    while width < 13 && (count - 1) >> (5 * width) > 0 {
        width += 1;
    }
    width
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn keyspace(count: u64) -> Keyspace {
        let keys =
            Sizes::quantiles(vec![(0.0, 4.0), (0.5, 20.0), (1.0, 60.0)], String::new()).unwrap();
        let values =
            Sizes::quantiles(vec![(0.0, 0.0), (0.9, 500.0), (1.0, 3000.0)], String::new()).unwrap();
        Keyspace::new(count, keys, values, true).unwrap()
    }

    #[test]
    fn ranks_are_a_permutation_that_does_not_keep_order() {
        for count in [1u64, 2, 3, 5, 64, 1000, 4097] {
            let keys = keyspace(count);
            let seen: Vec<u64> = (0..count).map(|rank| keys.key_at_rank(rank)).collect();
            assert_eq!(seen.iter().collect::<HashSet<_>>().len() as u64, count);
            assert!(seen.iter().all(|&key| key < count));
        }
        let keys = keyspace(1000);
        let neighbours =
            (1..1000).filter(|&r| keys.key_at_rank(r).abs_diff(keys.key_at_rank(r - 1)) == 1);
        assert!(neighbours.count() < 20);
    }

    #[test]
    fn digits_are_those_of_base_32() {
        for number in (0..20_000).map(mix).chain(0..64) {
            let by_table: [u8; 8] =
                std::array::from_fn(|i| DIGITS[(number >> (5 * i)) as usize & 31]);
            assert_eq!(digits_of(number).to_le_bytes(), by_table, "{number}");
        }
    }

    #[test]
    fn key_texts_are_what_they_have_always_been() {
        // Stored data, recorded traces and caches filled by another version know the keys by these texts.
        let text = |count, size, key| {
            let keys = Keyspace::new(count, Sizes::fixed(size), Sizes::fixed(1), false).unwrap();
            let mut text = Vec::new();
            keys.write_key(key, &mut text);
            String::from_utf8(text).unwrap()
        };
        assert_eq!(text(10_000, 16, 0), "000uu7n800rbbhif");
        assert_eq!(text(10_000, 16, 9_999), "9of9ncpj38atuvk2");
        assert_eq!(text(2, 1, 1), "1");
        assert_eq!(text(1 << 62, 13, (1 << 62) - 1), "3vvvvvvvvvvvv");
        assert_eq!(
            text(1 << 50, 40, (1 << 50) - 2),
            "vvvvvvvvvu9gaqmvn89bl11hjika93j6gk39o61u"
        );
    }

    #[test]
    fn key_texts_are_unique_and_printable() {
        let keys = keyspace(20_000);
        let mut seen = HashSet::new();
        for key in 0..20_000 {
            let mut text = Vec::new();
            keys.write_key(key, &mut text);
            assert_eq!(text.len(), keys.key_size(key));
            assert!(text.iter().all(u8::is_ascii_alphanumeric));
            assert!(seen.insert(text));
        }
    }

    /// Kolmogorov-Smirnov distance between sizes and the piecewise linear quantile function they came from.
    fn distance(mut sizes: Vec<usize>, theory: impl Fn(f64) -> f64) -> f64 {
        sizes.sort_unstable();
        let n = sizes.len() as f64;
        // Sizes are rounded to bytes: the theory is taken at the edge half a byte above.
        (0..sizes.len())
            .filter(|&i| i + 1 == sizes.len() || sizes[i] != sizes[i + 1])
            .map(|i| ((i + 1) as f64 / n - theory(sizes[i] as f64 + 0.5)).abs())
            .fold(0.0, f64::max)
    }

    #[test]
    fn sizes_pass_kolmogorov_smirnov() {
        let keys = keyspace(20_000);
        let bound = 1.95 / 20_000f64.sqrt();
        let value = distance((0..20_000).map(|k| keys.value_size(k)).collect(), |x| {
            if x < 500.0 {
                x / 500.0 * 0.9
            } else {
                (0.9 + (x - 500.0) / 2500.0 * 0.1).min(1.0)
            }
        });
        assert!(value < bound, "{value}");
        let key = distance((0..20_000).map(|k| keys.key_size(k)).collect(), |x| {
            if x < 20.0 {
                (x - 4.0) / 16.0 * 0.5
            } else {
                (0.5 + (x - 20.0) / 40.0 * 0.5).min(1.0)
            }
        });
        assert!(key < bound, "{key}");
    }

    #[test]
    fn impossible_key_spaces_are_refused() {
        let fixed = |bytes| Sizes::fixed(bytes);
        assert!(Keyspace::new(0, fixed(16), fixed(1), false).is_err());
        assert!(Keyspace::new(10, fixed(251), fixed(1), false).is_err());
        assert!(Keyspace::new(1_000_000, fixed(2), fixed(1), false).is_err());
    }
}
