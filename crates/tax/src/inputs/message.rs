//! Messages like a service's: ids, names, tags, attributes, nested items, a blob.

use serde::{Deserialize, Serialize};

use super::sizes::Sizes;
use super::words::{Words, skewed};
use steelyard_statistics::Random;

/// A message. Its numbers are the field numbers of Protocol Buffers and of Thrift.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
pub struct Message {
    /// Identifier, about 40 bits.
    #[prost(uint64, tag = "1")]
    #[serde(default)]
    pub id: u64,
    /// Kind of event.
    #[prost(uint32, tag = "2")]
    #[serde(default)]
    pub kind: u32,
    /// Time, µs.
    #[prost(uint64, tag = "3")]
    #[serde(default)]
    pub time_us: u64,
    /// A name.
    #[prost(string, tag = "4")]
    #[serde(default)]
    pub name: String,
    /// Tags.
    #[prost(string, repeated, tag = "5")]
    #[serde(default)]
    pub tags: Vec<String>,
    /// Scores.
    #[prost(double, repeated, tag = "6")]
    #[serde(default)]
    pub scores: Vec<f64>,
    /// Nested items.
    #[prost(message, repeated, tag = "7")]
    #[serde(default)]
    pub items: Vec<Item>,
    /// Whether it is live.
    #[prost(bool, tag = "8")]
    #[serde(default)]
    pub live: bool,
}

/// An item of a message.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
pub struct Item {
    /// Identifier.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Its owner.
    #[prost(uint32, tag = "2")]
    pub owner: u32,
    /// Its rank.
    #[prost(double, tag = "3")]
    pub rank: f64,
    /// A title.
    #[prost(string, tag = "4")]
    pub title: String,
    /// Counters.
    #[prost(uint32, repeated, tag = "5")]
    pub counts: Vec<u32>,
}

struct Maker {
    random: Random,
    words: Words,
}

impl Maker {
    fn new(seed: u64, purpose: &str) -> Self {
        Self {
            random: Random::stream(seed, purpose),
            words: Words::new(seed, 4096),
        }
    }

    fn score(&mut self) -> f64 {
        // A multiple of 2^-20 below 1: exact in every format, its decimal digits included.
        self.random.below(1 << 20) as f64 / f64::from(1 << 20)
    }

    fn item(&mut self) -> Item {
        let title_bytes = 12 + self.random.below(48) as usize;
        Item {
            id: self.random.bits() >> 24,
            owner: skewed(&mut self.random, 1 << 20) as u32,
            rank: self.score(),
            title: self.words.sentence(&mut self.random, title_bytes),
            counts: (0..4)
                .map(|_| skewed(&mut self.random, 1 << 16) as u32)
                .collect(),
        }
    }

    /// A message whose encoding in Protocol Buffers has `bytes` bytes or a few less: fields are set as they
    /// fit, the large ones being lists.
    fn message(&mut self, bytes: usize) -> Message {
        use prost::Message as _;
        let mut message = Message {
            kind: 1 + self.random.below(100) as u32,
            ..Message::default()
        };
        if bytes >= 9 {
            message.id = self.random.bits() >> 24;
        }
        if bytes >= 20 {
            message.time_us = 1_767_225_600_000_000 + self.random.below(86_400_000_000);
        }
        if bytes >= 40 {
            let long = (bytes / 4).min(40);
            message.name = self.words.sentence(&mut self.random, long);
            message.live = true;
        }
        while bytes >= 64 && message.tags.len() < 6 && message.encoded_len() + 16 <= bytes / 2 {
            message
                .tags
                .push(self.words.word(&mut self.random).to_owned());
        }
        while bytes >= 64 && message.scores.len() < 8 && message.encoded_len() + 10 <= bytes / 2 {
            let score = self.score();
            message.scores.push(score);
        }
        loop {
            let item = self.item();
            // Tag and length of the item take at most three bytes.
            if message.encoded_len() + item.encoded_len() + 3 > bytes {
                break;
            }
            message.items.push(item);
        }
        // What is left goes into the name, so that sizes are what they should be. Its own tag and length may
        // grow by three bytes.
        let left = bytes.saturating_sub(message.encoded_len());
        if left > 3 {
            if !message.name.is_empty() {
                message.name.push(' ');
            }
            message.name += &self.words.sentence(&mut self.random, left - 3);
        }
        message
    }
}

/// `count` messages whose sizes in Protocol Buffers are distributed as in Google's fleet
/// (`data/tax/message-sizes.json`), in random order.
pub fn fleet_messages(seed: u64, count: usize) -> Vec<Message> {
    let mut maker = Maker::new(seed, "fleet-messages");
    let mut sizes =
        Sizes::parse(include_str!("../../../../data/tax/message-sizes.json")).evenly(count);
    maker.random.shuffle(&mut sizes);
    sizes
        .into_iter()
        .map(|bytes| maker.message(bytes))
        .collect()
}

/// `count` answers of an API with `items` items each.
pub fn response_messages(seed: u64, count: usize, items: usize) -> Vec<Message> {
    let mut maker = Maker::new(seed, "response-messages");
    (0..count)
        .map(|_| {
            let mut message = maker.message(200);
            message.items = (0..items).map(|_| maker.item()).collect();
            message
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message as _;

    #[test]
    fn fleet_messages_have_the_published_sizes() {
        let mut sizes: Vec<usize> = fleet_messages(1, 256)
            .iter()
            .map(|message| message.encoded_len())
            .collect();
        sizes.sort_unstable();
        let share = |most: usize| {
            sizes.iter().filter(|&&bytes| bytes <= most).count() as f64 / sizes.len() as f64
        };
        // Published: 24 % of 8 bytes or less, 56 % of 32 or less, 93 % of 512 or less.
        for (most, published) in [(8, 0.24), (32, 0.56), (512, 0.93)] {
            assert!(
                (share(most) - published).abs() < 0.04,
                "{most}: {}",
                share(most)
            );
        }
        let largest = *sizes.last().expect("some");
        assert!((16_000..=32_768).contains(&largest), "{largest}");
    }

    #[test]
    fn messages_repeat_by_seed_and_responses_have_their_items() {
        assert_eq!(fleet_messages(3, 64), fleet_messages(3, 64));
        assert_ne!(fleet_messages(3, 64), fleet_messages(4, 64));
        let responses = response_messages(1, 4, 20);
        assert!(responses.iter().all(|message| message.items.len() == 20));
        let bytes = responses[0].encoded_len();
        assert!((1200..2500).contains(&bytes), "{bytes}");
    }
}
