//! SIGINT, SIGTERM and SIGHUP as something to wait for: a recording that is asked to end writes what it has.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::ProfileError;

const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The error of the system call that has just failed.
pub fn system(what: &'static str) -> ProfileError {
    ProfileError::System {
        what,
        source: std::io::Error::last_os_error(),
    }
}

fn set() -> libc::sigset_t {
    // SAFETY: sigset_t is plain integers; sigemptyset then makes it a valid set, and the signals exist.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in SIGNALS {
            libc::sigaddset(&mut set, signal);
        }
        set
    }
}

/// Lets the signals be delivered again; for a child between fork and exec.
pub fn unblock() -> std::io::Result<()> {
    // SAFETY: the set is initialised, and the old mask is not asked for.
    match unsafe { libc::sigprocmask(libc::SIG_UNBLOCK, &set(), std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// The signals, blocked and readable.
pub struct Signals(File);

impl Signals {
    /// Blocks the signals in the calling thread and those it starts later; they stay blocked.
    pub fn block() -> Result<Self, ProfileError> {
        let set = set();
        // SAFETY: the set is initialised, and the old mask is not asked for.
        if unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) } != 0 {
            return Err(system("block signals"));
        }
        // SAFETY: the set is initialised; -1 asks for a new descriptor.
        let descriptor =
            unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if descriptor < 0 {
            return Err(system("wait for signals"));
        }
        // SAFETY: the kernel has just returned this descriptor, so that nothing else owns it.
        Ok(Self(unsafe { File::from_raw_fd(descriptor) }))
    }

    /// To be polled.
    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Whether one has come.
    pub fn has_come(&mut self) -> bool {
        let mut info = [0; size_of::<libc::signalfd_siginfo>()];
        self.0.read(&mut info).is_ok_and(|read| read > 0)
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
