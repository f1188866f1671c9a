//! Bytes at a known place within a page.
//!
//! Where the allocator puts a buffer decides whether two buffers alias (equal low twelve bits of the address) or a
//! small one straddles cache lines; that made whole runs differ by a factor of two to three (docs/journal/0066). Here
//! the place is part of the benchmark.

use std::ops::{Deref, DerefMut};

const PAGE: usize = 4096;

/// Bytes that begin at a given offset in a page.
pub struct Buffer {
    storage: Vec<u8>,
    begin: usize,
    bytes: usize,
}

impl Buffer {
    /// `bytes` zeros that begin `offset` bytes after the beginning of a page.
    pub fn zeroed(bytes: usize, offset: usize) -> Self {
        let storage = vec![0; bytes + 2 * PAGE];
        let address = storage.as_ptr() as usize;
        let begin = address.next_multiple_of(PAGE) - address + offset % PAGE;
        Self {
            storage,
            begin,
            bytes,
        }
    }

    /// A copy of `content` that begins `offset` bytes after the beginning of a page.
    pub fn copy(content: &[u8], offset: usize) -> Self {
        let mut buffer = Self::zeroed(content.len(), offset);
        buffer.copy_from_slice(content);
        buffer
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.storage[self.begin..self.begin + self.bytes]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.begin..self.begin + self.bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_begins_at_its_offset() {
        for (bytes, offset) in [(1, 0), (100, 64), (16_384, 2048), (5, 4095)] {
            let buffer = Buffer::copy(&vec![7; bytes], offset);
            assert_eq!(buffer.as_ptr() as usize % PAGE, offset);
            assert!(buffer.len() == bytes && buffer.iter().all(|&byte| byte == 7));
        }
    }
}
