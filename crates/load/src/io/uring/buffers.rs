//! Receive buffers that the kernel picks from: a ring of them, in memory shared with it.

use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;

const BUFFER_BYTES: usize = 4096;

/// Buffers that the kernel takes receives from: memory shared with it while the ring lives.
pub struct Buffers {
    /// The ring of free buffers, page-aligned as the kernel wants it.
    pub entries: *mut BufRingEntry,
    entries_bytes: usize,
    count: u16,
    tail: u16,
    memory: Vec<u8>,
}

// SAFETY: `entries` is memory that this value alone owns; moving it to another thread moves the ownership.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Memory for `count` buffers, a power of two, all of them free.
    pub fn new(count: u16) -> io::Result<Self> {
        let entries_bytes = usize::from(count) * size_of::<BufRingEntry>();
        // SAFETY: an anonymous private mapping at an address of the kernel's choice.
        let pointer = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                entries_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_ANONYMOUS | libc::MAP_PRIVATE | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        if pointer == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mut buffers = Self {
            entries: pointer.cast(),
            entries_bytes,
            count,
            tail: 0,
            memory: vec![0; usize::from(count) * BUFFER_BYTES],
        };
        for id in 0..count {
            buffers.put(id);
        }
        buffers.publish();
        Ok(buffers)
    }

    /// What the kernel wrote to a buffer.
    pub fn get(&self, id: u16, length: usize) -> &[u8] {
        &self.memory[usize::from(id) * BUFFER_BYTES..][..length]
    }

    /// Gives a buffer back; the kernel sees it after `publish`.
    pub fn put(&mut self, id: u16) {
        let index = usize::from(self.tail & (self.count - 1));
        let address = self.memory[usize::from(id) * BUFFER_BYTES..].as_mut_ptr() as u64;
        // SAFETY: `index` is below the count of entries in the mapping, and the kernel reads an entry only
        // after the tail has passed it.
        let entry = unsafe { &mut *self.entries.add(index) };
        entry.set_addr(address);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Shows the kernel what was given back.
    pub fn publish(&mut self) {
        // SAFETY: the tail lies in the first entry's reserved field, aligned and inside the mapping; both
        // sides access it atomically.
        let tail = unsafe { &*BufRingEntry::tail(self.entries).cast::<AtomicU16>() };
        tail.store(self.tail, Ordering::Release);
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length and nothing uses it any more: the ring that
        // shared it is gone, or this value is leaked instead of dropped.
        unsafe { libc::munmap(self.entries.cast(), self.entries_bytes) };
    }
}
