//! One shard: a log of items that runs in a circle, and the index over it.
//!
//! New items go to the head. When room is needed the tail moves on: what is dead is passed over, what was used
//! since the tail last came by is moved to the head with its use count lowered, the rest is evicted. This is
//! CLOCK over a log: no size classes, no fragmentation, no per-item list links.
//!
//! Invariants: `occupied + index.bytes() <= budget` after every call; `live_bytes` is the sum of the sizes of
//! the items in the index; every byte between tail and head belongs to exactly one item.
//!
//! Not here: locks, and the meaning of the protocol's commands.

use std::io;

use super::index::{Index, Slot, UNIT};
use super::item::Header;
use super::region::Region;

/// Bytes of used items that one allocation may save from eviction, so that its time is bounded.
const RESCUE_BYTES: usize = 64 * 1024;

/// What a shard counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShardCounts {
    /// Items in the index.
    pub items: u64,
    /// Their bytes, headers and padding included.
    pub live_bytes: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Items removed to make room.
    pub evictions: u64,
    /// Expired or flushed items whose room was taken.
    pub reclaimed: u64,
    /// Items ever stored.
    pub total_items: u64,
    /// Bytes of keys and values of the items in the index.
    pub payload_bytes: u64,
}

/// The moment that decides which items are still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Second of the store's clock.
    pub now_s: u32,
    /// Items with a lower CAS id were flushed.
    pub flushed_below: u64,
}

impl Moment {
    fn sees(self, header: &Header) -> bool {
        header.cas >= self.flushed_below && (header.expiry_s == 0 || header.expiry_s > self.now_s)
    }
}

/// Where an item lies.
#[derive(Debug, Clone, Copy)]
pub struct ItemLocation {
    /// Its entry in the index.
    pub slot: Slot,
    /// Where it starts.
    pub offset: usize,
    /// Its header.
    pub header: Header,
}

/// One shard.
#[derive(Debug)]
pub struct Shard {
    log: Region,
    index: Index,
    budget: usize,
    head: usize,
    tail: usize,
    /// The head is behind the tail: data lies in `tail..lap_end` and in `0..head`.
    wrapped: bool,
    lap_end: usize,
    occupied: usize,
    counts: ShardCounts,
}

impl Shard {
    /// A shard that never takes more than `budget` bytes.
    pub fn new(budget: usize) -> io::Result<Self> {
        Ok(Self {
            log: Region::reserve(budget)?,
            index: Index::new(budget)?,
            budget,
            head: 0,
            tail: 0,
            wrapped: false,
            lap_end: 0,
            occupied: 0,
            counts: ShardCounts::default(),
        })
    }

    /// What it counts now.
    pub fn counts(&self) -> ShardCounts {
        ShardCounts {
            index_bytes: self.index.bytes() as u64,
            ..self.counts
        }
    }

    /// The live item of `key`; one that has expired or was flushed is removed on the way.
    #[inline]
    pub fn find(&mut self, hash: u64, key: &[u8], moment: Moment) -> Option<ItemLocation> {
        let log = &self.log;
        let mut header = None;
        let (slot, offset) = self.index.find(hash as u32, |offset| {
            let bytes = &log[offset..];
            let candidate = Header::read(bytes);
            let matches = usize::from(candidate.key_bytes) == key.len()
                && bytes[candidate.key_at()..candidate.value_at()] == *key;
            header = Some(candidate);
            matches
        })?;
        let header = header?;
        let found = ItemLocation {
            slot,
            offset,
            header,
        };
        if moment.sees(&header) {
            return Some(found);
        }
        self.counts.reclaimed += 1;
        self.remove(&found);
        None
    }

    /// The value of an item.
    #[inline]
    pub fn value(&self, found: &ItemLocation) -> &[u8] {
        &self.log[found.offset + found.header.value_at()..][..found.header.value_bytes as usize]
    }

    /// Counts a use, which saves the item when the tail comes by.
    #[inline]
    pub fn touch(&mut self, found: &ItemLocation) {
        if found.header.uses < 3 {
            let header = Header {
                uses: found.header.uses + 1,
                ..found.header
            };
            header.write(&mut self.log[found.offset..]);
        }
    }

    /// Changes an item's header without moving it: its sizes and flags must stay.
    pub fn rewrite(&mut self, found: &ItemLocation, header: Header) {
        debug_assert_eq!(header.total(), found.header.total());
        header.write(&mut self.log[found.offset..]);
    }

    /// Replaces the bytes of a value by as many others.
    pub fn overwrite(&mut self, found: &ItemLocation, value: &[u8]) {
        let at = found.offset + found.header.value_at();
        self.log[at..at + found.header.value_bytes as usize].copy_from_slice(value);
    }

    /// Removes an item.
    pub fn remove(&mut self, found: &ItemLocation) {
        self.index.remove(found.slot);
        self.bury(found);
    }

    /// Takes an item out of the counts and leaves its bytes for the tail.
    fn bury(&mut self, found: &ItemLocation) {
        let header = Header {
            live: false,
            ..found.header
        };
        header.write(&mut self.log[found.offset..]);
        self.count_out(&found.header);
    }

    fn count_out(&mut self, header: &Header) {
        self.counts.items -= 1;
        self.counts.live_bytes -= header.total() as u64;
        self.counts.payload_bytes -= payload(header);
    }

