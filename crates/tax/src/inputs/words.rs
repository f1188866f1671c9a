//! Words that look like a language's: frequent ones are short, and few make up most of a text.

use steelyard_statistics::Random;

/// An integer below `bound` whose logarithm is about uniform: rank r is drawn about in proportion to 1/r, which
/// is Zipf's law with exponent 1.
pub fn skewed(random: &mut Random, bound: u64) -> u64 {
    let octaves = u64::from(u64::BITS - bound.leading_zeros());
    loop {
        let low = 1u64 << random.below(octaves);
        let rank = low + random.below(low);
        if rank <= bound {
            return rank - 1;
        }
    }
}

/// A vocabulary.
pub struct Words {
    words: Vec<String>,
}

impl Words {
    /// The first `count` words of a language that the seed invents.
    pub fn new(seed: u64, count: usize) -> Self {
        const ONSETS: [&str; 16] = [
            "b", "c", "d", "f", "g", "l", "m", "n", "p", "r", "s", "t", "v", "st", "tr", "ch",
        ];
        const VOWELS: [&str; 8] = ["a", "e", "i", "o", "u", "ea", "ou", "io"];
        const ENDS: [&str; 8] = ["", "", "", "n", "r", "s", "t", "nd"];
        let mut random = Random::stream(seed, "words");
        let pick = |random: &mut Random, from: &[&'static str]| {
            from[random.below(from.len() as u64) as usize]
        };
        let mut words = Vec::with_capacity(count);
        let mut known = std::collections::BTreeSet::new();
        while words.len() < count {
            // One syllable for the first words, more for rarer ones.
            let syllables = 1 + (words.len() + 1).ilog2() / 5 + (random.below(3) == 0) as u32;
            let mut word = String::new();
            for _ in 0..syllables {
                word += pick(&mut random, &ONSETS);
                word += pick(&mut random, &VOWELS);
            }
            word += pick(&mut random, &ENDS);
            if known.insert(word.clone()) {
                words.push(word);
            }
        }
        Self { words }
    }

    /// A word, frequent ones more often.
    pub fn word(&self, random: &mut Random) -> &str {
        &self.words[skewed(random, self.words.len() as u64) as usize]
    }

    /// Words joined by spaces until there are at least `bytes` bytes, then cut to that length.
    pub fn sentence(&self, random: &mut Random, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 16);
        while text.len() < bytes {
            if !text.is_empty() {
                text.push(' ');
            }
            text += self.word(random);
        }
        text.truncate(bytes);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skewed_ranks_follow_zipf_by_octave() {
        let mut random = Random::stream(3, "skewed");
        let mut octaves = [0u32; 10];
        for _ in 0..100_000 {
            octaves[(skewed(&mut random, 1023) + 1).ilog2() as usize] += 1;
        }
        // Ten octaves, alike: 10,000 each, five standard deviations either side.
        assert!(
            octaves.iter().all(|n| (9_526..10_474).contains(n)),
            "{octaves:?}"
        );
    }

    #[test]
    fn skewed_ranks_stay_below_the_bound() {
        let mut random = Random::stream(4, "skewed");
        for bound in [1, 2, 3, 5, 64, 1000] {
            assert!((0..1000).all(|_| skewed(&mut random, bound) < bound));
        }
    }
}
