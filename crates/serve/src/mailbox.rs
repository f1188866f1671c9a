//! What other threads hand to a thread that waits in epoll or io_uring.
//!
//! Invariant: after a post the owner's eventfd is readable until it has taken what was posted; a burst of
//! posts costs one write.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::atomic::{
    AtomicBool,
    Ordering::{AcqRel, Release},
};
use std::sync::{Mutex, PoisonError};

/// A thread's mailbox, which holds a `P` of posted things.
#[derive(Debug)]
pub struct Mailbox<P> {
    post: Mutex<P>,
    posted: AtomicBool,
    wake: File,
}

impl<P: Default> Mailbox<P> {
    /// An empty one.
    pub fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes no pointers.
        let raw = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and nobody else owns it.
        let wake = unsafe { File::from_raw_fd(raw) };
        Ok(Self {
            post: Mutex::default(),
            posted: AtomicBool::new(false),
            wake,
        })
    }

    /// Becomes readable when something is posted.
    pub fn descriptor(&self) -> RawFd {
        self.wake.as_raw_fd()
    }

    /// Wakes the owner.
    pub fn wake(&self) {
        if !self.posted.swap(true, AcqRel) {
            // Only a full counter can refuse, and then the owner is awake anyway.
            let _ = (&self.wake).write(&1u64.to_ne_bytes());
        }
    }

    /// Adds to what is posted, by `change`, and wakes the owner.
    pub fn post(&self, change: impl FnOnce(&mut P)) {
        change(&mut self.post.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake();
    }

    /// Takes everything; for the owner.
    pub fn take(&self) -> P {
        let mut count = [0; 8];
        let _ = (&self.wake).read(&mut count);
        // The flag falls before the post is taken: what comes in between wakes once too often, never once too few.
        self.posted.store(false, Release);
        std::mem::take(&mut *self.post.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
