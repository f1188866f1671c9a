//! Items in memory under an exact bound, in shards that threads lock one at a time.
//!
//! In: keys, values and the protocol's storage commands. Out: what they answer, and answers to reads written
//! straight into the caller's buffer while the shard is locked, so that no item is ever shared between threads.
//!
//! Invariants: the sum over shards of items, padding, dead bytes and index never exceeds the limit; CAS ids
//! grow with every change over the whole store, as memcached's do.
//!
//! Not here: parsing, sockets, and time itself: the caller says what second it is.

pub mod index;
pub mod item;
pub mod region;
pub mod shard;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::protocol::number;
use item::{Header, most_bytes};
use shard::{ItemLocation, Moment, Shard, ShardCounts};

/// Shards hold at least this many of the largest items.
const LARGEST_PER_SHARD: usize = 8;
/// A shard's offsets have 32 bits and count units of 8 bytes.
const SHARD_MOST_BYTES: u64 = 32 << 30;

/// The hash of a key, for the shard and the place in it.
#[inline]
pub fn hash(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

/// The least `--memory` for values of up to `max_value_bytes`.
pub fn least_memory_bytes(max_value_bytes: usize) -> u64 {
    4 * most_bytes(max_value_bytes) as u64
}

/// How a value is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreMode {
    /// Whatever was there.
    Set,
    /// Only where nothing was.
    Add,
    /// Only where something was.
    Replace,
    /// After the value that was there.
    Append,
    /// Before it.
    Prepend,
    /// Only where the CAS id is this one.
    Cas(u64),
}

/// What a storage command answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreAnswer {
    /// `STORED`
    Stored,
    /// `NOT_STORED`
    NotStored,
    /// `EXISTS`: the CAS id was another.
    Exists,
    /// `NOT_FOUND`: a CAS id for a key that is not there.
    NotFound,
    /// The value has become larger than any may be.
    TooLarge,
    /// No room could be made.
    OutOfMemory,
}

/// What incr and decr answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// The new number.
    Value(u64),
    /// The key is not there.
    NotFound,
    /// The value is not a number.
    NotANumber,
    /// No room could be made.
    OutOfMemory,
}

/// A key with its hash.
#[derive(Debug, Clone, Copy)]
pub struct Key<'a> {
    /// At most 250 bytes.
    pub bytes: &'a [u8],
    /// `hash(bytes)`.
    pub hash: u64,
}

impl<'a> Key<'a> {
    /// Hashes `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            hash: hash(bytes),
        }
    }
}

/// What is stored with a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The client's flags.
    pub flags: u32,
    /// Second of the store's clock at which it ends; 0: never.
    pub expiry_s: u32,
}

/// All items of a server.
#[derive(Debug)]
pub struct Store {
    shards: Vec<Mutex<Shard>>,
    shift: u32,
    limit_bytes: u64,
    max_value_bytes: usize,
    /// The last CAS id given out.
    cas: AtomicU64,
    flushed_below: AtomicU64,
    /// Second of the store's clock at which a delayed flush takes effect; 0: none waits.
    flush_at_s: AtomicU64,
}

impl Store {
    /// A store of at most `limit_bytes`, divided so that `threads` seldom meet.
    pub fn new(limit_bytes: u64, max_value_bytes: usize, threads: usize) -> io::Result<Self> {
        let wanted = (threads * 8).next_power_of_two() as u64;
        let largest = (LARGEST_PER_SHARD * most_bytes(max_value_bytes)) as u64;
        let mut count = wanted;
        while count > 1 && limit_bytes / count < largest {
            count /= 2;
        }
        while limit_bytes / count >= SHARD_MOST_BYTES {
            count *= 2;
        }
        let budget = (limit_bytes / count) as usize;
        let shards = (0..count)
            .map(|_| Shard::new(budget).map(Mutex::new))
            .collect::<io::Result<_>>()?;
        Ok(Self {
            shards,
            shift: 64 - count.trailing_zeros(),
            limit_bytes,
            max_value_bytes,
            cas: AtomicU64::new(0),
            flushed_below: AtomicU64::new(0),
            flush_at_s: AtomicU64::new(0),
        })
    }

