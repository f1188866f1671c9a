//! One fan-out thread: persistent connections to leaves, on which the calls of many workers are under way at once.
//!
//! Invariants: every call that is posted ends, by its answer, by the loss of its connection or by its deadline; a lost
//! connection is tried again, and calls meanwhile fail at once rather than wait.

use std::collections::{HashMap, VecDeque};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use std::{io, mem};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use steelyard_record::monotonic_ns;
use steelyard_serve::Mailbox;
use steelyard_thrift::{FrameBuffer, Message, Reader, ThriftError};

use super::epoll::{self, Epoll};
use super::transport::{READ_BYTES, Transport};

const MAILBOX: u64 = u64::MAX;
/// How long a lost connection is left alone before it is tried again.
const RETRY_NS: u64 = 100_000_000;
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// Deadlines are looked at this often.
const TICK_MS: i32 = 50;

/// The answers to one request's calls, for the worker that waits for them.
#[derive(Debug)]
pub struct Batch {
    state: Mutex<BatchState>,
    complete: Condvar,
}

#[derive(Debug)]
struct BatchState {
    answers: Vec<Option<Result<Vec<u8>, String>>>,
    missing: usize,
}

impl Batch {
    /// A batch of `calls` calls.
    pub fn new(calls: usize) -> Self {
        Self {
            state: Mutex::new(BatchState {
                answers: (0..calls).map(|_| None).collect(),
                missing: calls,
            }),
            complete: Condvar::new(),
        }
    }

    fn deliver(&self, call: usize, answer: Result<Vec<u8>, String>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.answers[call].is_none() {
            state.answers[call] = Some(answer);
            state.missing -= 1;
            if state.missing == 0 {
                drop(state);
                self.complete.notify_one();
            }
        }
    }

    /// Waits for all answers: the message of each call, in order, or why one has none.
    pub fn wait(&self) -> Result<Vec<Vec<u8>>, String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.missing > 0 {
            state = self
                .complete
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let answers = mem::take(&mut state.answers);
        answers.into_iter().flatten().collect()
    }
}

/// A call to a leaf.
#[derive(Debug)]
pub struct Call {
    /// Which of the thread's connections.
    pub connection: usize,
    /// Its sequence number, which no other call under way has.
    pub seqid: i32,
    /// The framed message.
    pub frame: Vec<u8>,
    /// Where its answer goes.
    pub batch: Arc<Batch>,
    /// Which call of the batch.
    pub index: usize,
}

/// What others hand to a fan-out thread.
#[derive(Debug, Default)]
pub struct Post {
    /// Calls.
    pub calls: Vec<Call>,
    /// Connections that were made, or why not.
    connected: Vec<(usize, io::Result<TcpStream>)>,
}

/// TLS towards leaves.
#[derive(Debug, Clone)]
pub struct LeafTls {
    /// Whom to trust.
    pub config: Arc<ClientConfig>,
    /// What the leaves' certificates are for.
    pub name: ServerName<'static>,
}

/// What a fan-out thread works with.
#[derive(Debug)]
pub struct FanoutThread {
    /// What it is handed.
    pub mailbox: Arc<Mailbox<Post>>,
    /// The leaf of each of its connections.
    pub leaves: Vec<SocketAddr>,
    /// TLS, if any.
    pub tls: Option<LeafTls>,
    /// How long an answer may take.
    pub timeout_ns: u64,
    /// Set when the server ends.
    pub stop: Arc<AtomicBool>,
}

struct Link {
    transport: Transport,
    frames: FrameBuffer,
    interest: u32,
}

struct Pending {
    batch: Arc<Batch>,
    index: usize,
}

/// One connection, whether it stands or not.
struct Leaf {
    address: SocketAddr,
    link: Option<Link>,
    pending: HashMap<i32, Pending>,
    /// Calls by the time at which they have waited too long.
    deadlines: VecDeque<(u64, i32)>,
    /// When to try again; None while a try is under way or the link stands.
    retry_at_ns: Option<u64>,
    why: String,
}

impl Leaf {
    fn fail_all(&mut self, why: String) {
        let address = self.address;
        for (_, pending) in self.pending.drain() {
            let error = Err(format!("leaf {address}: {why}"));
            pending.batch.deliver(pending.index, error);
        }
        self.deadlines.clear();
        self.link = None;
        self.retry_at_ns = Some(monotonic_ns() + RETRY_NS);
        self.why = why;
    }
}

struct Loop<'a> {
    thread: &'a FanoutThread,
    epoll: Epoll,
    leaves: Vec<Leaf>,
}

/// Connects to each leaf once, so that a wrong address is known at the start.
pub fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)
}

/// Carries calls until the server ends. `sockets` are connections to its leaves.
pub fn run(thread: &FanoutThread, sockets: Vec<TcpStream>) -> io::Result<()> {
    let leaves = thread.leaves.iter().map(|&address| Leaf {
        address,
        link: None,
        pending: HashMap::new(),
        deadlines: VecDeque::new(),
        retry_at_ns: None,
        why: String::new(),
    });
    let mut this = Loop {
        thread,
        epoll: Epoll::new()?,
        leaves: leaves.collect(),
    };
    this.epoll
        .add(thread.mailbox.descriptor(), epoll::READ, MAILBOX)?;
    for (number, socket) in sockets.into_iter().enumerate() {
        this.linked(number, Ok(socket));
    }
    let (mut events, mut buffer) = (Vec::new(), vec![0; READ_BYTES]);
    loop {
        this.epoll.wait(TICK_MS, &mut events)?;
        for (number, what) in events.drain(..) {
            if number == MAILBOX {
                this.take_post();
            } else {
                this.handle(number as usize, what, &mut buffer);
            }
        }
        if thread.stop.load(SeqCst) {
            for leaf in &mut this.leaves {
                if let Some(link) = &mut leaf.link {
                    link.transport.say_goodbye();
                }
                leaf.fail_all("the server ends".to_owned());
            }
            return Ok(());
        }
        this.tick();
    }
}

