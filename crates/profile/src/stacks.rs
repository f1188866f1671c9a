//! Tables that make a profile small: each frame once, each stack once, with its counts.
//!
//! In: names of frames, and stacks as lists of their numbers. Out: the same in the order of first appearance.
//!
//! Invariants: memory grows with the number of distinct frames and stacks, never with the number of samples;
//! a number that was given stays valid; sums stop at the largest value, since files of other programs may exceed it.
//!
//! Not here: what a frame's name should look like (`names`), and how a profile is written (`folded`, `pprof`).

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

/// A function as a profile shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The function.
    pub name: Box<str>,
    /// Base name of the file it was mapped from, empty where that is not known.
    pub module: Box<str>,
}

/// Frames by number.
#[derive(Debug, Default)]
pub struct FrameTable {
    frames: Vec<Frame>,
    index: HashTable<u32>,
}

fn hash_frame(name: &str, module: &str) -> u64 {
    xxh3_64(name.as_bytes()) ^ xxh3_64(module.as_bytes()).rotate_left(32)
}

impl FrameTable {
    /// The number of a frame, which is added when it is new.
    pub fn intern(&mut self, name: &str, module: &str) -> u32 {
        let hash = hash_frame(name, module);
        let frames = &self.frames;
        let same = |&number: &u32| {
            let frame = &frames[number as usize];
            *frame.name == *name && *frame.module == *module
        };
        if let Some(&number) = self.index.find(hash, same) {
            return number;
        }
        let number = u32::try_from(self.frames.len()).expect("fewer than 2^32 distinct frames");
        self.frames.push(Frame {
            name: name.into(),
            module: module.into(),
        });
        let frames = &self.frames;
        self.index.insert_unique(hash, number, |&number| {
            let frame = &frames[number as usize];
            hash_frame(&frame.name, &frame.module)
        });
        number
    }

    /// All frames, by number.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }
}

/// One distinct stack.
#[derive(Debug, Clone, Copy)]
struct Entry {
    start: usize,
    length: u32,
    count: u64,
    weight: u64,
}

/// Whether the periods that samples stand for are one and the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Periods {
    /// No sample states one.
    #[default]
    Unknown,
    /// Every sample stands for as many occurrences of the event.
    Same(u64),
    /// Samples stand for different numbers of occurrences, as where a frequency was asked for.
    Differ,
}

impl Periods {
    /// Takes the period of one more sample, 0 where it is not known.
    pub fn meet(&mut self, period: u64) {
        *self = match *self {
            _ if period == 0 => return,
            Self::Unknown => Self::Same(period),
            Self::Same(one) if one != period => Self::Differ,
            same => same,
        };
    }
}

/// Distinct stacks with their counts. A stack is a list of numbers whose meaning is its owner's.
#[derive(Debug, Default)]
pub struct StackTable {
    numbers: Vec<u32>,
    entries: Vec<Entry>,
    index: HashTable<u32>,
}

/// A stack and what was counted on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stack<'a> {
    /// The command, then the frames from the leaf to the root.
    pub numbers: &'a [u32],
    /// Samples.
    pub count: u64,
    /// Sum of the samples' periods, in the event's unit.
    pub weight: u64,
}

/// A multiplicative hash of a stack: a stack is hashed once for each sample, so that it must be fast; two
/// numbers a step, since a multiplication's latency is what it waits for.
fn hash_stack(numbers: &[u32]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = numbers.len() as u64;
    let mut pairs = numbers.chunks_exact(2);
    for pair in &mut pairs {
        let both = u64::from(pair[0]) | u64::from(pair[1]) << 32;
        hash = (hash.rotate_left(23) ^ both).wrapping_mul(FACTOR);
    }
    for &number in pairs.remainder() {
        hash = (hash.rotate_left(23) ^ u64::from(number)).wrapping_mul(FACTOR);
    }
    // The table takes its position from the low bits, and the multiplication mixes upwards.
    hash ^ hash >> 32
}

impl StackTable {
    /// Counts a stack; its number, by the order of first appearance.
    pub fn add(&mut self, numbers: &[u32], count: u64, weight: u64) -> u32 {
        let hash = hash_stack(numbers);
        let (all, entries) = (&self.numbers, &self.entries);
        let same = |&at: &u32| numbers_of(all, &entries[at as usize]) == numbers;
        if let Some(&at) = self.index.find(hash, same) {
            let entry = &mut self.entries[at as usize];
            entry.count = entry.count.saturating_add(count);
            entry.weight = entry.weight.saturating_add(weight);
            return at;
        }
        let at = u32::try_from(self.entries.len()).expect("fewer than 2^32 distinct stacks");
        self.entries.push(Entry {
            start: self.numbers.len(),
            length: numbers.len() as u32,
            count,
            weight,
        });
        self.numbers.extend_from_slice(numbers);
        let (all, entries) = (&self.numbers, &self.entries);
        self.index.insert_unique(hash, at, |&at| {
            hash_stack(numbers_of(all, &entries[at as usize]))
        });
        at
    }

    /// Distinct stacks.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All stacks in the order of their first appearance.
    pub fn iter(&self) -> impl Iterator<Item = Stack<'_>> {
        self.entries.iter().map(|entry| Stack {
            numbers: numbers_of(&self.numbers, entry),
            count: entry.count,
            weight: entry.weight,
        })
    }

    /// Samples in all stacks.
    pub fn samples(&self) -> u64 {
        let counts = self.entries.iter().map(|entry| entry.count);
        counts.fold(0, u64::saturating_add)
    }
}

fn numbers_of<'a>(numbers: &'a [u32], entry: &Entry) -> &'a [u32] {
    &numbers[entry.start..entry.start + entry.length as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_keeps_its_number_and_modules_tell_frames_apart() {
        let mut table = FrameTable::default();
        let first = table.intern("memcpy", "libc.so.6");
        assert_ne!(first, table.intern("memcpy", "other.so"));
        assert_eq!(first, table.intern("memcpy", "libc.so.6"));
        assert_eq!(table.frames().len(), 2);
    }

    #[test]
    fn a_hundred_thousand_stacks_are_kept_apart_and_counted() {
        let mut table = StackTable::default();
        for round in 0..2_u64 {
            for stack in 0..100_000_u32 {
                table.add(&[0, stack % 317, stack / 317, 1_000_000], 1, 10 + round);
            }
        }
        assert_eq!(table.len(), 100_000);
        assert_eq!(table.samples(), 200_000);
        assert!(
            table
                .iter()
                .all(|stack| stack.count == 2 && stack.weight == 21)
        );
    }

    #[test]
    fn sums_stop_at_the_largest_value() {
        let mut table = StackTable::default();
        for _ in 0..3 {
            table.add(&[1], u64::MAX / 2, u64::MAX / 2);
        }
        table.add(&[2], 5, 5);
        let sums: Vec<_> = table.iter().map(|one| (one.count, one.weight)).collect();
        assert_eq!(sums, [(u64::MAX, u64::MAX), (5, 5)]);
        assert_eq!(table.samples(), u64::MAX);
    }

    #[test]
    fn stacks_of_different_length_differ() {
        let mut table = StackTable::default();
        table.add(&[1, 2], 1, 1);
        table.add(&[1, 2, 0], 1, 1);
        table.add(&[], 1, 1);
        assert_eq!(table.len(), 3);
    }
}
