//! Moving bytes: one trait, two ways to do it.
//!
//! `uring` batches the sends of many connections into one system call and receives into buffers that the
//! kernel picks; `epoll` is for machines and containers that forbid io_uring. Both own the sockets. Not here:
//! protocols, schedules and time keeping, beyond the stamp of each receive.

mod epoll;
mod socket;
mod uring;

pub use epoll::Epoll;
pub use socket::{connect_blocking, connect_start};
pub use uring::Uring;

use std::io;
use std::os::fd::OwnedFd;

/// How long `poll` may wait for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    No,
    /// Until this time of the monotonic clock.
    Until(u64),
    /// For a while: about `TICK_NS` at most, without arming a timer for each call.
    Tick,
}

/// `Wait::Tick` returns after this time at the latest.
pub const TICK_NS: u64 = 20_000_000;

/// For how long `poll` may hold the first receives while others join them. What they brought keeps the time of
/// its arrival.
pub const GATHER_NS: u64 = 50_000;

/// What happened on a connection.
#[derive(Debug)]
pub enum Event<'a> {
    /// The connection is made.
    Opened,
    /// Bytes came, and had all arrived at `at_ns`.
    Received {
        /// The bytes.
        bytes: &'a [u8],
        /// Monotonic time of their arrival as the kernel stamped it; without a stamp, that after they were read.
        at_ns: u64,
    },
    /// Everything given to `send` is with the kernel: `send` may be called again.
    Sent,
    /// The connection is of no further use; the word names the kind of error.
    Closed(&'static str),
}

/// A way of moving bytes. Connections are numbered slots below the capacity given at construction.
pub trait Transport {
    /// Takes a socket that is connected or whose connection is under way; `Opened` or `Closed` follows.
    fn open(&mut self, slot: usize, socket: OwnedFd) -> io::Result<()>;

    /// Drops a slot's socket; no event follows.
    fn close(&mut self, slot: usize);

    /// Whether the slot takes bytes now.
    fn can_send(&self, slot: usize) -> bool;

    /// Takes the bytes and leaves an empty buffer. They leave at the next `flush`.
    fn send(&mut self, slot: usize, bytes: &mut Vec<u8>);

    /// Starts all sends, in the order given.
    fn flush(&mut self) -> io::Result<()>;

    /// Waits for events and hands them over with their slots. A tick may wait for `gather` receives to come together,
    /// for `GATHER_NS` at most, where the kernel stamps what they bring.
    fn poll(
        &mut self,
        wait: Wait,
        gather: u32,
        sink: &mut dyn FnMut(usize, Event<'_>),
    ) -> io::Result<()>;
}

/// The kind under which an error of a socket is counted.
pub(crate) fn closed_kind(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ECONNRESET | libc::EPIPE) => "connection-reset",
        Some(libc::ECONNREFUSED) => "connection-refused",
        Some(libc::ETIMEDOUT | libc::EHOSTUNREACH | libc::ENETUNREACH) => "connection-timeout",
        _ => "connection-error",
    }
}