    /// The bound.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// The longest value.
    pub fn max_value_bytes(&self) -> usize {
        self.max_value_bytes
    }

    #[inline]
    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        let number = hash.checked_shr(self.shift).unwrap_or(0) as usize;
        // A thread that panicked inside a shard is a bug that has been reported; others go on.
        self.shards[number]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn moment(&self, now_s: u32) -> Moment {
        let flush_at = self.flush_at_s.load(Relaxed);
        if flush_at != 0 && flush_at <= u64::from(now_s) {
            self.flush_now_at(flush_at);
        }
        Moment {
            now_s,
            flushed_below: self.flushed_below.load(Relaxed),
        }
    }

    fn next_cas(&self) -> u64 {
        self.cas.fetch_add(1, Relaxed) + 1
    }

    /// Appends the answer line and value of `key`, with its CAS id when `with_cas`. `touch`: a new expiry.
    /// False, and nothing appended: it is not there.
    #[inline]
    pub fn get(
        &self,
        key: Key,
        now_s: u32,
        with_cas: bool,
        touch: Option<u32>,
        out: &mut Vec<u8>,
    ) -> bool {
        let moment = self.moment(now_s);
        let mut shard = self.shard(key.hash);
        let Some(found) = shard.find(key.hash, key.bytes, moment) else {
            return false;
        };
        shard.touch(&found);
        if let Some(expiry_s) = touch {
            shard.rewrite(
                &found,
                Header {
                    expiry_s,
                    ..found.header
                },
            );
        }
        let value = shard.value(&found);
        out.reserve(value.len() + key.bytes.len() + 64);
        write_value(
            out,
            key.bytes,
            found.header.flags,
            with_cas.then_some(found.header.cas),
            value,
        );
        true
    }

    /// Stores `value` as `mode` says.
    pub fn store(
        &self,
        mode: StoreMode,
        key: Key,
        attributes: Attributes,
        value: &[u8],
        now_s: u32,
    ) -> StoreAnswer {
        let moment = self.moment(now_s);
        let mut shard = self.shard(key.hash);
        let old = shard.find(key.hash, key.bytes, moment);
        match (mode, &old) {
            (StoreMode::Add, Some(found)) => {
                // memcached counts a refused add as a use.
                shard.touch(found);
                return StoreAnswer::NotStored;
            }
            (StoreMode::Replace | StoreMode::Append | StoreMode::Prepend, None) => {
                return StoreAnswer::NotStored;
            }
            (StoreMode::Cas(_), None) => return StoreAnswer::NotFound,
            (StoreMode::Cas(cas), Some(found)) if found.header.cas != cas => {
                return StoreAnswer::Exists;
            }
            _ => {}
        }
        let mut joined = Vec::new();
        let (value, attributes) = match (mode, &old) {
            (StoreMode::Append | StoreMode::Prepend, Some(found)) => {
                let before = shard.value(found);
                if before.len() + value.len() > self.max_value_bytes {
                    return StoreAnswer::TooLarge;
                }
                let parts = if mode == StoreMode::Append {
                    [before, value]
                } else {
                    [value, before]
                };
                joined.extend_from_slice(parts[0]);
                joined.extend_from_slice(parts[1]);
                let kept = Attributes {
                    flags: found.header.flags,
                    expiry_s: found.header.expiry_s,
                };
                (&joined[..], kept)
            }
            _ => (value, attributes),
        };
        if self.put(&mut shard, key, attributes, value, old, moment) {
            StoreAnswer::Stored
        } else {
            StoreAnswer::OutOfMemory
        }
    }

    fn put(
        &self,
        shard: &mut Shard,
        key: Key,
        attributes: Attributes,
        value: &[u8],
        old: Option<ItemLocation>,
        moment: Moment,
    ) -> bool {
        let header = Header {
            value_bytes: value.len() as u32,
            expiry_s: attributes.expiry_s,
            cas: self.next_cas(),
            key_bytes: key.bytes.len() as u8,
            live: true,
            uses: 0,
            flags: attributes.flags,
        };
        shard.store(key.hash, key.bytes, [value, &[]], header, old, moment)
    }

