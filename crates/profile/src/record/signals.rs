//! What a recording waits for besides samples, as descriptors.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use crate::ProfileError;

/// The error of the system call that has just failed.
pub fn system(what: &'static str) -> ProfileError {
    ProfileError::System {
        what,
        source: std::io::Error::last_os_error(),
    }
}

/// A descriptor that becomes readable when the process ends.
pub fn process_end(pid: u32) -> Option<OwnedFd> {
    // SAFETY: pidfd_open takes two integers.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    if descriptor < 0 {
        return None;
    }
    // SAFETY: the kernel has just returned this descriptor, so that nothing else owns it.
    Some(unsafe { OwnedFd::from_raw_fd(descriptor as RawFd) })
}
