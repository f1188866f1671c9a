//! The signals that end a server, as a descriptor that an event loop can wait for.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Blocks SIGINT and SIGTERM and returns a descriptor that becomes readable when one comes.
pub fn block_signals() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by sigemptyset before it is used, and outlives the calls.
    let raw = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGINT);
        libc::sigaddset(&mut set, libc::SIGTERM);
        let status = libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        if status != 0 {
            return Err(io::Error::from_raw_os_error(status));
        }
        libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}
