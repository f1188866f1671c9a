//! When bytes arrived, as the kernel stamped their packets (SO_TIMESTAMPING, by software).
//!
//! The stamp is taken where a packet enters the network stack, so it holds whenever the program gets round to
//! reading: answers may be left to gather without being timed late. The kernel stamps by the wall clock; the
//! distance between the clocks is measured ten times a second. A receive that joins several packets carries the
//! stamp of the last.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};

use steelyard_record::{clock_ns, monotonic_ns};

/// Room for one message of three times.
pub const CONTROL_BYTES: usize = 64;
/// How long a measured distance between the clocks is used.
const DISTANCE_NS: u64 = 100_000_000;

/// Asks the kernel to stamp what a socket receives.
pub fn ask(socket: &OwnedFd) -> io::Result<()> {
    if domain(socket)? == libc::AF_UNIX {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    let flags: libc::c_uint = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    // SAFETY: the pointer and the length describe `flags`.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&raw const flags).cast(),
            mem::size_of_val(&flags) as libc::socklen_t,
        )
    };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The address family: Unix sockets take the option and stamp nothing.
fn domain(socket: &OwnedFd) -> io::Result<libc::c_int> {
    let mut domain: libc::c_int = 0;
    let mut length = mem::size_of_val(&domain) as libc::socklen_t;
    // SAFETY: the pointers describe `domain` and `length`, both writable.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_DOMAIN,
            (&raw mut domain).cast(),
            &mut length,
        )
    };
    if status == 0 {
        Ok(domain)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The stamp in a receive's control messages, ns of the wall clock; None without one.
pub fn find(control: &[u8]) -> Option<u64> {
    let number = |at: usize| {
        let bytes = control.get(at..at + 8)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    };
    // One message is all that was asked for: its length with that of its head, its level and type, and three
    // times of which the first is the software's.
    let level = u64::from(libc::SOL_SOCKET as u32);
    let kind = u64::from(libc::SCM_TIMESTAMPING as u32);
    let expected = if cfg!(target_endian = "little") {
        kind << 32 | level
    } else {
        level << 32 | kind
    };
    if number(8)? != expected {
        return None;
    }
    let (seconds, nanoseconds) = (number(16)?, number(24)?);
    (seconds > 0).then(|| seconds * 1_000_000_000 + nanoseconds)
}

/// How far the wall clock is ahead of the monotonic clock.
#[derive(Debug, Default)]
pub struct Distance {
    ns: u64,
    until_ns: u64,
}

impl Distance {
    /// The monotonic time of a stamp that was read at `now_ns`, never after it.
    #[inline]
    pub fn monotonic(&mut self, stamp_ns: u64, now_ns: u64) -> u64 {
        if now_ns >= self.until_ns {
            self.ns = measure();
            self.until_ns = now_ns + DISTANCE_NS;
        }
        stamp_ns.saturating_sub(self.ns).min(now_ns)
    }
}

/// Reads the wall clock between two readings of the other, and keeps the tightest of a few attempts.
fn measure() -> u64 {
    let attempt = || {
        let before_ns = monotonic_ns();
        let wall_ns = clock_ns(libc::CLOCK_REALTIME);
        let after_ns = monotonic_ns();
        (
            after_ns - before_ns,
            wall_ns.saturating_sub(before_ns + (after_ns - before_ns) / 2),
        )
    };
    (0..3).map(|_| attempt()).min().map_or(0, |(_, ns)| ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_messages_without_a_stamp_have_none() {
        assert_eq!(find(&[]), None);
        assert_eq!(find(&[0; 64]), None);
        assert_eq!(find(&[255; 20]), None);
    }

    #[test]
    fn a_stamp_of_now_is_now() {
        let mut distance = Distance::default();
        let now_ns = monotonic_ns();
        let stamp_ns = clock_ns(libc::CLOCK_REALTIME);
        let later_ns = monotonic_ns();
        let at_ns = distance.monotonic(stamp_ns, later_ns + 1_000);
        // The distance is known to half the time that reading two clocks takes.
        assert!(at_ns + 1_000 >= now_ns && at_ns <= later_ns + 1_000);
        // A wall clock that was set back or forth gives no time after the reading.
        assert_eq!(distance.monotonic(u64::MAX, 5), 5);
    }
}
