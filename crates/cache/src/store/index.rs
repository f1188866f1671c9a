//! Where each key's item lies: a linear-hashing table of 64-byte buckets, so that growth moves the entries of
//! one bucket at a time and no request ever waits for a rehash of the whole.
//!
//! In: the low 32 bits of a key's hash and the item's offset. Out: the offsets whose hashes agree; whether the
//! keys agree is for the caller to see. Invariant: `bytes()` is exactly the memory in use, and every entry
//! lies in the chain of `bucket_of(hash)`.
//!
//! Source of the scheme: W. Litwin, "Linear hashing", VLDB 1980.

use std::io;

use super::region::Region;

const BUCKET_BYTES: usize = 64;
const WORDS: usize = BUCKET_BYTES / 8;
/// The last word of a bucket links to an overflow bucket.
const LINK: usize = WORDS - 1;
const INITIAL_BUCKETS: u32 = 16;
/// Mean entries per bucket from which the table grows. Measured: see docs/journal/0002-cache-structure.md.
const ENTRIES_PER_BUCKET: u64 = 5;
/// Items lie at multiples of this many bytes.
pub const UNIT: usize = 8;

/// The table of one shard.
#[derive(Debug)]
pub struct Index {
    buckets: Region,
    overflow: Region,
    /// Buckets in use.
    count: u32,
    /// `count` rounded down to a power of two, less one.
    mask: u32,
    overflow_used: u32,
    overflow_high: u32,
    /// Head of the list of free overflow buckets, plus one; 0 when there is none.
    overflow_free: u32,
    entries: u64,
}

/// The place of one entry.
#[derive(Debug, Clone, Copy)]
pub struct Slot {
    overflow: bool,
    word: usize,
}

fn entry(hash: u32, offset: usize) -> u64 {
    // One is added so that no entry is zero, which marks an empty word.
    u64::from(hash) << 32 | (offset / UNIT + 1) as u64
}

fn offset_of(entry: u64) -> usize {
    ((entry & 0xffff_ffff) as usize - 1) * UNIT
}

fn word(region: &[u8], index: usize) -> u64 {
    let at = index * 8;
    u64::from_ne_bytes(region[at..at + 8].try_into().expect("eight bytes"))
}

fn set_word(region: &mut [u8], index: usize, value: u64) {
    let at = index * 8;
    region[at..at + 8].copy_from_slice(&value.to_ne_bytes());
}

impl Index {
    /// A table for items in `arena_bytes` of memory.
    pub fn new(arena_bytes: usize) -> io::Result<Self> {
        // The least item takes 24 bytes, and a bucket is added for each `ENTRIES_PER_BUCKET` of them.
        let most = arena_bytes / 24 / ENTRIES_PER_BUCKET as usize + INITIAL_BUCKETS as usize + 1;
        Ok(Self {
            buckets: Region::reserve(most * BUCKET_BYTES)?,
            overflow: Region::reserve(most * BUCKET_BYTES)?,
            count: INITIAL_BUCKETS,
            mask: INITIAL_BUCKETS - 1,
            overflow_used: 0,
            overflow_high: 0,
            overflow_free: 0,
            entries: 0,
        })
    }

    /// Memory in use.
    pub fn bytes(&self) -> usize {
        (self.count as usize + self.overflow_used as usize) * BUCKET_BYTES
    }

