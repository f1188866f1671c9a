//! What other threads hand to a fast thread: new connections and answers of slow threads.
//!
//! Invariant: after a post the owner's eventfd is readable until it has taken what was posted; a burst of
//! posts costs one write.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering::AcqRel};
use std::sync::{Mutex, PoisonError};

/// An answer that a slow thread made.
#[derive(Debug)]
pub struct Filled {
    /// Which connection of the fast thread it is for.
    pub connection: u64,
    /// Which gap in its answers.
    pub ticket: u64,
    /// The answer.
    pub bytes: Vec<u8>,
}

/// What was posted.
#[derive(Debug, Default)]
pub struct Post {
    /// New connections.
    pub sockets: Vec<OwnedFd>,
    /// Answers.
    pub filled: Vec<Filled>,
}

/// A fast thread's mailbox.
#[derive(Debug)]
pub struct Mailbox {
    post: Mutex<Post>,
    posted: AtomicBool,
    wake: File,
}

impl Mailbox {
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

    fn with(&self, change: impl FnOnce(&mut Post)) {
        change(&mut self.post.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake();
    }

    /// Hands over a connection.
    pub fn post_socket(&self, socket: OwnedFd) {
        self.with(|post| post.sockets.push(socket));
    }

    /// Hands over an answer.
    pub fn post_filled(&self, filled: Filled) {
        self.with(|post| post.filled.push(filled));
    }

    /// Takes everything; for the owner.
    pub fn take(&self) -> Post {
        let mut count = [0; 8];
        let _ = (&self.wake).read(&mut count);
        // The flag falls before the post is taken: what comes in between wakes once too often, never once too few.
        self.posted
            .store(false, std::sync::atomic::Ordering::Release);
        std::mem::take(&mut *self.post.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