impl Loop<'_> {
    fn take_post(&mut self) {
        let post = self.thread.mailbox.take();
        for (number, socket) in post.connected {
            self.linked(number, socket);
        }
        let deadline_ns = monotonic_ns() + self.thread.timeout_ns;
        let mut touched = Vec::new();
        for call in post.calls {
            let leaf = &mut self.leaves[call.connection];
            let Some(link) = &mut leaf.link else {
                let error = format!("leaf {}: not connected ({})", leaf.address, leaf.why);
                call.batch.deliver(call.index, Err(error));
                continue;
            };
            link.transport.send(&call.frame);
            let pending = Pending {
                batch: call.batch,
                index: call.index,
            };
            leaf.pending.insert(call.seqid, pending);
            leaf.deadlines.push_back((deadline_ns, call.seqid));
            touched.push(call.connection);
        }
        touched.sort_unstable();
        touched.dedup();
        for number in touched {
            self.advance(number);
        }
    }

    /// Begins to use a connection that was made.
    fn linked(&mut self, number: usize, socket: io::Result<TcpStream>) {
        let result = socket.and_then(|socket| {
            let session = match &self.thread.tls {
                Some(tls) => Some(
                    ClientConnection::new(tls.config.clone(), tls.name.clone())
                        .map_err(io::Error::other)?
                        .into(),
                ),
                None => None,
            };
            let transport = Transport::new(socket, session)?;
            let interest = epoll::READ;
            self.epoll
                .add(transport.descriptor(), interest, number as u64)?;
            self.leaves[number].link = Some(Link {
                transport,
                frames: FrameBuffer::default(),
                interest,
            });
            Ok(())
        });
        match result {
            Ok(()) => self.advance(number),
            Err(error) => self.leaves[number].fail_all(error.to_string()),
        }
    }

    fn handle(&mut self, number: usize, what: u32, buffer: &mut [u8]) {
        let leaf = &mut self.leaves[number];
        let Some(link) = &mut leaf.link else {
            return;
        };
        if what & epoll::READ != 0 {
            let (frames, pending) = (&mut link.frames, &mut leaf.pending);
            let received = link.transport.receive(buffer, |bytes| {
                frames.take(bytes, |frame| {
                    let message = Message::read(&mut Reader::new(frame))?;
                    // An answer that came too late has nobody waiting for it.
                    if let Some(pending) = pending.remove(&message.seqid) {
                        pending.batch.deliver(pending.index, Ok(frame.to_vec()));
                    }
                    Ok::<(), Lost>(())
                })
            });
            match received {
                Ok(true) => {}
                Ok(false) => return leaf.fail_all("closed the connection".to_owned()),
                Err(Lost(why)) => return leaf.fail_all(why),
            }
        } else if what & epoll::GONE != 0 {
            return leaf.fail_all("the connection was lost".to_owned());
        }
        self.advance(number);
    }

    fn advance(&mut self, number: usize) {
        let leaf = &mut self.leaves[number];
        let Some(link) = &mut leaf.link else {
            return;
        };
        if let Err(error) = link.transport.flush() {
            return leaf.fail_all(error.to_string());
        }
        let blocked = link.transport.wants_write();
        let interest = if blocked { epoll::WRITE } else { 0 } | epoll::READ;
        if interest != link.interest {
            link.interest = interest;
            let descriptor = link.transport.descriptor();
            if let Err(error) = self.epoll.change(descriptor, interest, number as u64) {
                self.leaves[number].fail_all(error.to_string());
            }
        }
    }

    /// Ends calls that have waited too long, and tries lost connections again.
    fn tick(&mut self) {
        let now_ns = monotonic_ns();
        for (number, leaf) in self.leaves.iter_mut().enumerate() {
            while let Some(&(deadline_ns, seqid)) = leaf.deadlines.front() {
                let waits = leaf.pending.contains_key(&seqid);
                if waits && deadline_ns > now_ns {
                    break;
                }
                leaf.deadlines.pop_front();
                if let Some(pending) = leaf.pending.remove(&seqid) {
                    let error = Err(format!("leaf {}: no answer in time", leaf.address));
                    pending.batch.deliver(pending.index, error);
                }
            }
            if leaf.retry_at_ns.is_some_and(|at_ns| at_ns <= now_ns) {
                leaf.retry_at_ns = None;
                retry(number, leaf.address, self.thread.mailbox.clone());
            }
        }
    }
}

/// Connects in a thread of its own, because that may take long and others must not wait for it.
fn retry(number: usize, address: SocketAddr, mailbox: Arc<Mailbox<Post>>) {
    std::thread::spawn(move || {
        let socket = connect(address);
        mailbox.post(|post| post.connected.push((number, socket)));
    });
}

/// Why a connection is of no further use.
struct Lost(String);

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<ThriftError> for Lost {
    fn from(error: ThriftError) -> Self {
        Self(error.to_string())
    }
}
