//! Why sampling is refused, and what would allow it.

use std::io;

use crate::ProfileError;

/// What cannot be sampled, and why.
pub fn target(what: impl std::fmt::Display, reason: &str) -> ProfileError {
    ProfileError::Target {
        what: what.to_string(),
        reason: reason.to_owned(),
    }
}

/// kernel.perf_event_paranoid.
pub fn paranoid() -> Option<i32> {
    std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// The kernel opens no event.
pub fn refused(error: &io::Error, whole_machine: bool) -> ProfileError {
    let level = paranoid();
    let (needed, allow) = if whole_machine { (0, "0") } else { (2, "1") };
    let reason = format!("perf_event_open says: {error}");
    let hint = match (error.raw_os_error(), level) {
        (Some(libc::EACCES | libc::EPERM), Some(level)) if level > needed && !is_root() => format!(
            "kernel.perf_event_paranoid is {level}: sysctl kernel.perf_event_paranoid={allow}, or run with \
             CAP_PERFMON"
        ),
        (Some(libc::EACCES | libc::EPERM), _) => {
            "the process is another user's, or a seccomp profile refuses perf_event_open, as containers' do: \
             allow it there and give CAP_PERFMON"
                .to_owned()
        }
        (Some(libc::ENOSYS), _) => "a kernel with CONFIG_PERF_EVENTS, and a seccomp profile that allows it".to_owned(),
        (Some(libc::EINVAL), _) => {
            "--hz must not be above kernel.perf_event_max_sample_rate".to_owned()
        }
        _ => "`steelyard doctor` tells what can be measured here".to_owned(),
    };
    ProfileError::Refused { reason, hint }
}

fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() == 0 }
}

/// This machine has no such event.
pub fn no_such_event(name: &str) -> ProfileError {
    ProfileError::Refused {
        reason: format!("the kernel offers no {name} here, as on virtual machines without counters"),
        hint: "`steelyard doctor` tells what can be measured here; cpu-clock and page-faults always can"
            .to_owned(),
    }
}

/// A file for each thread and CPU is more than is allowed.
pub fn too_many_files(threads: usize, cpus: usize) -> ProfileError {
    ProfileError::Refused {
        reason: format!("{threads} threads on {cpus} CPUs need more open files than are allowed"),
        hint: "ulimit -n with more, or --all".to_owned(),
    }
}

/// The ring buffer cannot be mapped.
pub fn ring_error(error: &io::Error) -> ProfileError {
    ProfileError::Refused {
        reason: format!("no memory for the ring buffer: {error}"),
        hint: "sysctl kernel.perf_event_mlock_kb with more, or ulimit -l".to_owned(),
    }
}
