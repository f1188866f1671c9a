//! A fast thread over epoll: one read and one write for each readable connection, whatever it holds.
//!
//! Used where io_uring is not permitted, as in many containers.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering::Relaxed;

use super::FastThread;
use super::holdings::{Holding, Holdings};
use crate::clock;
use crate::counters::Counter;
use crate::error::CacheError;
use crate::session::{Session, Worker};
use steelyard_serve::Table;

const MAILBOX: u64 = u64::MAX;
const EVENTS: usize = 256;
const READ_BYTES: usize = 64 * 1024;
/// How long stalled sessions wait before they try the slow queue again.
const RETRY_MS: i32 = 1;
/// How long a wait may take while a request has come by half.
const LOOK_MS: i32 = 1000;
const KEPT_CAPACITY: usize = 256 * 1024;

struct Connection {
    socket: TcpStream,
    session: Session,
    /// Answers that were sent from the front of the ready ones.
    sent: usize,
    /// The registered events: EPOLLIN, EPOLLOUT.
    interest: u32,
    holding: Holding,
}

struct Loop<'a> {
    thread: &'a FastThread,
    epoll: OwnedFd,
    table: Table<Connection>,
    stalled: Vec<u64>,
    holdings: Holdings,
    now_s: u32,
    epoch_s: i64,
}

/// Serves connections until the server stops.
pub fn run(thread: &FastThread) -> Result<(), CacheError> {
    // SAFETY: epoll_create1 takes no pointers.
    let raw = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if raw < 0 {
        return Err(CacheError::system("epoll_create1")(
            io::Error::last_os_error(),
        ));
    }
    // SAFETY: the descriptor was just made and nobody else owns it.
    let epoll = unsafe { OwnedFd::from_raw_fd(raw) };
    let mut this = Loop {
        thread,
        epoll,
        table: Table::new(),
        stalled: Vec::new(),
        holdings: thread.holdings(),
        now_s: clock::now_s(),
        epoch_s: clock::epoch_s(),
    };
    this.control(
        libc::EPOLL_CTL_ADD,
        thread.mailbox.descriptor(),
        libc::EPOLLIN as u32,
        MAILBOX,
    )
    .map_err(CacheError::system("epoll_ctl"))?;
    this.serve()
}

