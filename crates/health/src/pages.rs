//! Memory with chosen pages on a chosen NUMA node, and what the kernel made of the wish.

use std::fs;
use std::ptr::NonNull;

use crate::error::HealthError;

/// What pages to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// No huge pages.
    Base,
    /// Transparent huge pages.
    Huge,
}

impl Pages {
    /// The word in the record.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Huge => "huge",
        }
    }
}

/// Largest transparent huge page of common machines; regions start on a multiple of it.
const HUGE_BYTES: usize = 2 << 20;
const MPOL_BIND: libc::c_int = 2;
const MPOL_F_NODE: libc::c_ulong = 1;
const MPOL_F_ADDR: libc::c_ulong = 2;

/// Anonymous memory, unmapped when dropped. Its pages are given by the first touch.
pub(crate) struct Region {
    base: NonNull<libc::c_void>,
    mapped: usize,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a region is plain memory owned by whoever holds it; nothing in it is tied to a thread.
unsafe impl Send for Region {}
// SAFETY: shared references give no access to the contents but through raw pointers, whose users answer for it.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `bytes` with the wanted pages, bound to `node` where one is given.
    pub(crate) fn new(bytes: usize, pages: Pages, node: Option<u32>) -> Result<Self, HealthError> {
        let mapped = bytes + HUGE_BYTES;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches nothing of ours.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(HealthError::last(format!("{bytes} bytes of memory")));
        }
        let base = NonNull::new(base).expect("mmap gives no null");
        let skip = base.cast::<u8>().as_ptr().align_offset(HUGE_BYTES);
        // SAFETY: `skip` is less than the HUGE_BYTES by which the mapping is larger than `bytes`.
        let start = unsafe { base.cast::<u8>().add(skip) };
        let region = Self {
            base,
            mapped,
            start,
            bytes,
        };
        let advice = match pages {
            Pages::Base => libc::MADV_NOHUGEPAGE,
            Pages::Huge => libc::MADV_HUGEPAGE,
        };
        // A kernel without huge pages refuses either advice, which then changes nothing; what it made of the
        // wish is looked up afterwards (`huge_ratio`).
        // SAFETY: the range is the mapping made above.
        unsafe { libc::madvise(base.as_ptr(), mapped, advice) };
        if let Some(node) = node {
            region.bind(node)?;
        }
        Ok(region)
    }

    fn bind(&self, node: u32) -> Result<(), HealthError> {
        let mut mask = vec![0u64; node as usize / 64 + 1];
        mask[node as usize / 64] |= 1 << (node % 64);
        // mbind(2) uses maxnode - 1 bits.
        let bits = mask.len() * 64 + 1;
        // SAFETY: the range is our mapping and the mask has the bits that its length says.
        let status = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.base.as_ptr(),
                self.mapped,
                MPOL_BIND,
                mask.as_ptr(),
                bits,
                0,
            )
        };
        if status == 0 {
            return Ok(());
        }
        let error = std::io::Error::last_os_error();
        Err(HealthError::Unavailable(format!(
            "memory cannot be bound to node {node}: mbind: {error}"
        )))
    }

    /// First byte.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Size.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes to every page of the first `bytes`, so that the kernel gives them.
    pub(crate) fn touch(&self, bytes: usize) {
        for at in (0..bytes.min(self.bytes)).step_by(4096) {
            // SAFETY: `at` is inside the region.
            unsafe { self.start().add(at).write_volatile(0) };
        }
    }

    /// Share of the region that huge pages hold, none when the kernel does not report it.
    pub(crate) fn huge_ratio(&self) -> Option<f64> {
        let text = fs::read_to_string("/proc/self/smaps").ok()?;
        let start = self.start() as u64;
        huge_bytes(&text, start, start + self.bytes as u64)
            .map(|huge| (huge as f64 / self.bytes as f64).min(1.0))
    }

    /// The node that holds the page at `offset`, none when the kernel does not report it.
    pub(crate) fn node_of(&self, offset: usize) -> Option<u32> {
        let mut node: libc::c_int = -1;
        // SAFETY: the kernel writes one int; no mask is asked for; the address is only looked up.
        let status = unsafe {
            libc::syscall(
                libc::SYS_get_mempolicy,
                &raw mut node,
                std::ptr::null_mut::<u64>(),
                0,
                self.start().add(offset.min(self.bytes - 1)),
                MPOL_F_NODE | MPOL_F_ADDR,
            )
        };
        (status == 0)
            .then_some(node)
            .and_then(|node| node.try_into().ok())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` and nobody holds a reference into it.
        unsafe { libc::munmap(self.base.as_ptr(), self.mapped) };
    }
}

/// Bytes in huge pages of the mappings of an smaps text that lie between two addresses. The kernel may have
/// joined a region with its neighbours, so that a mapping counts by its overlap at most.
fn huge_bytes(smaps: &str, first: u64, last: u64) -> Option<u64> {
    let mut overlap = 0;
    let mut found = None;
    for line in smaps.lines() {
        let mut words = line.split_whitespace();
        let head = words.next().unwrap_or_default();
        if let Some((from, to)) = head.split_once('-')
            && let (Ok(from), Ok(to)) = (u64::from_str_radix(from, 16), u64::from_str_radix(to, 16))
        {
            overlap = to.min(last).saturating_sub(from.max(first));
        } else if head == "AnonHugePages:" && overlap > 0 {
            let kibibytes: u64 = words.next()?.parse().ok()?;
            *found.get_or_insert(0) += (kibibytes << 10).min(overlap);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_count_by_their_overlap() {
        let text = "1000-5000 rw-p 0 00:00 0\nRss: 4 kB\nAnonHugePages: 8 kB\n\
                    5000-9000 rw-p 0 00:00 0\nAnonHugePages: 16 kB\nVmFlags: rd wr\n";
        assert_eq!(huge_bytes(text, 0x1000, 0x5000), Some(8192));
        assert_eq!(huge_bytes(text, 0x5000, 0x6000), Some(4096));
        assert_eq!(huge_bytes(text, 0x1000, 0x9000), Some(8192 + 16384));
        assert_eq!(huge_bytes(text, 0xa000, 0xb000), None);
        assert_eq!(huge_bytes("AnonHugePages: x kB", 0, 1), None);
    }

    #[test]
    fn a_region_is_aligned_and_has_the_pages_that_were_asked_for() {
        let region = Region::new(4 << 20, Pages::Base, None).expect("4 MiB");
        assert_eq!(region.start() as usize % HUGE_BYTES, 0);
        region.touch(region.bytes());
        assert_eq!(region.huge_ratio(), Some(0.0));
        // A kernel that was built without NUMA does not tell the node.
        assert!(region.node_of(0).is_none_or(|node| node < 1024));
    }

    #[test]
    fn a_node_that_does_not_exist_is_a_reason() {
        let error = Region::new(4096, Pages::Base, Some(1023))
            .err()
            .expect("refused");
        assert!(
            matches!(&error, HealthError::Unavailable(why) if why.contains("node 1023")),
            "{error}"
        );
    }
}
