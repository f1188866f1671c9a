//! The ring buffer that the kernel writes one CPU's records into.
//!
//! Source: perf_event_open(2), "MMAP layout". The kernel writes ahead of `data_head`, which it advances; what
//! lies between `data_tail`, which is ours, and `data_head` is whole records.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::perf_event_mmap_page;

/// A mapped ring buffer.
pub struct Ring {
    page: *mut perf_event_mmap_page,
    mapped_bytes: usize,
    data_bytes: usize,
    page_bytes: usize,
    scratch: Vec<u8>,
}

// SAFETY: the mapping belongs to the ring alone, and nothing in it is tied to a thread.
unsafe impl Send for Ring {}

/// Pages that are tried: what an unprivileged user may lock is 516 KiB a CPU by default.
const PAGES: [usize; 8] = [2048, 1024, 512, 256, 128, 64, 16, 8];
/// Pages of a ring of which nothing more is known.
const LEAST_PAGES: usize = 128;

impl Ring {
    /// Maps the ring of an event, of `wanted_bytes` if they may be had.
    pub fn map(descriptor: RawFd, wanted_bytes: usize) -> std::io::Result<Self> {
        // SAFETY: sysconf has no preconditions.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let mut last = std::io::Error::from(std::io::ErrorKind::Unsupported);
        let most = wanted_bytes.div_ceil(page_bytes).max(LEAST_PAGES);
        for pages in PAGES.into_iter().filter(|&pages| pages < 2 * most) {
            let mapped_bytes = (pages + 1) * page_bytes;
            // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
            let address = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    mapped_bytes,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_SHARED,
                    descriptor,
                    0,
                )
            };
            if address != libc::MAP_FAILED {
                return Ok(Self {
                    page: address.cast(),
                    mapped_bytes,
                    data_bytes: pages * page_bytes,
                    page_bytes,
                    scratch: Vec::new(),
                });
            }
            last = std::io::Error::last_os_error();
            if !matches!(last.raw_os_error(), Some(libc::EPERM | libc::ENOMEM)) {
                break;
            }
        }
        Err(last)
    }

    /// Gives every record that has come since the last time to `give`: type, misc, body.
    pub fn drain(&mut self, mut give: impl FnMut(u32, u16, &[u8])) {
        // SAFETY: `page` is mapped as long as the ring lives, and both counters are aligned; the kernel
        // changes them concurrently, hence atomics.
        let (head, tail_place) = unsafe {
            (
                AtomicU64::from_ptr(&raw mut (*self.page).data_head).load(Ordering::Acquire),
                AtomicU64::from_ptr(&raw mut (*self.page).data_tail),
            )
        };
        let tail = tail_place.load(Ordering::Relaxed);
        let length = head.wrapping_sub(tail).min(self.data_bytes as u64) as usize;
        if length == 0 {
            return;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        // SAFETY: the data area of `data_bytes` follows the first page, and its size is a power of two, so
        // that both parts lie within it; the kernel does not write between tail and head.
        unsafe {
            let data = self.page.cast::<u8>().add(self.page_bytes);
            let start = (tail % self.data_bytes as u64) as usize;
            let first = length.min(self.data_bytes - start);
            scratch.extend_from_slice(std::slice::from_raw_parts(data.add(start), first));
            scratch.extend_from_slice(std::slice::from_raw_parts(data, length - first));
        }
        tail_place.store(head, Ordering::Release);
        let mut rest = scratch.as_slice();
        while let Some((header, _)) = rest.split_first_chunk::<8>() {
            let kind = u32::from_le_bytes(header[..4].try_into().expect("4 bytes"));
            let misc = u16::from_le_bytes(header[4..6].try_into().expect("2 bytes"));
            let size = usize::from(u16::from_le_bytes(header[6..].try_into().expect("2 bytes")));
            let Some(record) = (size >= 8).then(|| rest.get(..size)).flatten() else {
                break;
            };
            give(kind, misc, &record[8..]);
            rest = &rest[size..];
        }
        self.scratch = scratch;
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this size and nothing refers to it any more.
        unsafe { libc::munmap(self.page.cast(), self.mapped_bytes) };
    }
}
