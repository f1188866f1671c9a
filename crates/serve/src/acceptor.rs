//! The acceptor of a server: the listener at which connections come in and the signals that end it, waited for together,
//! and the clock by which it does something at regular intervals meanwhile.
//!
//! In: a bound listener, a descriptor that is readable once the server shall end, times that the caller has read. Out: accepted
//! connections, one closure call each, and when an interval has passed.
//!
//! Invariants: accepting never blocks; a connection that failed while it waited keeps out none behind it; a lack of
//! descriptors ends nothing: connections in the backlog are accepted when there are some again.
//!
//! Not here: how many connections there may be and who serves them, what is done at an interval, reading a clock.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;
use std::time::Duration;

/// Longest single wait, ms: an hour, since poll takes no longer time than fits into an int.
const WAIT_MS_MAX: u64 = 3_600_000;
/// How long accepting rests when the system refuses, so that a backlog that cannot be emptied does not take a core.
const REST: Duration = Duration::from_millis(10);

/// A listener and the signals that end its server.
#[derive(Debug)]
pub struct Acceptor {
    listener: TcpListener,
    signals: OwnedFd,
}

/// What a wait has seen; nothing of it when its time was up or it was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// A connection is waiting.
    pub connection: bool,
    /// A signal that ends the server has come.
    pub signal: bool,
}

impl Acceptor {
    /// The acceptor of `listener`, which from here on does not block, and of `signals`, a descriptor that becomes readable when
    /// one comes. The error is that of making the listener non-blocking.
    pub fn new(listener: TcpListener, signals: OwnedFd) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { listener, signals })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Waits for a connection or a signal, at most `wait_ns` rounded up to a millisecond, and at most an hour.
    pub fn wait(&self, wait_ns: u64) -> io::Result<Seen> {
        let entry = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut entries = [
            entry(self.listener.as_raw_fd()),
            entry(self.signals.as_raw_fd()),
        ];
        let wait_ms = wait_ns.div_ceil(1_000_000).min(WAIT_MS_MAX);
        // SAFETY: the pointer and the length describe `entries`.
        let status = unsafe { libc::poll(entries.as_mut_ptr(), 2, wait_ms as i32) };
        if status < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(Seen {
            connection: entries[0].revents != 0,
            signal: entries[1].revents != 0,
        })
    }

    /// Serves until a signal comes: hands each connection to `admit`, and calls `at_interval` when an interval of the clock
    /// `now_ns` has passed. An error of waiting goes through `failed`.
    pub fn serve<E>(
        &self,
        interval: Option<Duration>,
        now_ns: fn() -> u64,
        failed: impl FnOnce(io::Error) -> E,
        mut admit: impl FnMut(TcpStream),
        mut at_interval: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut intervals = Intervals::new(interval, now_ns());
        loop {
            let seen = match self.wait(intervals.wait_ns(now_ns())) {
                Ok(seen) => seen,
                Err(error) => return Err(failed(error)),
            };
            if seen.signal {
                return Ok(());
            }
            if seen.connection
                && let Err(error) = self.accept_all(&mut admit)
            {
                // Out of descriptors: the backlog waits until some connection closes.
                tracing::warn!("accept: {error}");
            }
            if intervals.pass(now_ns()) {
                at_interval()?;
            }
        }
    }

    /// Hands every connection that waits to `admit`.
    ///
    /// An error says why the system accepts none for now, such as a lack of descriptors: it is for a log, since a connection
    /// stays in the backlog until some connection closes. It comes after a short rest.
    pub fn accept_all(&self, admit: impl FnMut(TcpStream)) -> io::Result<()> {
        accept_all(|| self.listener.accept().map(|(socket, _)| socket), admit)
    }
}

/// As [`Acceptor::accept_all`], from whatever `accept` gives.
fn accept_all<T>(
    mut accept: impl FnMut() -> io::Result<T>,
    mut admit: impl FnMut(T),
) -> io::Result<()> {
    loop {
        match accept() {
            Ok(socket) => admit(socket),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::ECONNABORTED) => {}
            Err(error) => {
                thread::sleep(REST);
                return Err(error);
            }
        }
    }
}

/// Intervals of equal length, one after the other from a beginning on: the clock of a file of statistics.
///
/// All times are of the clock that the caller reads, ns.
#[derive(Debug)]
pub struct Intervals {
    interval_ns: u64,
    due_ns: u64,
}

impl Intervals {
    /// Intervals from `now_ns` on, of at least 1 ns. None: one that never ends.
    pub fn new(interval: Option<Duration>, now_ns: u64) -> Self {
        let interval_ns = interval.map_or(u64::MAX, |interval| {
            u64::try_from(interval.as_nanos().max(1)).unwrap_or(u64::MAX)
        });
        Self {
            interval_ns,
            due_ns: now_ns.saturating_add(interval_ns),
        }
    }

    /// How long it is until the end of the interval, ns; 0 when it has passed.
    pub fn wait_ns(&self, now_ns: u64) -> u64 {
        self.due_ns.saturating_sub(now_ns)
    }

