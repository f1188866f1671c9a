//! Whether the machine leaves room for a server: a server that would be killed half full is refused at its
//! start, and one that could not hold its connections holds fewer.

use std::path::PathBuf;

use steelyard_kernel::cgroup::memory_limits;
use steelyard_kernel::{Tree, meminfo};

/// Descriptors that a server needs besides its connections.
const OTHER_DESCRIPTORS: u64 = 64;

/// What a full server may have resident: its memory limit and a tenth for everything else.
fn resident_bytes(memory_bytes: u64) -> u64 {
    memory_bytes.saturating_add(memory_bytes / 10)
}

/// The cgroup would kill the server before its memory is full.
#[derive(Debug, thiserror::Error)]
#[error(
    "a memory limit of {memory_bytes} bytes and a tenth for the process do not fit into the {allowed_bytes} bytes that {source_path} allows"
)]
pub struct CgroupTooSmall {
    /// What was asked for.
    pub memory_bytes: u64,
    /// What the cgroup allows.
    pub allowed_bytes: u64,
    /// Where that stands.
    pub source_path: PathBuf,
}

/// Refuses a server whose memory does not fit into what the cgroup of this process allows.
pub fn check_cgroup(memory_bytes: u64) -> Result<(), CgroupTooSmall> {
    let limits = memory_limits(&Tree::new("/")).into_iter();
    match limits.min_by_key(|limit| limit.bytes) {
        Some(least) if resident_bytes(memory_bytes) > least.bytes => Err(CgroupTooSmall {
            memory_bytes,
            allowed_bytes: least.bytes,
            source_path: least.path,
        }),
        _ => Ok(()),
    }
}

/// The machine has less memory than a server is about to fill.
#[derive(Debug, thiserror::Error)]
#[error("{wanted_bytes} bytes of tables do not fit into the {available_bytes} that are available")]
pub struct TooLittleMemory {
    /// What the server is about to fill.
    pub wanted_bytes: u64,
    /// What the kernel says it can give.
    pub available_bytes: u64,
}

/// Refuses a server that is about to fill more memory than is available. Where the kernel does not report it, the server may try.
pub fn check_available(wanted_bytes: u64) -> Result<(), TooLittleMemory> {
    match available_bytes(&Tree::new("/")) {
        Some(available_bytes) if wanted_bytes > available_bytes => Err(TooLittleMemory {
            wanted_bytes,
            available_bytes,
        }),
        _ => Ok(()),
    }
}

fn available_bytes(tree: &Tree) -> Option<u64> {
    meminfo::value(&tree.text("proc/meminfo").ok()?, "MemAvailable")
}

/// Raises the limit on open files as far as is needed and allowed; the connections that it permits.
pub fn allow_connections(wanted: usize) -> usize {
    let needed = wanted as u64 + OTHER_DESCRIPTORS;
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for both calls, which keep no pointer to it.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) != 0 || limit.rlim_cur >= needed {
            return wanted;
        }
        limit.rlim_cur = needed.min(limit.rlim_max);
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
    }
    let allowed = limit.rlim_cur.saturating_sub(OTHER_DESCRIPTORS) as usize;
    if allowed < wanted {
        tracing::warn!(
            "the limit on open files (ulimit -n) permits {allowed} connections, not {wanted}"
        );
    }
    allowed.clamp(1, wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_what_the_kernel_says() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::new(root.path());
        assert_eq!(available_bytes(&tree), None);
        std::fs::create_dir(root.path().join("proc")).unwrap();
        let text = "MemTotal:  100 kB\nMemAvailable:   50 kB\n";
        std::fs::write(root.path().join("proc/meminfo"), text).unwrap();
        assert_eq!(available_bytes(&tree), Some(51_200));
        let error = check_available(u64::MAX).unwrap_err().to_string();
        assert!(error.contains("do not fit"), "{error}");
    }
}
