//! Keys of a trace's requests between their line and their answer.
//!
//! A request names its key by a number; here is the text that goes with it, and the size of its value. Invariant: as
//! many are kept as there are requests waiting or in flight, however long the trace is.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::random::mix;

/// The bits of a key's number that hold its place in its thread's part.
const PLACE_BITS: u32 = 40;

/// The keys of all generator threads.
#[derive(Debug)]
pub struct TraceKeys {
    /// One part a thread, so that threads never wait for each other.
    parts: Vec<Mutex<Part>>,
}

#[derive(Debug, Default)]
struct Part {
    entries: Vec<Entry>,
    free: Vec<usize>,
}

#[derive(Debug, Default)]
struct Entry {
    text: Vec<u8>,
    /// Size of the value, `u32::MAX` where the trace has none.
    bytes: u32,
    hash: u64,
}

impl TraceKeys {
    /// For this many threads.
    pub fn new(threads: u32) -> Self {
        Self {
            parts: (0..threads).map(|_| Mutex::default()).collect(),
        }
    }

    /// Keeps a key for a request of `thread`; returns its number.
    pub fn keep(&self, thread: u32, text: &[u8], bytes: Option<u32>) -> u64 {
        let mut part = lock(&self.parts[thread as usize]);
        let place = part.free.pop().unwrap_or_else(|| {
            part.entries.push(Entry::default());
            part.entries.len() - 1
        });
        let entry = &mut part.entries[place];
        entry.text.clear();
        entry.text.extend_from_slice(text);
        entry.bytes = bytes.unwrap_or(u32::MAX);
        entry.hash = text.chunks(8).fold(0x7472_6163_656b_6579, |hash, chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            mix(hash ^ u64::from_le_bytes(word))
        });
        u64::from(thread) << PLACE_BITS | place as u64
    }

    /// The request is over: its key's place may be used again.
    pub fn forget(&self, key: u64) {
        let mut part = lock(&self.parts[(key >> PLACE_BITS) as usize]);
        part.free.push(place(key));
    }

    /// Size of the key's text.
    pub fn len(&self, key: u64) -> usize {
        self.with(key, |entry| entry.text.len())
    }

    /// Appends the key's text.
    pub fn write(&self, key: u64, out: &mut Vec<u8>) {
        self.with(key, |entry| out.extend_from_slice(&entry.text));
    }

    /// A hash of the key's text, and the size of its value if the trace has it.
    pub fn value(&self, key: u64) -> (u64, Option<usize>) {
        self.with(key, |entry| {
            let is_known = entry.bytes != u32::MAX;
            (entry.hash, is_known.then_some(entry.bytes as usize))
        })
    }

    fn with<T>(&self, key: u64, look: impl FnOnce(&Entry) -> T) -> T {
        look(&lock(&self.parts[(key >> PLACE_BITS) as usize]).entries[place(key)])
    }
}

fn place(key: u64) -> usize {
    (key & ((1 << PLACE_BITS) - 1)) as usize
}

fn lock(part: &Mutex<Part>) -> MutexGuard<'_, Part> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_kept_until_they_are_forgotten_and_places_used_again() {
        let keys = TraceKeys::new(2);
        let first = keys.keep(0, b"a key", Some(7));
        let other = keys.keep(1, b"another, longer than eight", None);
        let mut out = Vec::new();
        keys.write(first, &mut out);
        keys.write(other, &mut out);
        assert_eq!(out, b"a keyanother, longer than eight");
        assert_eq!(keys.len(first), 5);
        assert_eq!(keys.value(first).1, Some(7));
        assert_eq!(keys.value(other).1, None);
        assert_ne!(keys.value(first).0, keys.value(other).0);
        keys.forget(first);
        assert_eq!(keys.keep(0, b"x", None), first);
        assert_eq!(keys.len(first), 1);
        assert_ne!(keys.keep(0, b"y", None), first);
    }
}
