//! The server: a listener that hands connections to fast threads in turn, the fast threads, the slow threads,
//! and the statistics file.
//!
//! Invariants: at most `max_connections` are open; SIGINT or SIGTERM ends every thread and writes the last
//! line of statistics before `run` returns.

mod epoll;
mod holdings;
mod uring;

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use steelyard_launch::Stop;
use steelyard_record::monotonic_ns;
use steelyard_serve::{Acceptor, Delay, Pinning, StatsFile, StatsWriter, Threads, give_up};

use crate::CacheError;
use crate::clock;
use crate::counters::Counters;
use crate::mailbox::Mailbox;
use crate::object::Objects;
use crate::protocol;
use crate::report::{Reporter, Shown};
use crate::session::Worker;
use crate::slow::{SlowQueue, SlowThread};
use crate::store::{Store, least_memory_bytes};

use holdings::Holdings;
pub use holdings::Kicks;

/// Misses that may wait for each slow thread.
const WAITING_PER_SLOW_THREAD: usize = 64;

/// The program's name in its last message.
const PROGRAM: &str = "steelyard-cache";

/// The read-through half of a server.
#[derive(Debug)]
pub struct ReadThrough {
    /// Slow threads.
    pub slow_threads: usize,
    /// What the backend holds.
    pub objects: Objects,
    /// How long it takes.
    pub delay: Delay,
    /// Seed of the delays.
    pub seed: u64,
}

/// What a server is to do.
#[derive(Debug)]
pub struct Settings {
    /// Address and port, 0 for a free one.
    pub listen: String,
    /// Threads that own connections.
    pub fast_threads: usize,
    /// Bound on stored bytes.
    pub memory_bytes: u64,
    /// Longest value.
    pub max_value_bytes: usize,
    /// Most open connections.
    pub max_connections: usize,
    /// Bound on what connections hold in buffers, bytes.
    pub connection_memory_bytes: u64,
    /// Longest silence of a client in the middle of a request; None for any.
    pub request_timeout: Option<Duration>,
    /// Fill misses; None: look-aside.
    pub read_through: Option<ReadThrough>,
    /// How bytes are moved.
    pub io: Io,
    /// Whether threads stay on one CPU each; None: they float.
    pub pinning: Option<Pinning>,
    /// Where statistics go.
    pub stats_file: Option<StatsFile>,
}

/// What one fast thread works with.
#[derive(Debug)]
pub(crate) struct FastThread {
    number: usize,
    store: Arc<Store>,
    counters: Arc<Counters>,
    mailbox: Arc<Mailbox>,
    slow: Option<Arc<SlowQueue>>,
    reporter: Arc<Reporter>,
    stop: Arc<AtomicBool>,
    connection_bytes: usize,
    request_timeout_s: u32,
}

impl FastThread {
    fn holdings(&self) -> Holdings {
        Holdings::new(self.connection_bytes, self.request_timeout_s)
    }

    #[inline]
    fn worker(&self, now_s: u32, epoch_s: i64, connection: u64) -> Worker<'_> {
        Worker {
            store: &self.store,
            counters: &self.counters,
            now_s,
            epoch_s,
            slow: self.slow.as_deref(),
            thread: self.number,
            connection,
            reporter: &self.reporter,
        }
    }
}

/// How bytes are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Io {
    /// io_uring where the kernel permits it, else epoll.
    Auto,
    /// io_uring or nothing.
    Uring,
    /// epoll.
    Epoll,
}

impl Settings {
    /// Refuses what this kernel or this machine's memory does not allow; whether bytes are moved by io_uring.
    pub fn check(&self) -> Result<bool, CacheError> {
        let uring = choose_io(self.io)?;
        let least_bytes = least_memory_bytes(self.max_value_bytes);
        if self.memory_bytes < least_bytes {
            return Err(CacheError::MemoryTooSmall {
                memory_bytes: self.memory_bytes,
                least_bytes,
                max_value_bytes: self.max_value_bytes,
            });
        }
        steelyard_serve::check_cgroup(self.memory_bytes)?;
        Ok(uring)
    }
}

