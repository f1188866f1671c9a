//! A control group's CPU quota, read and written: version 1 (`cpu.cfs_quota_us`, `cpu.cfs_period_us`) and version 2 (`cpu.max`).
//!
//! In: the root of the hierarchies (injected) and a group's path below it. Out: the changes that a cap is made of, each with
//! the value before, and their writing.
//!
//! Invariants: only the knobs named in [`Knob`] are ever written, only in a directory below the root that was reached without
//! a symbolic link and without `..`; the directory stays open between reading and writing, so that what is written to is
//! what was looked at.
//!
//! Sources: Linux, Documentation/scheduler/sched-bwc.rst, Documentation/admin-guide/cgroup-v2.rst.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use steelyard_kernel::cgroup::Hierarchies;

/// The kernel's shortest quota, in microseconds.
const QUOTA_MIN_US: u64 = 1_000;
/// The kernel's longest period, in microseconds.
const PERIOD_MAX_US: u64 = 1_000_000;
/// The longest text of a knob: two numbers.
const TEXT_MAX: u64 = 128;

/// A file of a control group that a cap changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Knob {
    /// Version 1: microseconds of CPU time a period; -1 for no limit.
    #[serde(rename = "cpu.cfs_quota_us")]
    Quota,
    /// Version 1: the period in microseconds.
    #[serde(rename = "cpu.cfs_period_us")]
    Period,
    /// Version 1: microseconds that may be saved up; never more than the quota.
    #[serde(rename = "cpu.cfs_burst_us")]
    Burst,
    /// Version 2: quota (or `max`) and period.
    #[serde(rename = "cpu.max")]
    Max,
    /// Version 2: as `Burst`.
    #[serde(rename = "cpu.max.burst")]
    MaxBurst,
}

impl Knob {
    /// The file's name.
    pub fn file(self) -> &'static str {
        match self {
            Self::Quota => "cpu.cfs_quota_us",
            Self::Period => "cpu.cfs_period_us",
            Self::Burst => "cpu.cfs_burst_us",
            Self::Max => "cpu.max",
            Self::MaxBurst => "cpu.max.burst",
        }
    }
}

/// One value that is changed, and what it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The file.
    pub knob: Knob,
    /// Its text before.
    pub old: String,
    /// Its text while the cap lasts.
    pub new: String,
}

/// Version of the control group interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Version {
    /// One hierarchy for each controller.
    V1,
    /// One hierarchy.
    V2,
}

/// Why a quota cannot be read, changed or put back.
#[derive(Debug, thiserror::Error)]
pub enum QuotaError {
    /// No hierarchy with the CPU controller.
    #[error("no control groups with the CPU controller are mounted below {root}")]
    NoController {
        /// Where it was looked for.
        root: PathBuf,
    },
    /// A path of no control group below the root.
    #[error("{path:?} is not a path of a control group: {reason}")]
    Path {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The group is not there.
    #[error("control group {path:?} is gone")]
    Gone {
        /// The group.
        path: PathBuf,
    },
    /// The group has no quota.
    #[error("control group {path:?} has no {file}: the CPU controller is not enabled for it")]
    NoKnob {
        /// The group.
        path: PathBuf,
        /// The file.
        file: &'static str,
    },
    /// The kernel refused.
    #[error("{file} of {path:?}: {source}")]
    Io {
        /// The group.
        path: PathBuf,
        /// The file, or the directory.
        file: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A knob says what it cannot say.
    #[error("{file} of {path:?} says {text:?}")]
    Text {
        /// The group.
        path: PathBuf,
        /// The file.
        file: &'static str,
        /// Its text.
        text: String,
    },
}

/// The hierarchy with the CPU controller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hierarchy {
    /// Its root directory.
    pub root: PathBuf,
    /// Its version.
    pub version: Version,
}

impl Hierarchy {
    /// The hierarchy of this machine, or of the tree at `root` (`/` but for tests).
    pub fn find(root: &Path, mounted: &Hierarchies) -> Result<Self, QuotaError> {
        let none = || QuotaError::NoController {
            root: root.to_owned(),
        };
        let version = match mounted.version() {
            Some(1) => Version::V1,
            Some(_) => Version::V2,
            None => return Err(none()),
        };
        let folder = mounted.folder("cpu", "").ok_or_else(none)?;
        Ok(Self {
            root: root.join(folder),
            version,
        })
    }