    /// Stores an item in place of `old` or as a new one. False: there is no room for one this large.
    pub fn store(
        &mut self,
        hash: u64,
        key: &[u8],
        value: [&[u8]; 2],
        header: Header,
        old: Option<ItemLocation>,
        moment: Moment,
    ) -> bool {
        let size = header.total();
        // Room is taken from other items, never from the old one of this key unless it must.
        if let Some(found) = old {
            if found.header.total() == size {
                self.counts.payload_bytes -= payload(&found.header);
                self.counts.payload_bytes += payload(&header);
                self.counts.total_items += 1;
                self.fill(found.offset, key, value, &header);
                return true;
            }
            self.remove(&found);
        }
        let Some(offset) = self.allocate(size, moment) else {
            return false;
        };
        self.fill(offset, key, value, &header);
        self.counts.items += 1;
        self.counts.total_items += 1;
        self.counts.live_bytes += size as u64;
        self.counts.payload_bytes += payload(&header);
        self.index.insert(hash as u32, offset);
        let mut rescue = RESCUE_BYTES;
        while self.occupied + self.index.bytes() > self.budget {
            self.advance_tail(moment, &mut rescue);
        }
        true
    }

    fn fill(&mut self, offset: usize, key: &[u8], value: [&[u8]; 2], header: &Header) {
        let bytes = &mut self.log[offset..][..header.total()];
        header.write(bytes);
        bytes[header.key_at()..header.value_at()].copy_from_slice(key);
        let (first, second) = (value[0].len(), value[1].len());
        let bytes = &mut bytes[header.value_at()..][..first + second];
        bytes[..first].copy_from_slice(value[0]);
        bytes[first..].copy_from_slice(value[1]);
    }

    /// Where the log ends now: the index takes its part of the budget.
    fn limit(&self) -> usize {
        self.budget.saturating_sub(self.index.bytes()) / UNIT * UNIT
    }

    fn allocate(&mut self, size: usize, moment: Moment) -> Option<usize> {
        if size > self.limit() {
            return None;
        }
        let mut rescue = RESCUE_BYTES;
        loop {
            if self.wrapped {
                if self.head + size <= self.tail {
                    break;
                }
                self.advance_tail(moment, &mut rescue);
            } else if self.head + size <= self.limit() {
                break;
            } else if self.occupied == 0 {
                self.head = 0;
                self.tail = 0;
            } else {
                self.lap_end = self.head;
                self.head = 0;
                self.wrapped = true;
            }
        }
        let offset = self.head;
        self.head += size;
        self.occupied += size;
        Some(offset)
    }

    /// Moves the tail past one item. `rescue`: bytes of used items that may still be moved to the head.
    fn advance_tail(&mut self, moment: Moment, rescue: &mut usize) {
        let offset = self.tail;
        let header = Header::read(&self.log[offset..]);
        let size = header.total();
        self.tail += size;
        self.occupied -= size;
        if header.live {
            self.pass_live(offset, &header, moment, rescue);
        }
        if self.wrapped && self.tail == self.lap_end {
            // The index may have grown during the lap, and then the log ends earlier than before.
            let limit = self.limit();
            self.log.release(limit.max(self.head), self.lap_end);
            self.tail = 0;
            self.wrapped = false;
        }
        if self.occupied == 0 {
            (self.head, self.tail, self.wrapped) = (0, 0, false);
        }
    }

    fn pass_live(&mut self, offset: usize, header: &Header, moment: Moment, rescue: &mut usize) {
        let key_at = offset + header.key_at();
        let hash = super::hash(&self.log[key_at..key_at + usize::from(header.key_bytes)]) as u32;
        let (slot, _) = self
            .index
            .find(hash, |candidate| candidate == offset)
            .expect("a live item is in the index");
        let size = header.total();
        if self.wrapped && header.uses > 0 && *rescue >= size && moment.sees(header) {
            // Wrapped, so that the head is at or below the item: moving it closes the gap between them.
            *rescue -= size;
            self.log.copy_within(offset..offset + size, self.head);
            let header = Header {
                uses: header.uses - 1,
                ..*header
            };
            header.write(&mut self.log[self.head..]);
            self.index.replace(slot, self.head);
            self.head += size;
            self.occupied += size;
            return;
        }
        if moment.sees(header) {
            self.counts.evictions += 1;
        } else {
            self.counts.reclaimed += 1;
        }
        self.index.remove(slot);
        self.count_out(header);
    }

    /// Walks all of the log and recounts; for tests.
    #[cfg(test)]
    pub fn recount(&self) -> (u64, u64, usize) {
        let (mut items, mut bytes, mut occupied) = (0, 0, 0);
        let ranges = if self.wrapped {
            [self.tail..self.lap_end, 0..self.head]
        } else {
            [self.tail..self.head, 0..0]
        };
        for range in ranges {
            let mut at = range.start;
            while at < range.end {
                let header = Header::read(&self.log[at..]);
                occupied += header.total();
                if header.live {
                    items += 1;
                    bytes += header.total() as u64;
                }
                at += header.total();
            }
            assert_eq!(
                at,
                range.end.max(range.start),
                "items end where the log does"
            );
        }
        assert_eq!(items, self.index.entries());
        assert_eq!(occupied, self.occupied);
        assert!(self.occupied + self.index.bytes() <= self.budget);
        (items, bytes, occupied)
    }
}

fn payload(header: &Header) -> u64 {
    u64::from(header.key_bytes) + u64::from(header.value_bytes)
}