    /// Entries stored.
    #[cfg(test)]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    fn bucket_of(&self, hash: u32) -> usize {
        let wide = hash & (self.mask << 1 | 1);
        (if wide < self.count {
            wide
        } else {
            hash & self.mask
        }) as usize
    }

    fn read(&self, slot: Slot) -> u64 {
        word(
            if slot.overflow {
                &self.overflow
            } else {
                &self.buckets
            },
            slot.word,
        )
    }

    fn write(&mut self, slot: Slot, value: u64) {
        let region = if slot.overflow {
            &mut self.overflow
        } else {
            &mut self.buckets
        };
        set_word(region, slot.word, value);
    }

    /// The entry of `hash` for which `is_it` accepts the offset.
    #[inline]
    pub fn find(&self, hash: u32, mut is_it: impl FnMut(usize) -> bool) -> Option<(Slot, usize)> {
        let mut base = self.bucket_of(hash) * WORDS;
        let mut overflow = false;
        loop {
            let region: &[u8] = if overflow {
                &self.overflow
            } else {
                &self.buckets
            };
            let bucket: &[u8; BUCKET_BYTES] = region[base * 8..][..BUCKET_BYTES]
                .try_into()
                .expect("one bucket");
            for at in 0..LINK {
                let entry = word(bucket, at);
                if (entry >> 32) as u32 == hash && entry != 0 && is_it(offset_of(entry)) {
                    return Some((
                        Slot {
                            overflow,
                            word: base + at,
                        },
                        offset_of(entry),
                    ));
                }
            }
            match word(bucket, LINK) {
                0 => return None,
                link => base = (link as usize - 1) * WORDS,
            }
            overflow = true;
        }
    }

    /// Points an entry at another offset.
    pub fn replace(&mut self, slot: Slot, offset: usize) {
        let hash = (self.read(slot) >> 32) as u32;
        self.write(slot, entry(hash, offset));
    }

    /// Removes an entry. Slots found before may then hold other entries.
    pub fn remove(&mut self, slot: Slot) {
        let hash = (self.read(slot) >> 32) as u32;
        self.write(slot, 0);
        self.entries -= 1;
        // The chain gives its last entry to the hole: otherwise every chain would come to keep, empty, the
        // longest it ever was.
        let mut link = Slot {
            overflow: false,
            word: self.bucket_of(hash) * WORDS + LINK,
        };
        let mut last = None;
        loop {
            match self.read(link) {
                0 => break,
                next => {
                    let bucket = next as usize - 1;
                    last = Some((link, bucket));
                    link = Slot {
                        overflow: true,
                        word: bucket * WORDS + LINK,
                    };
                }
            }
        }
        if let Some((link, bucket)) = last {
            self.shorten(link, bucket, slot);
        }
    }

    /// Moves an entry of the last bucket of a chain to `hole`, and drops the bucket when that empties it.
    fn shorten(&mut self, link: Slot, bucket: usize, hole: Slot) {
        let base = bucket * WORDS;
        let in_bucket = |at: usize| Slot {
            overflow: true,
            word: base + at,
        };
        let used = |index: &Self| {
            (0..LINK)
                .rev()
                .map(in_bucket)
                .find(|&slot| index.read(slot) != 0)
        };
        let hole_is_here = hole.overflow && (base..base + LINK).contains(&hole.word);
        if let (Some(moved), false) = (used(self), hole_is_here) {
            let value = self.read(moved);
            self.write(hole, value);
            self.write(moved, 0);
        }
        if used(self).is_none() {
            self.write(link, 0);
            self.free_overflow(bucket);
        }
    }

    fn free_overflow(&mut self, bucket: usize) {
        set_word(
            &mut self.overflow,
            bucket * WORDS + LINK,
            u64::from(self.overflow_free),
        );
        self.overflow_free = bucket as u32 + 1;
        self.overflow_used -= 1;
    }

    /// Adds an entry and grows the table by a bucket when it is time.
    pub fn insert(&mut self, hash: u32, offset: usize) {
        self.place(self.bucket_of(hash), entry(hash, offset));
        self.entries += 1;
        if self.entries > u64::from(self.count) * ENTRIES_PER_BUCKET {
            self.split();
        }
    }

    fn place(&mut self, bucket: usize, value: u64) {
        let mut base = bucket * WORDS;
        let mut overflow = false;
        loop {
            for at in 0..LINK {
                let slot = Slot {
                    overflow,
                    word: base + at,
                };
                if self.read(slot) == 0 {
                    self.write(slot, value);
                    return;
                }
            }
            let link = Slot {
                overflow,
                word: base + LINK,
            };
            base = match self.read(link) {
                0 => {
                    let fresh = self.take_overflow();
                    self.write(link, fresh as u64 + 1);
                    fresh * WORDS
                }
                next => (next as usize - 1) * WORDS,
            };
            overflow = true;
        }
    }

    fn take_overflow(&mut self) -> usize {
        self.overflow_used += 1;
        match self.overflow_free {
            0 => {
                self.overflow_high += 1;
                self.overflow_high as usize - 1
            }
            free => {
                let bucket = free as usize - 1;
                self.overflow_free = word(&self.overflow, bucket * WORDS + LINK) as u32;
                self.overflow[bucket * BUCKET_BYTES..][..BUCKET_BYTES].fill(0);
                bucket
            }
        }
    }

    fn split(&mut self) {
        let old = (self.count & self.mask) as usize;
        if (self.count as usize + 1) * BUCKET_BYTES > self.buckets.len() {
            return;
        }
        let mut entries = Vec::with_capacity(2 * LINK);
        let mut link = self.empty_bucket(false, old, &mut entries);
        while link != 0 {
            let bucket = link - 1;
            link = self.empty_bucket(true, bucket, &mut entries);
            self.free_overflow(bucket);
        }
        self.count += 1;
        if self.count & self.mask == 0 {
            self.mask = self.mask << 1 | 1;
        }
        for entry in entries {
            self.place(self.bucket_of((entry >> 32) as u32), entry);
        }
    }

    /// Moves a bucket's entries to `entries`, clears it and returns its link.
    fn empty_bucket(&mut self, overflow: bool, bucket: usize, entries: &mut Vec<u64>) -> usize {
        let region = if overflow {
            &mut self.overflow
        } else {
            &mut self.buckets
        };
        let bytes = &mut region[bucket * BUCKET_BYTES..][..BUCKET_BYTES];
        entries.extend(
            (0..LINK)
                .map(|at| word(bytes, at))
                .filter(|&entry| entry != 0),
        );
        let link = word(bytes, LINK) as usize;
        bytes.fill(0);
        link
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_map(operations in proptest::collection::vec((0u32..600, 0usize..3), 0..4000)) {
            let mut index = Index::new(1 << 20).unwrap();
            let mut model = HashMap::new();
            for (step, (key, operation)) in operations.into_iter().enumerate() {
                let hash = key.wrapping_mul(0x9e37_79b1);
                let found = index.find(hash, |_| true);
                prop_assert_eq!(found.map(|(_, offset)| offset), model.get(&key).copied());
                match (operation, found) {
                    (0, Some((slot, _))) => {
                        index.remove(slot);
                        model.remove(&key);
                    }
                    (_, Some((slot, _))) => {
                        index.replace(slot, step * UNIT);
                        model.insert(key, step * UNIT);
                    }
                    (_, None) => {
                        index.insert(hash, step * UNIT);
                        model.insert(key, step * UNIT);
                    }
                }
                prop_assert_eq!(index.entries(), model.len() as u64);
            }
            let least = model.len().div_ceil(LINK) * BUCKET_BYTES;
            prop_assert!(index.bytes() >= least);
            let chains = (0..index.count as usize).map(|bucket| {
                let mut link = word(&index.buckets, bucket * WORDS + LINK);
                let mut length = 0;
                while link != 0 {
                    length += 1;
                    link = word(&index.overflow, (link as usize - 1) * WORDS + LINK);
                }
                length
            });
            prop_assert_eq!(chains.sum::<u32>(), index.overflow_used);
            for (key, offset) in model {
                let hash = key.wrapping_mul(0x9e37_79b1);
                prop_assert_eq!(index.find(hash, |_| true).map(|(_, offset)| offset), Some(offset));
            }
        }
    }

    #[test]
    fn colliding_hashes_chain() {
        let mut index = Index::new(1 << 20).unwrap();
        for step in 0..100 {
            index.insert(42, step * UNIT);
        }
        for step in 0..100 {
            assert!(index.find(42, |offset| offset == step * UNIT).is_some());
        }
    }
}
