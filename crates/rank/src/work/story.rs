//! The text of a feed: what each story says and who liked it, composed from a vocabulary, and its message.

use steelyard_statistics::Random;
use steelyard_thrift::{Type, Writer};

use super::{Scored, mix};

/// Syllables that words are made of.
const SYLLABLES: [&str; 32] = [
    "an", "be", "cor", "da", "el", "fi", "gan", "ho", "il", "ju", "ka", "lor", "me", "no", "or",
    "pra", "qui", "re", "sol", "ta", "ur", "va", "wen", "xi", "yo", "zan", "mar", "tin", "sel",
    "gro", "ple", "ster",
];
/// Words in the vocabulary.
const WORDS: u64 = 4096;

/// A story as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Story {
    /// Its number and score.
    pub scored: Scored,
    /// Who wrote it.
    pub author: String,
    /// What it says.
    pub text: String,
    /// Who liked it.
    pub liked_by: Vec<i64>,
}

/// Appends word `number` of the vocabulary. Small numbers are short words.
fn word(number: u64, out: &mut String) {
    let mut rest = mix(number);
    let syllables = 1 + (number > 31) as u32 + (number > 1023) as u32;
    for _ in 0..syllables {
        out.push_str(SYLLABLES[(rest % 32) as usize]);
        rest >>= 5;
    }
}

/// Appends words of which small numbers are more frequent, as in any language.
fn sentence(random: &mut Random, words: u64, out: &mut String) {
    for place in 0..words {
        if place > 0 {
            out.push(' ');
        }
        let bits = random.bits();
        // The product of two uniform numbers leans towards 0.
        let number = ((bits & 0xffff) * (bits >> 16 & 0xffff) * WORDS) >> 32;
        word(number, out);
    }
}

fn capitalise(text: &mut str) {
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
}

/// What `scored` looks like to a reader.
pub fn compose(scored: &Scored, words: usize) -> Story {
    let mut random = Random::new(scored.id);
    let mut author = String::new();
    sentence(&mut random, 1, &mut author);
    capitalise(&mut author);
    let mut text = String::with_capacity(words * 8);
    let mut left = words as u64;
    while left > 0 {
        let length = (4 + random.bits() % 12).min(left);
        let begin = text.len();
        sentence(&mut random, length, &mut text);
        capitalise(&mut text[begin..]);
        text.push_str(". ");
        left -= length;
    }
    let likes = random.bits() % 9;
    Story {
        scored: *scored,
        author,
        text,
        liked_by: (0..likes).map(|_| (random.bits() >> 24) as i64).collect(),
    }
}

/// Appends a `Stories` in the compact protocol.
pub fn write_stories(stories: &[Story], out: &mut Vec<u8>) {
    Writer::new(out).structure(|fields| {
        fields.field_list(1, Type::Struct, stories.len() as u32);
        for story in stories {
            fields.structure(|fields| {
                fields.field_i64(1, story.scored.id as i64);
                fields.field_i32(2, story.scored.score);
                fields.field_string(3, &story.author);
                fields.field_string(4, &story.text);
                fields.field_list(5, Type::I64, story.liked_by.len() as u32);
                for &user in &story.liked_by {
                    fields.i64(user);
                }
            });
        }
    });
}
