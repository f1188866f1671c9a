//! Whether the machine leaves room for a server: a server that would be killed half full is refused at its
//! start, and one that could not hold its connections holds fewer.

use std::fs;
use std::path::{Path, PathBuf};

/// Limits at least this large mean "unlimited" in cgroup v1.
const UNLIMITED_BYTES: u64 = 1 << 60;

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
    match least_limit(Path::new("/")) {
        Some((allowed_bytes, source_path)) if resident_bytes(memory_bytes) > allowed_bytes => {
            Err(CgroupTooSmall {
                memory_bytes,
                allowed_bytes,
                source_path,
            })
        }
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

/// Refuses a server that is about to fill more memory than is available. Where the kernel does not tell, it may try.
pub fn check_available(wanted_bytes: u64) -> Result<(), TooLittleMemory> {
    match available_bytes(Path::new("/")) {
        Some(available_bytes) if wanted_bytes > available_bytes => Err(TooLittleMemory {
            wanted_bytes,
            available_bytes,
        }),
        _ => Ok(()),
    }
}

/// MemAvailable. Source: proc(5).
fn available_bytes(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
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

/// The least memory limit of this process's cgroups and their parents, v1 or v2, below `root`.
fn least_limit(root: &Path) -> Option<(u64, PathBuf)> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mut least = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else {
            continue;
        };
        let (bases, file): (&[&str], _) = match controllers {
            "" => (&["sys/fs/cgroup", "sys/fs/cgroup/unified"], "memory.max"),
            names if names.split(',').any(|name| name == "memory") => {
                (&["sys/fs/cgroup/memory"], "memory.limit_in_bytes")
            }
            _ => continue,
        };
        for base in bases {
            let base = root.join(base);
            let folder = base.join(group.trim_start_matches('/'));
            // In a container the path may be the host's while the mount shows only our own group.
            let folder = if folder.is_dir() {
                folder
            } else {
                base.clone()
            };
            for folder in folder
                .ancestors()
                .take_while(|folder| folder.starts_with(&base))
            {
                let path = folder.join(file);
                let limit = fs::read_to_string(&path)
                    .ok()
                    .and_then(|text| text.trim().parse::<u64>().ok());
                if let Some(limit) = limit.filter(|&limit| limit < UNLIMITED_BYTES)
                    && least.as_ref().is_none_or(|(other, _)| limit < *other)
                {
                    least = Some((limit, path));
                }
            }
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn limit(files: &[(&str, &str)]) -> Option<u64> {
        least_limit(tree(files).path()).map(|(limit, _)| limit)
    }

    #[test]
    fn version_2_takes_the_least_of_the_ancestors() {
        let files = [
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/memory.max", "1000\n"),
        ];
        assert_eq!(limit(&files), Some(1000));
    }

    #[test]
    fn version_1_has_its_own_mount_and_its_own_unlimited() {
        let files = [
            ("proc/self/cgroup", "5:cpu:/x\n4:memory:/c\n0::/\n"),
            (
                "sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            ("sys/fs/cgroup/memory/c/memory.limit_in_bytes", "2000\n"),
        ];
        assert_eq!(limit(&files), Some(2000));
        assert_eq!(limit(&files[..2]), None);
    }

    #[test]
    fn available_memory_is_what_the_kernel_says() {
        let root = tree(&[("proc/meminfo", "MemTotal:  100 kB\nMemAvailable:   50 kB\n")]);
        assert_eq!(available_bytes(root.path()), Some(51_200));
        assert_eq!(available_bytes(tree(&[]).path()), None);
        let error = check_available(u64::MAX).unwrap_err().to_string();
        assert!(error.contains("do not fit"), "{error}");
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_top() {
        let files = [
            ("proc/self/cgroup", "0::/host/path\n"),
            ("sys/fs/cgroup/memory.max", "3000\n"),
        ];
        assert_eq!(limit(&files), Some(3000));
        assert_eq!(limit(&[]), None);
    }
}
