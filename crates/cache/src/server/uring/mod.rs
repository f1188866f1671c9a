//! A fast thread over io_uring: one system call a round submits the answers of the round before and waits for
//! what clients sent meanwhile, over all connections together.
//!
//! Receives are multishot into a ring of shared buffers, so that an idle connection holds no buffer and a
//! request is parsed where the kernel put it. All answers of a connection leave in one send.
//!
//! Invariant: an entry of the table lives until the kernel holds neither a receive nor a send of it, since the
//! kernel reads from its `sending` buffer.

mod buffers;

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::Relaxed;

use io_uring::{IoUring, cqueue, opcode, squeue, types};

use self::buffers::Buffers;
use super::FastThread;
use super::holdings::{Holding, Holdings};
use crate::clock;
use crate::counters::Counter;
use crate::error::CacheError;
use crate::session::Session;
use steelyard_serve::Table;

/// Entries of the submission queue; the completion queue has four times as many.
const ENTRIES: u32 = 1024;
/// How long stalled sessions wait before they try the slow queue again.
const RETRY_NS: u32 = 1_000_000;
/// How long a wait may take while a request has come by half.
const LOOK_S: u64 = 1;
const KEPT_CAPACITY: usize = 256 * 1024;

/// Flags of io_uring_enter (linux/io_uring.h).
const GETEVENTS: u32 = 1 << 0;
const EXT_ARG: u32 = 1 << 3;
/// Waiting for clients is no waiting for a disk: without it the kernel counts it as such, in the CPUs' iowait and in the
/// pressure of I/O.
const NO_IOWAIT: u32 = 1 << 7;

/// What a completion is about: the upper four bits of its user data, beside a connection's number.
const RECEIVE: u64 = 0;
const SEND: u64 = 1 << 60;
const CANCEL: u64 = 2 << 60;
const MAILBOX: u64 = 3 << 60;
const KIND: u64 = 0xf << 60;

struct Connection {
    socket: TcpStream,
    session: Session,
    /// What the kernel is sending.
    sending: Vec<u8>,
    /// How much of it has left.
    sent: usize,
    send_in_flight: bool,
    receive_armed: bool,
    cancelling: bool,
    closed: bool,
    /// Stands in the list of connections to look after at the end of the round.
    listed: bool,
    holding: Holding,
}

struct Loop<'a> {
    thread: &'a FastThread,
    ring: IoUring,
    wait_flags: u32,
    buffers: Buffers,
    table: Table<Connection>,
    listed: Vec<u64>,
    stalled: Vec<u64>,
    holdings: Holdings,
    now_s: u32,
    epoch_s: i64,
}

/// A ring, its buffers, and the flags by which it is entered to wait.
fn build() -> io::Result<(IoUring, Buffers, u32)> {
    let mut ring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_submit_all()
        .setup_cqsize(ENTRIES * 4)
        .build(ENTRIES)?;
    // A registered descriptor saves a look-up in each call; a kernel without it serves all the same.
    let _ = ring.submitter().register_ring_fd();
    // SAFETY: nothing is submitted and nothing waited for; a kernel that does not know the flag refuses it.
    let known = unsafe {
        ring.submitter()
            .enter::<libc::sigset_t>(0, 0, NO_IOWAIT, None)
    };
    let wait_flags = GETEVENTS | if known.is_ok() { NO_IOWAIT } else { 0 };
    let buffers = Buffers::register(&mut ring)?;
    Ok((ring, buffers, wait_flags))
}

/// Whether the kernel permits all that this loop needs; the reason when not.
pub fn available() -> io::Result<()> {
    let (ring, buffers, _) = build()?;
    // Multishot receive came with 6.0 and single issuer too, so that a ring that was built has it.
    drop(ring);
    drop(buffers);
    Ok(())
}

/// Serves connections until the server stops.
pub fn run(thread: &FastThread) -> Result<(), CacheError> {
    let (ring, buffers, wait_flags) = build().map_err(CacheError::system("io_uring_setup"))?;
    let mut this = Loop {
        thread,
        ring,
        wait_flags,
        buffers,
        table: Table::new(),
        listed: Vec::new(),
        stalled: Vec::new(),
        holdings: thread.holdings(),
        now_s: clock::now_s(),
        epoch_s: clock::epoch_s(),
    };
    this.watch_mailbox();
    this.serve().map_err(CacheError::system("io_uring_enter"))
}

