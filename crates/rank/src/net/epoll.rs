//! epoll: which of many sockets can be read from or written to.

use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Notify when bytes have come.
pub const READ: u32 = libc::EPOLLIN as u32;
/// Notify when there is room for bytes.
pub const WRITE: u32 = libc::EPOLLOUT as u32;
/// Reported without being asked for: the other side is gone.
pub const GONE: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;

const EVENTS: usize = 256;

/// An epoll instance.
pub struct Epoll {
    descriptor: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Epoll {
    /// An instance that watches nothing.
    pub fn new() -> io::Result<Self> {
        // SAFETY: epoll_create1 takes no pointers.
        let raw = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            // SAFETY: the descriptor was just made and nobody else owns it.
            descriptor: unsafe { OwnedFd::from_raw_fd(raw) },
            events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS],
        })
    }

    fn control(&self, operation: i32, socket: RawFd, interest: u32, number: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: interest,
            u64: number,
        };
        // SAFETY: `event` is valid for the call, and the kernel keeps no pointer to it.
        let status =
            unsafe { libc::epoll_ctl(self.descriptor.as_raw_fd(), operation, socket, &mut event) };
        if status == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Watches `socket`, whose events come with `number`. Closing the socket ends it.
    pub fn add(&self, socket: RawFd, interest: u32, number: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, socket, interest, number)
    }

    /// Changes what a watched socket is watched for.
    pub fn change(&self, socket: RawFd, interest: u32, number: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, socket, interest, number)
    }

    /// Waits for events, at most `timeout_ms` (-1: without end), and appends each one's number and kind to `out`.
    pub fn wait(&mut self, timeout_ms: i32, out: &mut Vec<(u64, u32)>) -> io::Result<()> {
        // SAFETY: the pointer and the length describe `events`.
        let count = unsafe {
            libc::epoll_wait(
                self.descriptor.as_raw_fd(),
                self.events.as_mut_ptr(),
                EVENTS as i32,
                timeout_ms,
            )
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == ErrorKind::Interrupted {
                Ok(())
            } else {
                Err(error)
            };
        }
        out.extend(
            self.events[..count as usize]
                .iter()
                .map(|event| (event.u64, event.events)),
        );
        Ok(())
    }
}
