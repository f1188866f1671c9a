//! What other threads hand to a fast thread: new connections and answers of slow threads.

use std::os::fd::OwnedFd;

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
pub type Mailbox = steelyard_serve::Mailbox<Post>;