impl Loop<'_> {
    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: what an entry points to (a connection's `sending`, the ring of buffers) outlives the
        // operation: see the invariant above.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            // The queue is full: the kernel takes what is in it.
            if let Err(error) = self.ring.submit() {
                tracing::debug!("io_uring_enter: {error}");
            }
        }
    }

    fn watch_mailbox(&mut self) {
        let descriptor = types::Fd(self.thread.mailbox.descriptor());
        let poll = opcode::PollAdd::new(descriptor, libc::POLLIN as u32).build();
        self.push(&poll.user_data(MAILBOX));
    }

    fn wait(&mut self) -> io::Result<()> {
        let is_stalled = !self.stalled.is_empty();
        let queued = self.ring.submission().len() as u32;
        let ring = self.ring.submitter();
        // SAFETY: what the entries point to lives until they complete, the time through the call.
        let result = unsafe {
            if !is_stalled && !self.holdings.waits_for_time() {
                ring.enter::<libc::sigset_t>(queued, 1, self.wait_flags, None)
            } else {
                let time = match is_stalled {
                    true => types::Timespec::new().nsec(RETRY_NS),
                    false => types::Timespec::new().sec(LOOK_S),
                };
                let arguments = types::SubmitArgs::new().timespec(&time);
                ring.enter(queued, 1, self.wait_flags | EXT_ARG, Some(&arguments))
            }
        };
        match result {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    fn serve(&mut self) -> io::Result<()> {
        let mut completions: Vec<(u64, i32, u32)> = Vec::new();
        loop {
            self.wait()?;
            self.now_s = clock::now_s();
            completions.extend(
                self.ring
                    .completion()
                    .map(|entry| (entry.user_data(), entry.result(), entry.flags())),
            );
            for (user_data, result, flags) in completions.drain(..) {
                let number = user_data & !KIND;
                match user_data & KIND {
                    RECEIVE => self.received(number, result, flags),
                    SEND => self.sent(number, result),
                    MAILBOX => self.take_post(),
                    _ => {}
                }
            }
            self.buffers.publish();
            let stalled = std::mem::take(&mut self.stalled);
            for number in stalled {
                self.list(number);
            }
            let mut listed = std::mem::take(&mut self.listed);
            for number in listed.drain(..) {
                self.advance(number);
            }
            self.listed = listed;
            if self.holdings.is_due(self.now_s) {
                self.make_room();
            }
            if self.thread.stop.load(Relaxed) {
                return Ok(());
            }
        }
    }

    fn list(&mut self, number: u64) {
        if let Some(connection) = self.table.get(number)
            && !connection.listed
        {
            connection.listed = true;
            self.listed.push(number);
        }
    }

    fn take_post(&mut self) {
        let post = self.thread.mailbox.take();
        for socket in post.sockets {
            let number = self.table.add(Connection {
                socket: TcpStream::from(socket),
                session: Session::new(),
                sending: Vec::new(),
                sent: 0,
                send_in_flight: false,
                receive_armed: false,
                cancelling: false,
                closed: false,
                listed: false,
                holding: Holding::new(self.now_s),
            });
            self.list(number);
        }
        for filled in post.filled {
            // One that was closed for what it held has forgotten what it is owed.
            if let Some(connection) = self.table.get(filled.connection)
                && !connection.closed
            {
                connection
                    .session
                    .output()
                    .fill(filled.ticket, filled.bytes);
                self.list(filled.connection);
            }
        }
        self.watch_mailbox();
    }

    fn received(&mut self, number: u64, result: i32, flags: u32) {
        let buffer = cqueue::buffer_select(flags);
        if let Some(connection) = self.table.get(number) {
            if let (Some(buffer), true, false) = (buffer, result > 0, connection.closed) {
                let worker = self.thread.worker(self.now_s, self.epoch_s, number);
                connection
                    .session
                    .receive(self.buffers.bytes(buffer, result as usize), &worker);
                connection.holding.note_received(self.now_s);
            }
            if !cqueue::more(flags) {
                connection.receive_armed = false;
                connection.cancelling = false;
                let ended = result == 0
                    || result < 0
                        && !matches!(-result, libc::ENOBUFS | libc::ECANCELED | libc::EINTR);
                connection.closed |= ended;
            }
            self.list(number);
        }
        if let Some(buffer) = buffer {
            self.buffers.give_back(buffer);
        }
    }

    fn sent(&mut self, number: u64, result: i32) {
        let Some(connection) = self.table.get(number) else {
            return;
        };
        connection.send_in_flight = false;
        if result < 0 {
            connection.closed |= !matches!(-result, libc::EINTR | libc::EAGAIN);
        } else {
            connection.sent += result as usize;
            self.thread
                .counters
                .add(Counter::BytesWritten, result as u64);
        }
        self.list(number);
    }

    /// Puts the next operations of a connection into the queue, or removes it.
    fn advance(&mut self, number: u64) {
        let Some(connection) = self.table.get(number) else {
            return;
        };
        connection.listed = false;
        if !connection.closed {
            let worker = self.thread.worker(self.now_s, self.epoch_s, number);
            if connection.session.paused() && !connection.send_in_flight {
                // What it waited for has happened, or is about to be sent.
                connection.session.resume(&worker);
            }
            let send = connection.next_send();
            if send.is_none() && !connection.send_in_flight && connection.session.closing() {
                connection.closed = true;
            }
            if connection.session.stalled() {
                self.stalled.push(number);
            }
            if let Some(send) = send {
                self.push(&send.user_data(SEND | number));
            }
        }
        self.note(number);
        self.tend_receive(number);
    }

    fn note(&mut self, number: u64) {
        if let Some(connection) = self.table.get(number) {
            let (bytes, is_half_sent) = (
                connection.session.held_bytes() + connection.sending.capacity(),
                connection.session.is_half_sent(),
            );
            self.holdings
                .note(&mut connection.holding, bytes, is_half_sent);
        }
    }

    fn give_back_idle(&mut self) {
        for number in self.table.numbers() {
            if let Some(connection) = self.table.get(number) {
                connection.session.give_back_idle();
                if !connection.send_in_flight && connection.sent >= connection.sending.len() {
                    connection.sending = Vec::new();
                    connection.sent = 0;
                }
            }
            self.note(number);
        }
    }

    /// Closes the connections that hold too much. What they hold is given back at once, but for a send under way.
    fn make_room(&mut self) {
        if self.holdings.is_over() {
            self.give_back_idle();
            if !self.holdings.is_due(self.now_s) {
                return;
            }
        }
        let all = self.table.entries();
        let all = all.filter(|(_, connection)| !connection.closed);
        let all = all.map(|(number, connection)| (number, &connection.holding));
        let kicks = &self.thread.reporter.kicks;
        for number in self.holdings.leave(all, self.now_s, kicks) {
            if let Some(connection) = self.table.get(number) {
                connection.closed = true;
                connection.session = Session::new();
                self.advance(number);
            }
        }
    }

    /// Arms or cancels the receive, and removes a closed connection that the kernel has let go of.
    fn tend_receive(&mut self, number: u64) {
        let Some(connection) = self.table.get(number) else {
            return;
        };
        if connection.closed {
            if connection.receive_armed || connection.send_in_flight {
                // Ends both; that the peer has done so before is no matter.
                let _ = connection.socket.shutdown(Shutdown::Both);
            } else {
                self.holdings.note(&mut connection.holding, 0, false);
                self.table.remove(number);
                self.thread.reporter.connections.fetch_sub(1, Relaxed);
            }
            return;
        }
        let paused = connection.session.paused();
        if paused && connection.receive_armed && !connection.cancelling {
            connection.cancelling = true;
            self.push(
                &opcode::AsyncCancel::new(RECEIVE | number)
                    .build()
                    .user_data(CANCEL),
            );
        } else if !paused && !connection.receive_armed {
            connection.receive_armed = true;
            let descriptor = types::Fd(connection.socket.as_raw_fd());
            let receive = opcode::RecvMulti::new(descriptor, buffers::GROUP).build();
            self.push(&receive.user_data(RECEIVE | number));
        }
    }
}

impl Connection {
    /// The send of what is ready, unless one is under way or nothing is.
    fn next_send(&mut self) -> Option<squeue::Entry> {
        if self.send_in_flight {
            return None;
        }
        if self.sent >= self.sending.len() {
            self.sending.clear();
            self.sent = 0;
            if self.sending.capacity() > KEPT_CAPACITY {
                self.sending = Vec::new();
            }
            std::mem::swap(&mut self.sending, self.session.output().ready());
        }
        let rest = &self.sending[self.sent..];
        if rest.is_empty() {
            return None;
        }
        self.send_in_flight = true;
        let descriptor = types::Fd(self.socket.as_raw_fd());
        let send = opcode::Send::new(descriptor, rest.as_ptr(), rest.len().min(1 << 30) as u32);
        Some(send.flags(libc::MSG_NOSIGNAL).build())
    }
}
