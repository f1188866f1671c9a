//! Why there is no score, or no part of one.

use std::borrow::Cow;
use std::fmt;
use std::io;

/// The reason why something is missing, in words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Missing(Cow<'static, str>);

impl std::error::Error for Missing {}

impl fmt::Display for Missing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Missing {
    /// C has no shares.
    pub const NO_CPU_TIME: Self =
        Self::fixed("it has not run: without CPU time its memory has no weights");
    /// M has no shares.
    pub const NO_MEMORY: Self = Self::fixed("it has no memory on any node (a zombie, or exiting)");
    /// Kernel threads have no memory of their own.
    pub const KERNEL_THREAD: Self = Self::fixed("a kernel thread: it has no memory of its own");
    /// Another user's process.
    pub const NOT_PERMITTED: Self =
        Self::fixed("another user's process: run as root, or with CAP_SYS_PTRACE");
    /// A process that not even root may look into.
    pub const REFUSED_TO_ROOT: Self = Self::fixed(
        "refused even to root: CAP_SYS_PTRACE is missing, as in containers, or the process is guarded",
    );
    /// A process that was named and has gone.
    pub const ENDED: Self = Self::fixed("it has ended");
    /// A kernel without CONFIG_NUMA.
    pub const NO_NUMA_MAPS: Self =
        Self::fixed("/proc has no numa_maps (a kernel without CONFIG_NUMA, or a recorded tree)");
    /// A group whose memory is not accounted.
    pub const NO_MEMORY_CONTROLLER: Self =
        Self::fixed("the group has no memory.numa_stat: the memory controller does not cover it");
    /// A group with neither accounting nor members.
    pub const NO_GROUP: Self = Self::fixed("no such control group");

    /// A reason that is known beforehand.
    pub const fn fixed(reason: &'static str) -> Self {
        Self(Cow::Borrowed(reason))
    }

    /// A reason specific to this machine.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(Cow::Owned(reason.into()))
    }

    /// Why a file of a process cannot be read.
    pub fn of_process(file: &str, error: &io::Error) -> Self {
        match (error.kind(), error.raw_os_error()) {
            (io::ErrorKind::PermissionDenied, _) | (_, Some(libc::EPERM)) => Self::not_permitted(),
            // ESRCH: the file was open when the process ended.
            (io::ErrorKind::NotFound, _) | (_, Some(libc::ESRCH)) => Self::ENDED,
            _ => Self::new(format!("{file}: {error}")),
        }
    }

    /// Why a process may not be looked into, given who asks.
    fn not_permitted() -> Self {
        // SAFETY: geteuid has no preconditions.
        match unsafe { libc::geteuid() } {
            0 => Self::REFUSED_TO_ROOT,
            _ => Self::NOT_PERMITTED,
        }
    }
}