/// A server that listens and has its memory reserved, but serves no client yet.
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    acceptor: Acceptor,
    store: Arc<Store>,
    stats: Option<StatsWriter>,
    /// One for each fast thread; made before the server says that it is ready.
    mailboxes: Vec<Arc<Mailbox>>,
    uring: bool,
}

impl Server {
    /// Checks the settings against the machine, listens, and opens the statistics file.
    ///
    /// From here on SIGINT and SIGTERM are a request to stop, which `run` waits for.
    pub fn new(mut settings: Settings) -> Result<Self, CacheError> {
        let uring = settings.check()?;
        settings.max_connections = steelyard_serve::allow_connections(settings.max_connections);
        let listener =
            TcpListener::bind(&settings.listen).map_err(|source| CacheError::Listen {
                address: settings.listen.clone(),
                source,
            })?;
        let stats = settings.stats_file.as_ref().map(StatsFile::create);
        let stats = stats.transpose()?;
        let mailboxes = (0..settings.fast_threads)
            .map(|_| Mailbox::new().map(Arc::new))
            .collect::<io::Result<Vec<_>>>()
            .map_err(CacheError::system("eventfd"))?;
        let threads =
            settings.fast_threads + settings.read_through.as_ref().map_or(0, |r| r.slow_threads);
        let store = Store::new(settings.memory_bytes, settings.max_value_bytes, threads)
            .map_err(CacheError::system("reserving memory"))?;
        let signals = Stop::watch()
            .and_then(Stop::try_clone)
            .map_err(CacheError::system("eventfd"))?;
        Ok(Self {
            acceptor: Acceptor::new(listener, signals).map_err(CacheError::system("fcntl"))?,
            store: Arc::new(store),
            stats,
            mailboxes,
            uring,
            settings,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> Result<SocketAddr, CacheError> {
        self.acceptor
            .address()
            .map_err(CacheError::system("getsockname"))
    }

    /// What the connections of one fast thread may hold, bytes.
    fn connection_share(&self) -> usize {
        let share = self.settings.connection_memory_bytes / self.settings.fast_threads as u64;
        usize::try_from(share).unwrap_or(usize::MAX)
    }

    fn request_timeout_s(&self) -> u32 {
        let timeout = self.settings.request_timeout;
        timeout.map_or(0, |timeout| {
            u32::try_from(timeout.as_secs().max(1)).unwrap_or(u32::MAX)
        })
    }

    /// Serves until SIGINT or SIGTERM.
    #[expect(
        clippy::too_many_lines,
        reason = "starts everything in the order in which it is stopped"
    )]
    pub fn run(self) -> Result<(), CacheError> {
        let mailboxes = &self.mailboxes;
        let counters: Vec<Arc<Counters>> = mailboxes.iter().map(|_| Arc::default()).collect();
        let read_through = self.settings.read_through.as_ref();
        let slow_threads = read_through.map_or(0, |read_through| read_through.slow_threads);
        let slow = read_through.map(|_| {
            let capacity = slow_threads * WAITING_PER_SLOW_THREAD;
            Arc::new(SlowQueue::new(capacity, slow_threads, mailboxes.clone()))
        });
        let shown = Shown {
            port: self.address()?.port(),
            max_connections: self.settings.max_connections,
            fast_threads: self.settings.fast_threads,
            slow_threads,
            mode: if slow.is_some() {
                "read-through"
            } else {
                "look-aside"
            },
            io: if self.uring { "uring" } else { "epoll" },
        };
        let reporter = Arc::new(Reporter::new(
            counters.clone(),
            shown,
            Threads::placed(self.settings.pinning.clone()),
        ));
        let stop = Arc::new(AtomicBool::new(false));
        let threads = reporter.threads.clone();
        let mut running = Vec::new();
        for (number, (mailbox, counters)) in mailboxes.iter().zip(counters).enumerate() {
            let thread = FastThread {
                number,
                store: self.store.clone(),
                counters,
                mailbox: mailbox.clone(),
                slow: slow.clone(),
                reporter: reporter.clone(),
                stop: stop.clone(),
                connection_bytes: self.connection_share(),
                request_timeout_s: self.request_timeout_s(),
            };
            let serve = if self.uring { uring::run } else { epoll::run };
            running.push(start(&threads, "fast", number, move || {
                if let Err(error) = serve(&thread) {
                    give_up(PROGRAM, &format!("fast thread {}: {error}", thread.number));
                }
            })?);
        }
        if let (Some(read_through), Some(queue)) = (read_through, &slow) {
            for number in 0..slow_threads {
                let thread = SlowThread {
                    queue: queue.clone(),
                    store: self.store.clone(),
                    objects: read_through.objects.clone(),
                    delay: read_through.delay,
                    seed: read_through.seed,
                    number,
                    now_s: clock::now_s,
                };
                running.push(start(&threads, "slow", number, move || thread.run())?);
            }
        }
        let result = self.accept(&reporter, slow.as_deref());
        stop.store(true, Relaxed);
        for mailbox in mailboxes {
            mailbox.wake();
        }
        if let Some(slow) = &slow {
            slow.stop();
        }
        for thread in running {
            // A panic has ended the process: see `Watch`.
            let _ = thread.join();
        }
        result.and_then(|()| self.write_stats(&reporter, slow.as_deref()))
    }

    /// Accepts connections and writes statistics until a signal comes.
    fn accept(&self, reporter: &Reporter, slow: Option<&SlowQueue>) -> Result<(), CacheError> {
        let interval = self.settings.stats_file.as_ref().map(|file| file.interval);
        let mut turn = 0;
        self.acceptor.serve(
            interval,
            monotonic_ns,
            CacheError::system("poll"),
            |socket| self.admit(socket, reporter, &mut turn),
            || self.write_stats(reporter, slow),
        )
    }

    fn admit(&self, mut socket: TcpStream, reporter: &Reporter, turn: &mut usize) {
        reporter.connections_total.fetch_add(1, Relaxed);
        if reporter.connections.load(Relaxed) >= self.settings.max_connections as u64 {
            reporter.connections_refused.fetch_add(1, Relaxed);
            // A client that is already gone needs no message.
            let _ = socket.write_all(protocol::TOO_MANY_CONNECTIONS);
            return;
        }
        if socket
            .set_nonblocking(true)
            .and_then(|()| socket.set_nodelay(true))
            .is_err()
        {
            return;
        }
        reporter.connections.fetch_add(1, Relaxed);
        self.mailboxes[*turn % self.mailboxes.len()].post(|post| post.sockets.push(socket.into()));
        *turn += 1;
    }

    fn write_stats(&self, reporter: &Reporter, slow: Option<&SlowQueue>) -> Result<(), CacheError> {
        let Some(stats) = &self.stats else {
            return Ok(());
        };
        let record = serde_json::to_vec(&reporter.record(&self.store, slow))
            .expect("a record of numbers and strings is JSON");
        Ok(stats.add(record)?)
    }
}

/// Whether to use io_uring.
fn choose_io(io: Io) -> Result<bool, CacheError> {
    match (io, uring::available()) {
        (Io::Epoll, _) => Ok(false),
        (_, Ok(())) => Ok(true),
        (Io::Uring, Err(error)) => Err(CacheError::system("io_uring is not permitted here")(error)),
        (Io::Auto, Err(error)) => {
            tracing::info!("io_uring is not permitted here ({error}): using epoll");
            Ok(false)
        }
    }
}

fn start(
    threads: &Arc<Threads>,
    kind: &'static str,
    number: usize,
    body: impl FnOnce() + Send + 'static,
) -> Result<thread::JoinHandle<()>, CacheError> {
    threads
        .start(PROGRAM, kind, number, body)
        .map_err(CacheError::system("starting a thread"))
}