    /// Removes `key`; whether it was there.
    pub fn delete(&self, key: Key, now_s: u32) -> bool {
        let moment = self.moment(now_s);
        let mut shard = self.shard(key.hash);
        let found = shard.find(key.hash, key.bytes, moment);
        if let Some(found) = &found {
            shard.remove(found);
        }
        found.is_some()
    }

    /// Gives `key` a new expiry; whether it was there.
    pub fn touch(&self, key: Key, expiry_s: u32, now_s: u32) -> bool {
        let moment = self.moment(now_s);
        let mut shard = self.shard(key.hash);
        let found = shard.find(key.hash, key.bytes, moment);
        if let Some(found) = &found {
            let uses = (found.header.uses + 1).min(3);
            shard.rewrite(
                found,
                Header {
                    expiry_s,
                    uses,
                    ..found.header
                },
            );
        }
        found.is_some()
    }

    /// Adds `delta` to the number at `key`, wrapping, or takes it away, down to 0.
    pub fn count(&self, key: Key, increase: bool, delta: u64, now_s: u32) -> Counted {
        let moment = self.moment(now_s);
        let mut shard = self.shard(key.hash);
        let Some(found) = shard.find(key.hash, key.bytes, moment) else {
            return Counted::NotFound;
        };
        let Some(before) = number::counter(shard.value(&found)) else {
            return Counted::NotANumber;
        };
        let after = if increase {
            before.wrapping_add(delta)
        } else {
            before.saturating_sub(delta)
        };
        let mut digits = number::Digits::new();
        let digits = digits.of(after);
        let header = found.header;
        if digits.len() <= header.value_bytes as usize {
            // A shorter number keeps the room of the longer one, filled with spaces, as memcached does.
            let mut padded = [b' '; 32];
            padded[..digits.len()].copy_from_slice(digits);
            shard.rewrite(
                &found,
                Header {
                    cas: self.next_cas(),
                    ..header
                },
            );
            shard.overwrite(&found, &padded[..header.value_bytes as usize]);
            return Counted::Value(after);
        }
        let attributes = Attributes {
            flags: header.flags,
            expiry_s: header.expiry_s,
        };
        if self.put(&mut shard, key, attributes, digits, Some(found), moment) {
            Counted::Value(after)
        } else {
            Counted::OutOfMemory
        }
    }

    /// Makes all items invisible, from second `at_s` of the store's clock on, or at once.
    pub fn flush(&self, at_s: Option<u32>) {
        match at_s {
            Some(at_s) => self.flush_at_s.store(u64::from(at_s), Relaxed),
            None => {
                self.flush_at_s.store(0, Relaxed);
                self.flushed_below.store(self.next_cas(), Relaxed);
            }
        }
    }

    #[cold]
    fn flush_now_at(&self, flush_at: u64) {
        // Whoever notices first draws the line.
        if self
            .flush_at_s
            .compare_exchange(flush_at, 0, Relaxed, Relaxed)
            .is_ok()
        {
            self.flushed_below.store(self.next_cas(), Relaxed);
        }
    }

    /// Counts over all shards.
    pub fn counts(&self) -> ShardCounts {
        let mut sum = ShardCounts::default();
        for shard in &self.shards {
            let counts = shard
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .counts();
            sum.items += counts.items;
            sum.live_bytes += counts.live_bytes;
            sum.index_bytes += counts.index_bytes;
            sum.evictions += counts.evictions;
            sum.reclaimed += counts.reclaimed;
            sum.total_items += counts.total_items;
            sum.payload_bytes += counts.payload_bytes;
        }
        sum
    }

    /// Number of shards.
    pub fn shard_count(&self) -> usize {
        self.shards.len()
    }
}

/// Appends `VALUE key flags length [cas]`, the value and its line end.
#[inline]
pub fn write_value(out: &mut Vec<u8>, key: &[u8], flags: u32, cas: Option<u64>, value: &[u8]) {
    let mut digits = number::Digits::new();
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.push(b' ');
    out.extend_from_slice(digits.of(u64::from(flags)));
    out.push(b' ');
    out.extend_from_slice(digits.of(value.len() as u64));
    if let Some(cas) = cas {
        out.push(b' ');
        out.extend_from_slice(digits.of(cas));
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests;
