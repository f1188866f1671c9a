//! One I/O thread of a server: reads frames from its connections, hands calls on, and sends the answers back.
//!
//! Invariants: no bytes from a client end the thread; a connection that sends what is no call, or begins something
//! and does not go on with it for `stall_ns`, is closed; one that does not read its answers is no longer read from.
//! Answers go out in the order in which the work ends: the call's sequence number matches them to requests.

use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::{io, mem};

use rustls::{ServerConfig, ServerConnection};
use steelyard_record::monotonic_ns;
use steelyard_serve::{Mailbox, Table};
use steelyard_thrift::{FrameBuffer, Message, MessageKind, Reader, ThriftError};

use super::epoll::{self, Epoll};
use super::transport::{READ_BYTES, Transport};
use crate::service::{Refusal, Service};

const MAILBOX: u64 = u64::MAX;
/// Calls of one connection that may wait for their answers; it is read on when some are answered.
const IN_FLIGHT_MAX: u32 = 1024;
/// Answers that a client has not read, before it is no longer read from.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// How often stalled connections are looked for.
const SWEEP_MS: u64 = 200;

/// Where a call came from, and so where its answer goes.
#[derive(Debug, Clone, Copy)]
pub struct Origin {
    /// The I/O thread.
    pub thread: usize,
    /// The connection.
    pub connection: u64,
    /// The call.
    pub seqid: i32,
    /// When its frame was complete.
    pub arrived_ns: u64,
}

/// A framed message for a connection.
#[derive(Debug)]
pub struct Answer {
    /// The connection.
    pub connection: u64,
    /// The frame.
    pub frame: Vec<u8>,
}

/// What others hand to an I/O thread.
#[derive(Debug, Default)]
pub struct Post {
    /// New connections.
    pub sockets: Vec<OwnedFd>,
    /// Answers.
    pub answers: Vec<Answer>,
}

/// What the I/O threads of a server count.
#[derive(Debug, Default)]
pub struct Counts {
    /// Open connections.
    pub connections: AtomicU64,
    /// Connections ever accepted.
    pub connections_total: AtomicU64,
    /// Connections closed because of what they sent.
    pub closed_malformed: AtomicU64,
    /// Connections closed because they did not go on.
    pub closed_stalled: AtomicU64,
    /// Bytes received.
    pub bytes_read: AtomicU64,
    /// Bytes sent.
    pub bytes_written: AtomicU64,
}

/// Takes calls off an I/O thread.
pub trait Intake<S: Service>: Send + Sync + 'static {
    /// Accepts a call, or says why not.
    fn admit(&self, origin: Origin, request: S::Request) -> Result<(), Refusal>;
    /// Called for every call that was refused, by this intake or before it.
    fn refused(&self, refusal: &Refusal);
}

/// What an I/O thread works with.
pub struct IoThread<S: Service> {
    /// Its number.
    pub number: usize,
    /// What it is handed.
    pub mailbox: Arc<Mailbox<Post>>,
    /// Where calls go.
    pub intake: Arc<dyn Intake<S>>,
    /// TLS, if any.
    pub tls: Option<Arc<ServerConfig>>,
    /// Largest frame of a client.
    pub frame_bytes_max: u32,
    /// How long something begun may stand still.
    pub stall_ns: u64,
    /// Shared by all I/O threads.
    pub counts: Arc<Counts>,
    /// Set when the server ends.
    pub stop: Arc<AtomicBool>,
}

struct Connection {
    transport: Transport,
    frames: FrameBuffer,
    interest: u32,
    in_flight: u32,
    /// Since when something begun waits for the client.
    waiting_since_ns: Option<u64>,
}

/// Why a connection is closed.
#[derive(Debug)]
enum End {
    Gone,
    Malformed,
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        // A malformed TLS record comes from the client; other errors are the network's.
        if error.kind() == io::ErrorKind::InvalidData {
            Self::Malformed
        } else {
            Self::Gone
        }
    }
}

impl From<ThriftError> for End {
    fn from(_: ThriftError) -> Self {
        Self::Malformed
    }
}

/// What a frame of a client says, or the refusal it is answered with.
pub(crate) fn parse<S: Service>(
    frame: &[u8],
) -> Result<(i32, Result<S::Request, Refusal>), ThriftError> {
    let mut reader = Reader::new(frame);
    let message = Message::read(&mut reader)?;
    if message.kind != MessageKind::Call {
        return Err(ThriftError::Protocol);
    }
    let request = if message.name == S::METHOD {
        S::read(&mut reader)
    } else {
        Err(Refusal::UnknownMethod)
    };
    Ok((message.seqid, request))
}

struct Loop<'a, S: Service> {
    thread: &'a IoThread<S>,
    epoll: Epoll,
    table: Table<Connection>,
}

/// Serves connections until the server ends.
pub fn run<S: Service>(thread: &IoThread<S>) -> io::Result<()> {
    let mut this = Loop {
        thread,
        epoll: Epoll::new()?,
        table: Table::new(),
    };
    let (mut events, mut buffer) = (Vec::new(), vec![0; READ_BYTES]);
    this.epoll
        .add(thread.mailbox.descriptor(), epoll::READ, MAILBOX)?;
    let mut swept_ns = monotonic_ns();
    loop {
        this.epoll.wait(SWEEP_MS as i32, &mut events)?;
        for (number, what) in events.drain(..) {
            if number == MAILBOX {
                this.take_post();
            } else {
                this.handle(number, what, &mut buffer);
            }
        }
        if thread.stop.load(SeqCst) {
            // Answers that were posted before the end still go out, as far as sockets take them.
            this.take_post();
            for number in this.table.numbers() {
                this.close(number, None);
            }
            return Ok(());
        }
        let now_ns = monotonic_ns();
        if now_ns - swept_ns >= SWEEP_MS * 1_000_000 {
            swept_ns = now_ns;
            this.sweep(now_ns);
        }
    }
}

