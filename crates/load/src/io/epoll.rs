//! The fallback: level-triggered epoll with one read and one write system call a request.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use steelyard_record::monotonic_ns;

use super::socket::pending_error;
use super::{Event, TICK_NS, Transport, Wait, closed_kind};

const RECEIVE_BYTES: usize = 256 * 1024;
const EVENTS: usize = 256;

#[derive(Default)]
struct Slot {
    socket: Option<OwnedFd>,
    connecting: bool,
    /// What is being sent, from `sent` on.
    bytes: Vec<u8>,
    sent: usize,
    /// Whether writability is asked for.
    watches_write: bool,
    /// Error of sending, reported at the next poll.
    failed: Option<&'static str>,
    /// Tells a reused slot from the one an event was for.
    generation: u32,
}

/// Bytes by epoll.
pub struct Epoll {
    epoll: OwnedFd,
    slots: Vec<Slot>,
    queued: Vec<usize>,
    failed: Vec<usize>,
    buffer: Vec<u8>,
    events: Vec<libc::epoll_event>,
    /// epoll_pwait2 (Linux 5.11), which waits to the nanosecond.
    precise: bool,
}

impl Epoll {
    /// A transport of `slots` connections.
    pub fn new(slots: usize) -> io::Result<Self> {
        // SAFETY: epoll_create1 has no preconditions.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            // SAFETY: `fd` was just opened and belongs to nobody else.
            epoll: unsafe { OwnedFd::from_raw_fd(fd) },
            slots: (0..slots).map(|_| Slot::default()).collect(),
            queued: Vec::with_capacity(slots),
            failed: Vec::new(),
            buffer: vec![0; RECEIVE_BYTES],
            events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS],
            precise: true,
        })
    }

    fn control(&self, operation: libc::c_int, slot: usize, events: libc::c_int) -> io::Result<()> {
        let entry = &self.slots[slot];
        let Some(socket) = &entry.socket else {
            return Ok(());
        };
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: u64::from(entry.generation) << 32 | slot as u64,
        };
        // SAFETY: both descriptors are open and `event` lives through the call.
        let status = unsafe {
            libc::epoll_ctl(
                self.epoll.as_raw_fd(),
                operation,
                socket.as_raw_fd(),
                &mut event,
            )
        };
        if status == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Writes what is left; true when nothing is.
    fn write(&mut self, slot: usize) -> Result<bool, &'static str> {
        let entry = &mut self.slots[slot];
        let Some(socket) = &entry.socket else {
            return Ok(false);
        };
        while entry.sent < entry.bytes.len() {
            let rest = &entry.bytes[entry.sent..];
            // SAFETY: the pointer and the length describe `rest`.
            let n = unsafe {
                libc::send(
                    socket.as_raw_fd(),
                    rest.as_ptr().cast(),
                    rest.len(),
                    libc::MSG_NOSIGNAL,
                )
            };
            if n < 0 {
                let error = io::Error::last_os_error();
                match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(false),
                    io::ErrorKind::Interrupted => continue,
                    _ => return Err(closed_kind(&error)),
                }
            }
            entry.sent += n as usize;
        }
        entry.bytes.clear();
        entry.sent = 0;
        Ok(true)
    }

    fn wait(&mut self, wait: Wait) -> io::Result<usize> {
        let left_ns = match wait {
            Wait::No => 0,
            Wait::Until(at_ns) => at_ns.saturating_sub(monotonic_ns()).min(TICK_NS),
            Wait::Tick => TICK_NS,
        };
        let (pointer, length) = (self.events.as_mut_ptr(), self.events.len() as libc::c_int);
        let status = if self.precise && left_ns > 0 {
            let timeout = libc::timespec {
                tv_sec: 0,
                tv_nsec: left_ns as libc::c_long,
            };
            // SAFETY: `pointer` holds `length` events, the timeout lives through the call, and the signal
            // mask is absent.
            let status = unsafe {
                libc::syscall(
                    libc::SYS_epoll_pwait2,
                    self.epoll.as_raw_fd(),
                    pointer,
                    length,
                    &raw const timeout,
                    std::ptr::null::<libc::sigset_t>(),
                    0usize,
                )
            };
            if status < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) {
                self.precise = false;
                return Ok(0);
            }
            status as i64
        } else {
            let timeout_ms = left_ns.div_ceil(1_000_000) as libc::c_int;
            // SAFETY: `pointer` holds `length` events.
            let status =
                unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), pointer, length, timeout_ms) };
            i64::from(status)
        };
        if status >= 0 {
            return Ok(status as usize);
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            error => Err(error),
        }
    }

    fn handle(
        &mut self,
        slot: usize,
        ready: u32,
        sink: &mut dyn FnMut(usize, Event<'_>),
    ) -> io::Result<()> {
        if self.slots[slot].connecting {
            let error = self.slots[slot].socket.as_ref().and_then(pending_error);
            if let Some(error) = error {
                sink(slot, Event::Closed(closed_kind(&error)));
                return Ok(());
            }
            self.slots[slot].connecting = false;
            self.control(libc::EPOLL_CTL_MOD, slot, libc::EPOLLIN)?;
            self.slots[slot].watches_write = false;
            sink(slot, Event::Opened);
        }
        if ready & libc::EPOLLOUT as u32 != 0 && self.slots[slot].watches_write {
            match self.write(slot) {
                Ok(false) => {}
                Ok(true) => {
                    self.slots[slot].watches_write = false;
                    self.control(libc::EPOLL_CTL_MOD, slot, libc::EPOLLIN)?;
                    sink(slot, Event::Sent);
                }
                Err(kind) => {
                    sink(slot, Event::Closed(kind));
                    return Ok(());
                }
            }
        }
        if ready & (libc::EPOLLIN | libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0 {
            self.read(slot, sink);
        }
        Ok(())
    }

    fn read(&mut self, slot: usize, sink: &mut dyn FnMut(usize, Event<'_>)) {
        let Some(fd) = self.slots[slot].socket.as_ref().map(AsRawFd::as_raw_fd) else {
            return;
        };
        // SAFETY: the pointer and the length describe the buffer.
        let n = unsafe { libc::recv(fd, self.buffer.as_mut_ptr().cast(), self.buffer.len(), 0) };
        match n {
            0 => sink(slot, Event::Closed("connection-closed")),
            n if n > 0 => {
                let at_ns = monotonic_ns();
                sink(
                    slot,
                    Event::Received {
                        bytes: &self.buffer[..n as usize],
                        at_ns,
                    },
                );
            }
            _ => {
                let error = io::Error::last_os_error();
                if !matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) {
                    sink(slot, Event::Closed(closed_kind(&error)));
                }
            }
        }
    }
}

impl Transport for Epoll {
    fn open(&mut self, slot: usize, socket: OwnedFd) -> io::Result<()> {
        let generation = self.slots[slot].generation.wrapping_add(1);
        self.slots[slot] = Slot {
            socket: Some(socket),
            connecting: true,
            watches_write: true,
            generation,
            ..Slot::default()
        };
        self.control(libc::EPOLL_CTL_ADD, slot, libc::EPOLLIN | libc::EPOLLOUT)
    }

    fn close(&mut self, slot: usize) {
        let generation = self.slots[slot].generation.wrapping_add(1);
        // Closing the only descriptor of a socket takes it out of the epoll set.
        self.slots[slot] = Slot {
            generation,
            ..Slot::default()
        };
    }

    fn can_send(&self, slot: usize) -> bool {
        let entry = &self.slots[slot];
        entry.socket.is_some() && !entry.connecting && entry.bytes.is_empty()
    }

    fn send(&mut self, slot: usize, bytes: &mut Vec<u8>) {
        debug_assert!(self.can_send(slot));
        std::mem::swap(&mut self.slots[slot].bytes, bytes);
        self.queued.push(slot);
    }

    fn flush(&mut self) -> io::Result<()> {
        for index in 0..self.queued.len() {
            let slot = self.queued[index];
            match self.write(slot) {
                Ok(true) => {}
                Ok(false) if self.slots[slot].socket.is_some() => {
                    self.slots[slot].watches_write = true;
                    self.control(libc::EPOLL_CTL_MOD, slot, libc::EPOLLIN | libc::EPOLLOUT)?;
                }
                Ok(false) => {}
                Err(kind) => {
                    self.slots[slot].failed = Some(kind);
                    self.failed.push(slot);
                }
            }
        }
        self.queued.clear();
        Ok(())
    }

    fn poll(
        &mut self,
        wait: Wait,
        _gather: u32,
        sink: &mut dyn FnMut(usize, Event<'_>),
    ) -> io::Result<()> {
        while let Some(slot) = self.failed.pop() {
            if let Some(kind) = self.slots[slot].failed.take() {
                sink(slot, Event::Closed(kind));
                return Ok(());
            }
        }
        let count = self.wait(wait)?;
        for index in 0..count {
            let event = self.events[index];
            let (slot, generation) = (event.u64 as u32 as usize, (event.u64 >> 32) as u32);
            if self.slots[slot].generation == generation && self.slots[slot].socket.is_some() {
                self.handle(slot, event.events, sink)?;
            }
        }
        Ok(())
    }
}