    /// Whether the interval has ended, and if so the next one begins.
    ///
    /// Ends stay on the grid of the beginning: one that is noticed late does not move the rest, and those that have passed
    /// unnoticed meanwhile are left out.
    pub fn pass(&mut self, now_ns: u64) -> bool {
        if now_ns < self.due_ns {
            return false;
        }
        let missed = (now_ns - self.due_ns) / self.interval_ns;
        self.due_ns = self
            .due_ns
            .saturating_add(missed.saturating_add(1).saturating_mul(self.interval_ns));
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io::Write;
    use std::os::fd::FromRawFd;

    use super::*;
    use steelyard_statistics::Random;

    const LONG_NS: u64 = 10_000_000_000;
    const NOTHING: Seen = Seen {
        connection: false,
        signal: false,
    };

    fn acceptor(signals: OwnedFd) -> Acceptor {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        Acceptor::new(listener, signals).expect("a listener that does not block")
    }

    /// A descriptor that never becomes readable.
    fn no_signals() -> OwnedFd {
        // SAFETY: eventfd takes no pointers.
        let raw = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        assert!(raw >= 0);
        // SAFETY: the descriptor was just made and nobody else owns it.
        unsafe { OwnedFd::from_raw_fd(raw) }
    }

    #[test]
    fn everybody_who_waits_is_let_in() {
        let acceptor = acceptor(no_signals());
        assert_eq!(acceptor.wait(0).unwrap(), NOTHING);
        acceptor.accept_all(|_| panic!("nobody has come")).unwrap();
        let address = acceptor.address().unwrap();
        let clients: Vec<_> = (0..3)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        let mut admitted = Vec::new();
        while admitted.len() < clients.len() {
            let seen = acceptor.wait(LONG_NS).unwrap();
            assert!(seen.connection && !seen.signal, "{seen:?}");
            acceptor
                .accept_all(|socket| admitted.push(socket.peer_addr().unwrap()))
                .unwrap();
        }
        let clients: Vec<_> = clients.iter().map(|c| c.local_addr().unwrap()).collect();
        assert_eq!(admitted, clients);
        assert_eq!(acceptor.wait(0).unwrap(), NOTHING);
    }

    #[test]
    fn a_signal_ends_the_wait() {
        let (reader, mut writer) = io::pipe().unwrap();
        let acceptor = acceptor(reader.into());
        assert_eq!(acceptor.wait(0).unwrap(), NOTHING);
        writer.write_all(b"x").unwrap();
        let seen = acceptor.wait(LONG_NS).unwrap();
        assert!(seen.signal && !seen.connection, "{seen:?}");
    }

    /// What is admitted of `waiting`, where an error is the number of the system's, and how it ends.
    fn admitted(waiting: &mut VecDeque<Result<u32, i32>>) -> (Vec<u32>, Option<i32>) {
        let mut admitted = Vec::new();
        let accept = || match waiting.pop_front() {
            Some(next) => next.map_err(io::Error::from_raw_os_error),
            None => Err(io::ErrorKind::WouldBlock.into()),
        };
        let end = accept_all(accept, |number| admitted.push(number));
        (admitted, end.err().and_then(|error| error.raw_os_error()))
    }

    #[test]
    fn an_aborted_connection_is_passed_over() {
        let mut waiting = [Ok(1), Err(libc::ECONNABORTED), Ok(2)].into();
        assert_eq!(admitted(&mut waiting), (vec![1, 2], None));
    }

    #[test]
    fn a_refusal_of_the_system_leaves_the_rest_for_later() {
        for errno in [libc::EMFILE, libc::ENFILE, libc::ENOMEM] {
            let mut waiting = [Ok(1), Err(errno), Ok(2)].into();
            assert_eq!(admitted(&mut waiting), (vec![1], Some(errno)));
            assert_eq!(admitted(&mut waiting), (vec![2], None));
        }
    }

    #[test]
    fn intervals_stay_on_the_grid_of_their_beginning() {
        let mut intervals = Intervals::new(Some(Duration::from_nanos(10)), 5);
        assert_eq!(intervals.wait_ns(5), 10);
        assert!(!intervals.pass(14));
        assert!(intervals.pass(15));
        assert_eq!(intervals.wait_ns(15), 10);
        // Noticed at 26 instead of 25, and once at 48 instead of at 35 and 45.
        assert!(intervals.pass(26));
        assert_eq!(intervals.wait_ns(26), 9);
        assert!(intervals.pass(48));
        assert!(!intervals.pass(54));
        assert_eq!(intervals.wait_ns(60), 0);
        assert!(intervals.pass(60));
        assert_eq!(intervals.wait_ns(60), 5);
    }

    #[test]
    fn an_interval_ends_once_wherever_the_clock_is_read() {
        let mut random = Random::new(3);
        for interval_ns in [1, 7, 1000] {
            let begin_ns = random.bits() >> 8;
            let mut intervals = Intervals::new(Some(Duration::from_nanos(interval_ns)), begin_ns);
            let (mut now_ns, mut passed) = (begin_ns, 0);
            for _ in 0..1000 {
                now_ns += random.bits() % (3 * interval_ns);
                // As many intervals of the grid as lie between the beginning and now.
                let whole = (now_ns - begin_ns) / interval_ns;
                assert_eq!(intervals.pass(now_ns), whole > passed);
                passed = whole;
                let end_ns = begin_ns + (whole + 1) * interval_ns;
                assert_eq!(intervals.wait_ns(now_ns), end_ns - now_ns);
            }
        }
    }

    #[test]
    fn intervals_of_any_length_are_possible() {
        let mut never = Intervals::new(None, 5);
        assert!(!never.pass(u64::MAX - 1));
        let mut longest = Intervals::new(Some(Duration::MAX), 5);
        assert!(!longest.pass(u64::MAX - 1));
        let mut shortest = Intervals::new(Some(Duration::ZERO), 5);
        assert!(!shortest.pass(5) && shortest.pass(6));
        let mut last = Intervals::new(Some(Duration::from_nanos(10)), u64::MAX - 15);
        assert!(last.pass(u64::MAX - 5));
        assert_eq!(last.wait_ns(u64::MAX - 5), 5);
    }
}
