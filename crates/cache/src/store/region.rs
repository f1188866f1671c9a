//! Memory straight from the kernel: reserved whole, resident only where it was written, given back on request.
//!
//! Invariant: the mapping is private, anonymous and read-write for the region's whole life, so that every
//! byte of it is initialised (zero until written). Not here: what the bytes mean.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

const PAGE_BYTES: usize = 4096;

/// A private anonymous mapping.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the region owns its mapping alone; a raw pointer only hides that from the compiler.
unsafe impl Send for Region {}
// SAFETY: shared access through `Deref` only reads.
unsafe impl Sync for Region {}

impl Region {
    /// Reserves `length` bytes of address space; pages become resident as they are written.
    pub fn reserve(length: usize) -> io::Result<Self> {
        let length = length.max(1).next_multiple_of(PAGE_BYTES);
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches nothing of ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast::<u8>()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { start, length })
    }

    /// Gives the whole pages inside `from..to` back to the kernel; they read as zero afterwards.
    pub fn release(&mut self, from: usize, to: usize) {
        let from = from.next_multiple_of(PAGE_BYTES);
        let to = to.min(self.length) / PAGE_BYTES * PAGE_BYTES;
        if from < to {
            // SAFETY: the range lies inside the mapping, and `&mut self` shows that nobody borrows it.
            // A failure leaves the pages as they were, which costs memory but breaks nothing.
            unsafe {
                libc::madvise(
                    self.start.as_ptr().add(from).cast(),
                    to - from,
                    libc::MADV_DONTNEED,
                );
            }
        }
    }
}

impl Deref for Region {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is readable, initialised and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `reserve` with this length and is not used again.
        unsafe {
            libc::munmap(self.start.as_ptr().cast(), self.length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_is_written_and_forgets_what_is_released() {
        let mut region = Region::reserve(5 * PAGE_BYTES - 1).unwrap();
        assert_eq!(region.len(), 5 * PAGE_BYTES);
        region.fill(7);
        region.release(PAGE_BYTES + 1, 4 * PAGE_BYTES - 1);
        assert!(region[..2 * PAGE_BYTES].iter().all(|&byte| byte == 7));
        assert!(
            region[2 * PAGE_BYTES..3 * PAGE_BYTES]
                .iter()
                .all(|&byte| byte == 0)
        );
        assert!(region[3 * PAGE_BYTES..].iter().all(|&byte| byte == 7));
    }
}