impl<S: Service> Loop<'_, S> {
    fn take_post(&mut self) {
        let post = self.thread.mailbox.take();
        for socket in post.sockets {
            if self.open(TcpStream::from(socket)).is_err() {
                self.thread.counts.connections.fetch_sub(1, Relaxed);
            }
        }
        let mut touched = Vec::new();
        for answer in post.answers {
            if let Some(connection) = self.table.get(answer.connection) {
                connection.in_flight -= 1;
                connection.transport.send(&answer.frame);
                touched.push(answer.connection);
            }
        }
        touched.dedup();
        for number in touched {
            self.advance(number);
        }
    }

    fn open(&mut self, socket: TcpStream) -> io::Result<()> {
        let session = match &self.thread.tls {
            Some(config) => {
                let session = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
                Some(session.into())
            }
            None => None,
        };
        let transport = Transport::new(socket, session)?;
        let (descriptor, interest) = (transport.descriptor(), epoll::READ);
        let waiting_since_ns = transport.is_handshaking().then(monotonic_ns);
        let number = self.table.add(Connection {
            transport,
            frames: FrameBuffer::new(self.thread.frame_bytes_max),
            interest,
            in_flight: 0,
            waiting_since_ns,
        });
        let added = self.epoll.add(descriptor, interest, number);
        if added.is_err() {
            self.table.remove(number);
        }
        added
    }

    fn handle(&mut self, number: u64, what: u32, buffer: &mut [u8]) {
        let Some(connection) = self.table.get(number) else {
            return;
        };
        if what & epoll::READ != 0 && connection.interest & epoll::READ != 0 {
            let received = receive(self.thread, number, connection, buffer);
            match received {
                Ok(true) => {}
                Ok(false) => return self.close(number, None),
                Err(end) => return self.close(number, Some(end)),
            }
        } else if what & epoll::GONE != 0 {
            return self.close(number, None);
        }
        self.advance(number);
    }

    /// Sends what is ready, and sees what to wait for.
    fn advance(&mut self, number: u64) {
        let Some(connection) = self.table.get(number) else {
            return;
        };
        if connection.transport.flush().is_err() {
            return self.close(number, None);
        }
        let transport = &connection.transport;
        let blocked = transport.wants_write();
        let full =
            connection.in_flight >= IN_FLIGHT_MAX || transport.waiting_bytes() >= WAITING_BYTES_MAX;
        if blocked || transport.is_handshaking() || connection.frames.is_partial() {
            connection.waiting_since_ns.get_or_insert_with(monotonic_ns);
        } else {
            connection.waiting_since_ns = None;
        }
        let interest = if blocked { epoll::WRITE } else { 0 } | if full { 0 } else { epoll::READ };
        if interest != connection.interest {
            connection.interest = interest;
            let descriptor = connection.transport.descriptor();
            if self.epoll.change(descriptor, interest, number).is_err() {
                self.close(number, None);
            }
        }
    }

    fn sweep(&mut self, now_ns: u64) {
        for number in self.table.numbers() {
            let since_ns = self
                .table
                .get(number)
                .and_then(|connection| connection.waiting_since_ns);
            if since_ns.is_some_and(|since_ns| now_ns - since_ns > self.thread.stall_ns) {
                self.thread.counts.closed_stalled.fetch_add(1, Relaxed);
                self.close(number, None);
            }
        }
        self.count_bytes();
    }

    fn count_bytes(&mut self) {
        for number in self.table.numbers() {
            if let Some(connection) = self.table.get(number) {
                count_bytes(&self.thread.counts, connection);
            }
        }
    }

    fn close(&mut self, number: u64, end: Option<End>) {
        // Dropping the socket closes it, which takes it out of epoll too.
        if let Some(mut connection) = self.table.remove(number) {
            connection.transport.say_goodbye();
            count_bytes(&self.thread.counts, &mut connection);
            self.thread.counts.connections.fetch_sub(1, Relaxed);
            if matches!(end, Some(End::Malformed)) {
                self.thread.counts.closed_malformed.fetch_add(1, Relaxed);
            }
        }
    }
}

fn count_bytes(counts: &Counts, connection: &mut Connection) {
    let (read, written) = mem::take(&mut connection.transport.bytes);
    counts.bytes_read.fetch_add(read, Relaxed);
    counts.bytes_written.fetch_add(written, Relaxed);
}

/// Reads what has come and hands the calls on. Ok(false): the client has ended the stream.
fn receive<S: Service>(
    thread: &IoThread<S>,
    number: u64,
    connection: &mut Connection,
    buffer: &mut [u8],
) -> Result<bool, End> {
    let Connection {
        transport,
        frames,
        in_flight,
        ..
    } = connection;
    let mut refusals = Vec::new();
    let received = transport.receive(buffer, |bytes| {
        frames.take(bytes, |frame| {
            let (seqid, request) = parse::<S>(frame)?;
            let origin = Origin {
                thread: thread.number,
                connection: number,
                seqid,
                arrived_ns: monotonic_ns(),
            };
            match request.and_then(|request| thread.intake.admit(origin, request)) {
                Ok(()) => *in_flight += 1,
                Err(refusal) => {
                    thread.intake.refused(&refusal);
                    refusal.write(&mut refusals, S::METHOD, seqid);
                }
            }
            Ok::<(), End>(())
        })
    });
    transport.send(&refusals);
    received
}
