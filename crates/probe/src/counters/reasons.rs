//! Why something cannot be counted, and what to change.
//!
//! In: what the kernel said, and of what. Out: one sentence with the setting that would help.
//! Source: perf_event_open(2), ERRORS; Documentation/admin-guide/sysctl/kernel.rst, perf_event_paranoid.

use std::io;

use super::kernel::Kernel;
use super::pmu::Pmu;
use super::pmu::SOFTWARE;
use steelyard_kernel::Tree;
use steelyard_kernel::scan::signed_number;

/// What a scope needs of the user who is not root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Whatever runs on a CPU: kernel.perf_event_paranoid at most 0.
    Cpus,
    /// The kernel's part of a user's own process: at most 1.
    OwnKernel,
    /// User mode of a user's own process: at most 2.
    OwnUser,
}

impl Need {
    fn most(self) -> i64 {
        match self {
            Self::Cpus => 0,
            Self::OwnKernel => 1,
            Self::OwnUser => 2,
        }
    }
}

/// Why the kernel refused to count at all.
pub fn refused(error: &io::Error, need: Need, tree: &Tree, kernel: &dyn Kernel) -> String {
    let level = tree
        .text("proc/sys/kernel/perf_event_paranoid")
        .ok()
        .and_then(|text| signed_number(&text));
    let most = need.most();
    match (error.raw_os_error(), level) {
        (Some(libc::EACCES | libc::EPERM), Some(level)) if level > most && !kernel.is_root() => {
            format!(
                "kernel.perf_event_paranoid is {level}, and this user has no CAP_PERFMON: sysctl \
                 kernel.perf_event_paranoid={most}, or give the probe CAP_PERFMON"
            )
        }
        (Some(libc::EACCES | libc::EPERM), _) => {
            "not allowed: the process is another user's, or a container's seccomp profile or missing \
             CAP_PERFMON refuses perf_event_open"
                .to_owned()
        }
        (Some(libc::ENOSYS), _) => {
            "the kernel has no perf_event_open (CONFIG_PERF_EVENTS), or a seccomp profile hides it, as \
             containers' do"
                .to_owned()
        }
        (Some(libc::EMFILE | libc::ENFILE), _) => format!(
            "more files are needed than may be open, {}: raise the hard limit (ulimit -Hn) or count \
             fewer events, groups or processes",
            kernel.raise_file_limit()
        ),
        _ => format!("the kernel says: {error}"),
    }
}

/// Why the kernel refused one event.
pub fn event_refused(
    error: &io::Error,
    pmu: &Pmu,
    need: Need,
    tree: &Tree,
    kernel: &dyn Kernel,
) -> String {
    let hardware = pmu.type_ != SOFTWARE;
    match error.raw_os_error() {
        Some(libc::ENOENT) if hardware => format!(
            "PMU {} does not count it: this CPU has no such event, or the machine has no hardware \
             counters, as virtual machines often have none",
            pmu.name
        ),
        Some(libc::ENOENT) => "this kernel has no such event".to_owned(),
        Some(libc::EINVAL) => format!(
            "PMU {} refuses it: it has no such event, mode or term",
            pmu.name
        ),
        Some(libc::EOPNOTSUPP) => {
            format!("PMU {} does not count it in this scope or mode", pmu.name)
        }
        Some(libc::ENODEV | libc::ENXIO) => format!("PMU {} has disappeared", pmu.name),
        Some(libc::EBUSY) => "another program has exclusive use of the counter".to_owned(),
        _ => refused(error, need, tree, kernel),
    }
}

/// Whether `error` concerns the event and not whose work is counted.
pub fn is_of_event(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOENT | libc::EINVAL | libc::EOPNOTSUPP | libc::EBUSY | libc::ENOSPC)
    )
}