impl Loop<'_> {
    fn control(&self, operation: i32, socket: RawFd, interest: u32, number: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: interest,
            u64: number,
        };
        // SAFETY: `event` is valid for the call, and the kernel keeps no pointer to it.
        let status =
            unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, socket, &mut event) };
        if status == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    fn serve(&mut self) -> Result<(), CacheError> {
        let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        let mut buffer = vec![0u8; READ_BYTES];
        loop {
            let timeout = match (self.stalled.is_empty(), self.holdings.waits_for_time()) {
                (false, _) => RETRY_MS,
                (true, true) => LOOK_MS,
                (true, false) => -1,
            };
            // SAFETY: the pointer and the length describe `events`.
            let count = unsafe {
                libc::epoll_wait(
                    self.epoll.as_raw_fd(),
                    events.as_mut_ptr(),
                    EVENTS as i32,
                    timeout,
                )
            };
            if count < 0 {
                let error = io::Error::last_os_error();
                if error.kind() == ErrorKind::Interrupted {
                    continue;
                }
                return Err(CacheError::system("epoll_wait")(error));
            }
            self.now_s = clock::now_s();
            for event in &events[..count as usize] {
                let (number, what) = (event.u64, event.events);
                if number == MAILBOX {
                    self.take_post();
                } else {
                    self.handle(number, what, &mut buffer);
                }
            }
            for number in std::mem::take(&mut self.stalled) {
                self.advance(number);
            }
            if self.holdings.is_due(self.now_s) {
                self.make_room();
            }
            if self.thread.stop.load(Relaxed) {
                for number in self.table.numbers() {
                    self.close(number);
                }
                return Ok(());
            }
        }
    }

    fn take_post(&mut self) {
        let post = self.thread.mailbox.take();
        for socket in post.sockets {
            let socket = TcpStream::from(socket);
            let raw = socket.as_raw_fd();
            let interest = libc::EPOLLIN as u32;
            let number = self.table.add(Connection {
                socket,
                session: Session::new(),
                sent: 0,
                interest,
                holding: Holding::new(self.now_s),
            });
            if self
                .control(libc::EPOLL_CTL_ADD, raw, interest, number)
                .is_err()
            {
                self.close(number);
            }
        }
        let mut touched = Vec::new();
        for filled in post.filled {
            if let Some(connection) = self.table.get(filled.connection) {
                connection
                    .session
                    .output()
                    .fill(filled.ticket, filled.bytes);
                touched.push(filled.connection);
            }
        }
        touched.dedup();
        for number in touched {
            self.advance(number);
        }
    }

    fn handle(&mut self, number: u64, what: u32, buffer: &mut [u8]) {
        let Some(connection) = self.table.get(number) else {
            return;
        };
        if what & libc::EPOLLIN as u32 != 0 && connection.interest & libc::EPOLLIN as u32 != 0 {
            match connection.socket.read(buffer) {
                Ok(0) => return self.close(number),
                Ok(count) => {
                    let worker = self.thread.worker(self.now_s, self.epoch_s, number);
                    connection.session.receive(&buffer[..count], &worker);
                    connection.holding.note_received(self.now_s);
                }
                Err(error) if is_temporary(&error) => {}
                Err(_) => return self.close(number),
            }
        } else if what & (libc::EPOLLERR | libc::EPOLLHUP) as u32 != 0 {
            return self.close(number);
        }
        self.advance(number);
    }

    /// Sends what is ready, and lets the session go on for as long as that makes room.
    fn advance(&mut self, number: u64) {
        let Some(connection) = self.table.get(number) else {
            return;
        };
        let worker = self.thread.worker(self.now_s, self.epoch_s, number);
        let blocked = loop {
            match send(connection, &worker) {
                Err(_) => return self.close(number),
                Ok(false) => break true,
                Ok(true) => {}
            }
            if connection.session.closing() {
                return self.close(number);
            }
            if !connection.session.paused() {
                break false;
            }
            connection.session.resume(&worker);
            let idle = connection.session.output().ready().is_empty();
            if idle && connection.session.paused() {
                break false;
            }
        };
        let paused = connection.session.paused();
        let mut interest = 0;
        if blocked {
            interest |= libc::EPOLLOUT as u32;
        }
        if !paused {
            interest |= libc::EPOLLIN as u32;
        }
        let stalled = connection.session.stalled();
        let raw = connection.socket.as_raw_fd();
        let is_changed = std::mem::replace(&mut connection.interest, interest) != interest;
        self.note(number);
        if is_changed
            && self
                .control(libc::EPOLL_CTL_MOD, raw, interest, number)
                .is_err()
        {
            return self.close(number);
        }
        if stalled {
            self.stalled.push(number);
        }
    }

    fn give_back_idle(&mut self) {
        for number in self.table.numbers() {
            if let Some(connection) = self.table.get(number) {
                connection.session.give_back_idle();
            }
            self.note(number);
        }
    }

    fn note(&mut self, number: u64) {
        if let Some(connection) = self.table.get(number) {
            let (bytes, is_half_sent) = (
                connection.session.held_bytes(),
                connection.session.is_half_sent(),
            );
            self.holdings
                .note(&mut connection.holding, bytes, is_half_sent);
        }
    }

    fn make_room(&mut self) {
        if self.holdings.is_over() {
            self.give_back_idle();
            if !self.holdings.is_due(self.now_s) {
                return;
            }
        }
        let all = self.table.entries();
        let all = all.map(|(number, connection)| (number, &connection.holding));
        let kicks = &self.thread.reporter.kicks;
        for number in self.holdings.leave(all, self.now_s, kicks) {
            self.close(number);
        }
    }

    fn close(&mut self, number: u64) {
        // Dropping the socket closes it, which takes it out of epoll too.
        if let Some(mut connection) = self.table.remove(number) {
            self.holdings.note(&mut connection.holding, 0, false);
            self.thread.reporter.connections.fetch_sub(1, Relaxed);
        }
    }
}

/// Sends what is ready. False: the socket takes no more now.
fn send(connection: &mut Connection, worker: &Worker) -> io::Result<bool> {
    let ready = connection.session.output().ready();
    while connection.sent < ready.len() {
        match connection.socket.write(&ready[connection.sent..]) {
            Ok(count) => {
                connection.sent += count;
                worker.counters.add(Counter::BytesWritten, count as u64);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_temporary(&error) => {
                ready.drain(..connection.sent);
                connection.sent = 0;
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
    }
    connection.sent = 0;
    ready.clear();
    if ready.capacity() > KEPT_CAPACITY {
        *ready = Vec::new();
    }
    Ok(true)
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