    /// Opens the group at `path`, which is meant below the root even where it begins with a slash.
    pub fn open(&self, path: &Path) -> Result<Group, QuotaError> {
        let refused = |reason| QuotaError::Path {
            path: path.to_owned(),
            reason,
        };
        let failed = |source: io::Error| match source.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV) => QuotaError::Gone {
                path: path.to_owned(),
            },
            _ => QuotaError::Io {
                path: path.to_owned(),
                file: "directory",
                source,
            },
        };
        let mut directory =
            open_at(None, self.root.as_os_str().as_bytes(), true).map_err(failed)?;
        let mut depth = 0;
        for component in path.components() {
            let name = match component {
                Component::Normal(name) => name,
                Component::RootDir => continue,
                _ => return Err(refused("only names and slashes may stand in it")),
            };
            directory = open_at(Some(&directory), name.as_bytes(), false).map_err(failed)?;
            depth += 1;
        }
        if depth == 0 {
            return Err(refused("the root is never capped"));
        }
        let inode = File::from(directory.try_clone().map_err(failed)?)
            .metadata()
            .map_err(failed)?
            .ino();
        Ok(Group {
            directory,
            path: path.to_owned(),
            inode,
            version: self.version,
        })
    }
}

/// Opens a directory; below another, no symbolic link is followed.
fn open_at(below: Option<&OwnedFd>, name: &[u8], follow: bool) -> io::Result<OwnedFd> {
    let flags = libc::O_RDONLY
        | libc::O_DIRECTORY
        | libc::O_CLOEXEC
        | if follow { 0 } else { libc::O_NOFOLLOW };
    open_raw(below, name, flags)
}

