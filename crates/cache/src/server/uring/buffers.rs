//! The ring of buffers from which the kernel takes one for each receive.
//!
//! Invariant: a buffer is either the kernel's, between `give_back` and the completion that names it, or ours;
//! only ours are read. The memory outlives the io_uring that it is registered with: see `Loop`'s field order,
//! and the drop of a ring ends all its operations.

use std::io;
use std::sync::atomic::{AtomicU16, Ordering::Release};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;

use crate::store::region::Region;

/// The number under which the buffers are registered.
pub const GROUP: u16 = 0;
const COUNT: u16 = 256;
const BYTES: usize = 4096;
const ENTRY_BYTES: usize = std::mem::size_of::<BufRingEntry>();

/// The buffers of one thread.
pub struct Buffers {
    /// Entries that give free buffers to the kernel.
    entries: Region,
    memory: Region,
    tail: u16,
}

impl Buffers {
    /// Makes buffers and registers them with `ring`.
    pub fn register(ring: &mut IoUring) -> io::Result<Self> {
        let entries = Region::reserve(usize::from(COUNT) * ENTRY_BYTES)?;
        let memory = Region::reserve(usize::from(COUNT) * BYTES)?;
        // SAFETY: the region is page-aligned, holds COUNT entries, and stays mapped for as long as the ring
        // may use it.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(
                entries.as_ptr() as u64,
                COUNT,
                GROUP,
                0,
            )?;
        }
        let mut buffers = Self {
            entries,
            memory,
            tail: 0,
        };
        for buffer in 0..COUNT {
            buffers.give_back(buffer);
        }
        buffers.publish();
        Ok(buffers)
    }

    /// The bytes that the kernel put into a buffer.
    #[inline]
    pub fn bytes(&self, buffer: u16, length: usize) -> &[u8] {
        &self.memory[usize::from(buffer) * BYTES..][..length.min(BYTES)]
    }

    /// Offers a buffer again, from the next `publish` on.
    #[inline]
    pub fn give_back(&mut self, buffer: u16) {
        let at = usize::from(self.tail & (COUNT - 1)) * ENTRY_BYTES;
        let start = &raw const self.memory[usize::from(buffer) * BYTES] as u64;
        let entry = (&raw mut self.entries[at]).cast::<BufRingEntry>();
        // SAFETY: `at` is a multiple of the entry's size inside the page-aligned region of entries, and the
        // kernel does not look at this one before the tail has passed it. The fields are written one by one
        // because the last two bytes of entry 0 are the tail.
        unsafe {
            (*entry).set_addr(start);
            (*entry).set_len(BYTES as u32);
            (*entry).set_bid(buffer);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    /// Shows the kernel what was given back.
    #[inline]
    pub fn publish(&mut self) {
        let base = self.entries.as_mut_ptr().cast::<BufRingEntry>();
        // SAFETY: the tail lies in the first entry, is aligned to two bytes, and is written only here; the
        // kernel reads it with acquire order.
        unsafe {
            let tail = BufRingEntry::tail(base).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Release);
        }
    }
}
