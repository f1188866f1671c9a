//! Blocks of data to compress and to hash.

use std::fmt::Write;

use serde::Deserialize;

use super::words::{Words, skewed};
use steelyard_statistics::Random;

/// One kind of data in blocks of one size, as `data/tax/blocks.json` states it.
#[derive(Debug, Clone, Deserialize)]
pub struct Blocks {
    /// Its name: `log`, `json`, `rows` or `random`.
    pub name: String,
    /// Bytes of a block.
    pub bytes: usize,
    /// Blocks that differ.
    pub count: usize,
    /// Hosts, users or series in it.
    hosts: u64,
    /// Words it is made of.
    vocabulary: usize,
    /// Between which ratios zstd's level 3 compresses a block.
    #[cfg_attr(not(test), expect(dead_code, reason = "a claim that tests check"))]
    zstd_3_ratio: (f64, f64),
}

#[derive(Deserialize)]
struct File {
    blocks: Vec<Blocks>,
}

/// Every kind.
pub fn blocks() -> Vec<Blocks> {
    let file: File = serde_json::from_str(include_str!("../../../../data/tax/blocks.json"))
        .expect("a file of this repository, which a test reads");
    file.blocks
}

impl Blocks {
    /// The blocks under `seed`.
    pub fn make(&self, seed: u64) -> Vec<Vec<u8>> {
        let mut random = Random::stream(seed, &self.name);
        let words = Words::new(seed, self.vocabulary);
        let mut time_us = 1_767_225_600_000_000 + random.below(86_400_000_000);
        (0..self.count)
            .map(|_| {
                let mut block = match self.name.as_str() {
                    "log" => self.log(&mut random, &words, &mut time_us).into_bytes(),
                    "json" => self.json(&mut random, &words).into_bytes(),
                    "rows" => self.rows(&mut random, &mut time_us),
                    "random" => {
                        let mut bytes = vec![0; self.bytes];
                        random.fill(&mut bytes);
                        bytes
                    }
                    other => unreachable!("{other}: a kind without a generator"),
                };
                block.truncate(self.bytes);
                block
            })
            .collect()
    }

    fn log(&self, random: &mut Random, words: &Words, time_us: &mut u64) -> String {
        const LEVELS: [&str; 8] = [
            "INFO", "INFO", "INFO", "INFO", "INFO", "DEBUG", "WARN", "ERROR",
        ];
        const STATUS: [u32; 8] = [200, 200, 200, 200, 200, 304, 404, 500];
        let mut text = String::new();
        while text.len() < self.bytes {
            *time_us += random.below(4000);
            let (seconds, us) = (*time_us / 1_000_000, *time_us % 1_000_000);
            let (minute, hour) = (seconds / 60 % 60, seconds / 3600 % 24);
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "2026-01-01T{hour:02}:{minute:02}:{:02}.{us:06}Z {} web-{:03} {}/{}: path=/{}/{} status={} \
                 bytes={} duration_us={} trace={:016x}",
                seconds % 60,
                LEVELS[random.below(8) as usize],
                skewed(random, self.hosts),
                words.word(random),
                words.word(random),
                words.word(random),
                skewed(random, 1 << 20),
                STATUS[random.below(8) as usize],
                skewed(random, 1 << 16),
                skewed(random, 1 << 18),
                random.bits(),
            );
        }
        text
    }

    fn json(&self, random: &mut Random, words: &Words) -> String {
        let mut text = String::from("{\"items\":[");
        while text.len() < self.bytes {
            let (name, other) = (words.word(random), words.word(random));
            let _ = write!(
                text,
                "{{\"id\":{},\"owner\":{},\"name\":\"{name} {other}\",\"score\":0.{:06},\"active\":{},\
                 \"text\":\"{}\"}},",
                random.bits() >> 16,
                skewed(random, self.hosts),
                random.below(1_000_000),
                random.below(4) > 0,
                {
                    let bytes = 20 + random.below(100) as usize;
                    words.sentence(random, bytes)
                },
            );
        }
        text
    }

    fn rows(&self, random: &mut Random, time_us: &mut u64) -> Vec<u8> {
        let mut block = Vec::with_capacity(self.bytes + 32);
        while block.len() < self.bytes {
            *time_us += random.below(4000);
            block.extend(time_us.to_le_bytes());
            block.extend((skewed(random, self.hosts) as u32).to_le_bytes());
            block.extend((skewed(random, self.vocabulary as u64) as u32).to_le_bytes());
            // The sum of four uniform numbers is near enough to a normal law for a measurement.
            let sum: u64 = (0..4).map(|_| random.below(1 << 12)).sum();
            block.extend((sum as u32).to_le_bytes());
            block.extend((random.below(3) as u16).to_le_bytes());
            block.extend(((random.below(16) == 0) as u16).to_le_bytes());
        }
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_the_size_the_number_and_the_compressibility_that_the_file_states() {
        for kind in blocks() {
            for seed in [1, 2, 77] {
                let made = kind.make(seed);
                assert_eq!(made.len(), kind.count);
                let (mut before, mut after) = (0, 0);
                for block in &made {
                    assert_eq!(block.len(), kind.bytes);
                    before += block.len();
                    after += zstd::bulk::compress(block, 3).expect("compressed").len();
                }
                let ratio = before as f64 / after as f64;
                let (low, high) = kind.zstd_3_ratio;
                assert!(
                    (low..high).contains(&ratio),
                    "{} {seed}: {ratio}",
                    kind.name
                );
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_blocks_and_another_seed_others() {
        for kind in blocks() {
            assert_eq!(kind.make(5), kind.make(5), "{}", kind.name);
            assert_ne!(kind.make(5), kind.make(6), "{}", kind.name);
            let made = kind.make(5);
            assert!(made.windows(2).all(|two| two[0] != two[1]), "{}", kind.name);
        }
    }

    /// A change of any generator changes every result: it must not happen unnoticed.
    #[test]
    fn blocks_of_seed_1_are_what_they_have_always_been() {
        let found: Vec<(String, u32)> = blocks()
            .iter()
            .map(|kind| (kind.name.clone(), crc32c::crc32c(&kind.make(1).concat())))
            .collect();
        let expected = [
            ("log", 0xad27_b7b6),
            ("json", 0x618d_8d35),
            ("rows", 0xaece_799b),
            ("random", 0xd56c_04c2),
        ];
        assert_eq!(found, expected.map(|(name, crc)| (name.to_owned(), crc)));
    }
}