fn open_raw(below: Option<&OwnedFd>, name: &[u8], flags: libc::c_int) -> io::Result<OwnedFd> {
    let name = CString::new(name)?;
    let at = below.map_or(libc::AT_FDCWD, AsRawFd::as_raw_fd);
    // SAFETY: `name` is a terminated string that outlives the call, and `at` is open or AT_FDCWD.
    let descriptor = unsafe { libc::openat(at, name.as_ptr(), flags) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was opened just now and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// How a group is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Microseconds of CPU time a period; None for no limit.
    pub quota_us: Option<u64>,
    /// The period in microseconds.
    pub period_us: u64,
    /// Microseconds that may be saved up; None where this kernel has no such thing.
    pub burst_us: Option<u64>,
}

/// An open control group.
#[derive(Debug)]
pub struct Group {
    directory: OwnedFd,
    path: PathBuf,
    inode: u64,
    version: Version,
}

impl Group {
    /// Its path below the hierarchy's root.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory's inode: a group that was removed and made again has another.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// The text of a knob, without white space around and between; None where this kernel has no such knob.
    pub fn read(&self, knob: Knob) -> Result<Option<String>, QuotaError> {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        let file = match open_raw(Some(&self.directory), knob.file().as_bytes(), flags) {
            Ok(file) => File::from(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed(knob, error)),
        };
        let mut text = String::new();
        file.take(TEXT_MAX)
            .read_to_string(&mut text)
            .map_err(|error| self.failed(knob, error))?;
        Ok(Some(text.split_whitespace().collect::<Vec<_>>().join(" ")))
    }

    /// Writes a knob, in one call, as the kernel wants it.
    pub fn write(&self, knob: Knob, text: &str) -> Result<(), QuotaError> {
        let flags = libc::O_WRONLY | libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_TRUNC;
        let mut file = open_raw(Some(&self.directory), knob.file().as_bytes(), flags)
            .map(File::from)
            .map_err(|error| self.failed(knob, error))?;
        file.write_all(text.as_bytes())
            .map_err(|error| self.failed(knob, error))
    }

    fn failed(&self, knob: Knob, source: io::Error) -> QuotaError {
        match source.raw_os_error() {
            // What an open directory's files say after the group was removed.
            Some(libc::ENOENT | libc::ENODEV) => QuotaError::Gone {
                path: self.path.clone(),
            },
            _ => QuotaError::Io {
                path: self.path.clone(),
                file: knob.file(),
                source,
            },
        }
    }

    /// How the group is limited now.
    pub fn limit(&self) -> Result<Limit, QuotaError> {
        let required = |knob: Knob| {
            self.read(knob)?.ok_or_else(|| QuotaError::NoKnob {
                path: self.path.clone(),
                file: knob.file(),
            })
        };
        let wrong = |knob: Knob, text: &str| QuotaError::Text {
            path: self.path.clone(),
            file: knob.file(),
            text: text.to_owned(),
        };
        let number = |knob: Knob, text: &str| text.parse::<u64>().map_err(|_| wrong(knob, text));
        let (quota_us, period_us, burst) = match self.version {
            Version::V1 => {
                let (quota, period) = (required(Knob::Quota)?, required(Knob::Period)?);
                let quota_us = match quota.as_str() {
                    "-1" => None,
                    text => Some(number(Knob::Quota, text)?),
                };
                (quota_us, number(Knob::Period, &period)?, Knob::Burst)
            }
            Version::V2 => {
                let text = required(Knob::Max)?;
                let (quota, period) = text
                    .split_once(' ')
                    .ok_or_else(|| wrong(Knob::Max, &text))?;
                let quota_us = match quota {
                    "max" => None,
                    text => Some(number(Knob::Max, text)?),
                };
                (quota_us, number(Knob::Max, period)?, Knob::MaxBurst)
            }
        };
        if period_us == 0 {
            return Err(wrong(Knob::Period, "0"));
        }
        let burst_us = match self.read(burst)? {
            Some(text) => Some(number(burst, &text)?),
            None => None,
        };
        Ok(Limit {
            quota_us,
            period_us,
            burst_us,
        })
    }

    /// The changes that leave this group `cpu_ratio` CPU-s/s, in the order in which they are made; none where it already has
    /// no more. Taken back in the opposite order, the limit is never tighter on the way than at one of the two ends.
    pub fn plan(&self, cpu_ratio: f64) -> Result<Vec<Change>, QuotaError> {
        let limit = self.limit()?;
        if limit
            .quota_us
            .is_some_and(|quota| quota as f64 <= cpu_ratio * limit.period_us as f64)
        {
            return Ok(Vec::new());
        }
        Ok(changes(self.version, limit, cpu_ratio))
    }
}

fn changes(version: Version, limit: Limit, cpu_ratio: f64) -> Vec<Change> {
    // A quota below the kernel's shortest needs a longer period.
    let needed_us = (QUOTA_MIN_US as f64 / cpu_ratio).ceil() as u64;
    let period_us = limit.period_us.max(needed_us).min(PERIOD_MAX_US);
    let quota_us = ((cpu_ratio * period_us as f64).round() as u64).max(QUOTA_MIN_US);
    let change = |knob, old: String, new: String| (old != new).then_some(Change { knob, old, new });
    let burst = |knob| {
        let old = limit.burst_us.filter(|&burst| burst > quota_us)?;
        change(knob, old.to_string(), "0".into())
    };
    let parts = match version {
        Version::V1 => [
            burst(Knob::Burst),
            change(
                Knob::Period,
                limit.period_us.to_string(),
                period_us.to_string(),
            ),
            change(
                Knob::Quota,
                limit
                    .quota_us
                    .map_or("-1".into(), |quota| quota.to_string()),
                quota_us.to_string(),
            ),
        ],
        Version::V2 => [
            burst(Knob::MaxBurst),
            change(
                Knob::Max,
                format!(
                    "{} {}",
                    limit
                        .quota_us
                        .map_or("max".into(), |quota| quota.to_string()),
                    limit.period_us
                ),
                format!("{quota_us} {period_us}"),
            ),
            None,
        ],
    };
    parts.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests;
