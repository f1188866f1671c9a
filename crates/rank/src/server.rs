//! A process of the service: a listener that hands connections to I/O threads in turn, workers, the simulated backend,
//! the statistics file.
//!
//! Invariants: SIGINT or SIGTERM ends every thread and writes the last line of statistics before `run` returns; a
//! request that is accepted is answered unless its connection or the process ends first; what may wait is bounded.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Relaxed, SeqCst},
};
use std::thread::JoinHandle;
use std::time::Duration;

use rustls::ServerConfig;
use steelyard_launch::Stop;
use steelyard_record::monotonic_ns;
use steelyard_serve::{
    Acceptor, Mailbox, Pinning, StatsFile, StatsWriter, Threads, allow_connections, give_up,
};
use steelyard_thrift::{Message, MessageKind, write_frame};

use crate::RankError;
use crate::net::fanout::{self, FanoutThread};
use crate::net::serve::{self, Answer, Counts, Intake, IoThread, Origin, Post};
use crate::pool::{Backend, Queue};
use crate::report::{Reporter, Shown, WorkerCounts};
use crate::service::{Refusal, Service, StageClock, StageTimes};

/// The program's name in its last message.
const PROGRAM: &str = "steelyard-rank";
/// Requests that may be in a leaf's backend at once.
const BACKEND_CAPACITY: usize = 1 << 16;

/// Settings of every process of the service.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Address and port, 0 for a free one.
    pub listen: String,
    /// Threads that own connections.
    pub io_threads: usize,
    /// Threads that work on requests.
    pub workers: usize,
    /// Requests that may wait for a worker.
    pub queue: usize,
    /// Most open connections.
    pub max_connections: usize,
    /// Largest frame of a client, bytes.
    pub frame_bytes_max: u32,
    /// How long a client may stand still in the middle of something.
    pub stall: Duration,
    /// TLS, if any.
    pub tls: Option<Arc<ServerConfig>>,
    /// Whether threads stay on one CPU each; None: they float.
    pub pinning: Option<Pinning>,
    /// Where statistics go.
    pub stats_file: Option<StatsFile>,
}

/// A listener that has its address but serves no client yet.
#[derive(Debug)]
pub struct Listener {
    settings: Settings,
    acceptor: Acceptor,
    stats: Option<StatsWriter>,
}

/// A fan-out thread that is ready to start, with its connections.
#[derive(Debug)]
pub struct FanoutSetup {
    /// What it works with.
    pub thread: FanoutThread,
    /// A connection to each of its leaves.
    pub sockets: Vec<TcpStream>,
}

/// A request with all that its answer needs.
struct Job<R> {
    origin: Origin,
    request: R,
    queued_ns: u64,
}

/// What workers, the backend and I/O threads share.
struct Shared<S: Service> {
    service: S,
    queue: Queue<Job<S::Request>>,
    backend: Option<Backend<Job<S::Request>>>,
    mailboxes: Vec<Arc<Mailbox<Post>>>,
    reporter: Reporter,
}

impl Listener {
    /// Listens and opens the statistics file.
    ///
    /// From here on SIGINT and SIGTERM are a request to stop, which `run` waits for.
    pub fn new(mut settings: Settings) -> Result<Self, RankError> {
        settings.max_connections = allow_connections(settings.max_connections);
        let listener = TcpListener::bind(&settings.listen).map_err(|source| RankError::Listen {
            address: settings.listen.clone(),
            source,
        })?;
        let stats = settings.stats_file.as_ref().map(StatsFile::create);
        let signals = Stop::watch()
            .and_then(Stop::try_clone)
            .map_err(RankError::system("eventfd"))?;
        Ok(Self {
            acceptor: Acceptor::new(listener, signals).map_err(RankError::system("fcntl"))?,
            stats: stats.transpose()?,
            settings,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> Result<SocketAddr, RankError> {
        self.acceptor
            .address()
            .map_err(RankError::system("getsockname"))
    }

    /// Serves until SIGINT or SIGTERM; `stop` is set at the end.
    pub fn run<S: Service>(
        self,
        service: S,
        shown: Shown,
        fanout: Vec<FanoutSetup>,
        stop: &Arc<AtomicBool>,
    ) -> Result<(), RankError> {
        let threads = Arc::new(Threads::placed(self.settings.pinning.clone()));
        let counts = Arc::new(Counts::default());
        let mailboxes = (0..self.settings.io_threads)
            .map(|_| Mailbox::new().map(Arc::new))
            .collect::<io::Result<Vec<_>>>()
            .map_err(RankError::system("eventfd"))?;
        let workers = (0..self.settings.workers)
            .map(|_| Arc::new(WorkerCounts::new(S::STAGES.len())))
            .collect();
        let shared = Arc::new(Shared {
            service,
            queue: Queue::new(self.settings.queue),
            backend: S::HAS_BACKEND.then(|| Backend::new(BACKEND_CAPACITY)),
            mailboxes,
            reporter: Reporter {
                shown,
                threads: threads.clone(),
                workers,
                refused: Default::default(),
                io: counts.clone(),
            },
        });
        let io = self.start_io(&shared, &threads, &counts, stop)?;
        let workers = start_workers(&shared, &threads)?;
        let fanout_mailboxes: Vec<_> = fanout
            .iter()
            .map(|setup| setup.thread.mailbox.clone())
            .collect();
        let fanout = start_fanout(fanout, &threads)?;
        let result = self.accept(&shared);
        // From the front to the back: nothing new comes in, what is under way ends, its answers go out.
        for job in shared.queue.stop() {
            shared.refuse(&job.origin, &Refusal::Ending);
        }
        if let Some(backend) = &shared.backend {
            backend.stop();
        }
        // Workers may be waiting for leaves, whose answers the fan-out threads still take until `stop` is set.
        join(workers);
        stop.store(true, SeqCst);
        shared.mailboxes.iter().for_each(|mailbox| mailbox.wake());
        fanout_mailboxes.iter().for_each(|mailbox| mailbox.wake());
        join(fanout);
        join(io);
        result.and_then(|()| self.write_stats(&shared))
    }

    fn start_io<S: Service>(
        &self,
        shared: &Arc<Shared<S>>,
        threads: &Arc<Threads>,
        counts: &Arc<Counts>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Vec<JoinHandle<()>>, RankError> {
        let mut running = Vec::new();
        for (number, mailbox) in shared.mailboxes.iter().enumerate() {
            let thread = IoThread::<S> {
                number,
                mailbox: mailbox.clone(),
                intake: shared.clone(),
                tls: self.settings.tls.clone(),
                frame_bytes_max: self.settings.frame_bytes_max,
                stall_ns: self.settings.stall.as_nanos() as u64,
                counts: counts.clone(),
                stop: stop.clone(),
            };
            running.push(start(threads, "io", number, move || {
                if let Err(error) = serve::run(&thread) {
                    give_up(PROGRAM, &format!("I/O thread {number}: {error}"));
                }
            })?);
        }
        Ok(running)
    }

    /// Accepts connections and writes statistics until a signal comes.
    fn accept<S: Service>(&self, shared: &Shared<S>) -> Result<(), RankError> {
        let interval = self.settings.stats_file.as_ref().map(|file| file.interval);
        let mut turn = 0;
        self.acceptor.serve(
            interval,
            monotonic_ns,
            RankError::system("poll"),
            |socket| self.admit(socket, shared, &mut turn),
            || self.write_stats(shared),
        )
    }

    fn admit<S: Service>(&self, socket: TcpStream, shared: &Shared<S>, turn: &mut usize) {
        let counts = &shared.reporter.io;
        counts.connections_total.fetch_add(1, Relaxed);
        // One too many is closed: TLS knows no word for it.
        if counts.connections.load(Relaxed) < self.settings.max_connections as u64 {
            counts.connections.fetch_add(1, Relaxed);
            let mailbox = &shared.mailboxes[*turn % shared.mailboxes.len()];
            mailbox.post(|post| post.sockets.push(socket.into()));
            *turn += 1;
        }
    }

    fn write_stats<S: Service>(&self, shared: &Shared<S>) -> Result<(), RankError> {
        let Some(stats) = &self.stats else {
            return Ok(());
        };
        let backend_depth = shared.backend.as_ref().map(Backend::depth);
        let record = shared.reporter.record(shared.queue.counts(), backend_depth);
        Ok(stats
            .add(serde_json::to_vec(&record).expect("a record of numbers and strings is JSON"))?)
    }
}

fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        // A panic has ended the process already.
        let _ = thread.join();
    }
}

fn start(
    threads: &Arc<Threads>,
    kind: &'static str,
    number: usize,
    body: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, RankError> {
    threads
        .start(PROGRAM, kind, number, body)
        .map_err(RankError::system("starting a thread"))
}

fn start_workers<S: Service>(
    shared: &Arc<Shared<S>>,
    threads: &Arc<Threads>,
) -> Result<Vec<JoinHandle<()>>, RankError> {
    let mut running = Vec::new();
    for (number, counts) in shared.reporter.workers.iter().enumerate() {
        let (shared, counts) = (shared.clone(), counts.clone());
        running.push(start(threads, "worker", number, move || {
            shared.work(&counts);
        })?);
    }
    if shared.backend.is_some() {
        let shared = shared.clone();
        running.push(start(threads, "backend", 0, move || shared.let_due_in())?);
    }
    Ok(running)
}

fn start_fanout(
    fanout: Vec<FanoutSetup>,
    threads: &Arc<Threads>,
) -> Result<Vec<JoinHandle<()>>, RankError> {
    let mut running = Vec::new();
    for (number, FanoutSetup { thread, sockets }) in fanout.into_iter().enumerate() {
        running.push(start(threads, "fan-out", number, move || {
            if let Err(error) = fanout::run(&thread, sockets) {
                give_up(PROGRAM, &format!("fan-out thread {number}: {error}"));
            }
        })?);
    }
    Ok(running)
}

impl<S: Service> Intake<S> for Shared<S> {
    fn admit(&self, origin: Origin, request: S::Request) -> Result<(), Refusal> {
        let delay_ns = self.service.delay_ns(&request);
        let mut job = Job {
            origin,
            request,
            queued_ns: origin.arrived_ns,
        };
        let accepted = match &self.backend {
            Some(backend) if delay_ns > 0 => {
                job.queued_ns = origin.arrived_ns + delay_ns;
                backend.push(job.queued_ns, job)
            }
            _ => self.queue.push(job),
        };
        accepted.map_err(|_| Refusal::Overloaded)
    }

    fn refused(&self, refusal: &Refusal) {
        self.reporter.refused[refusal.number()].fetch_add(1, Relaxed);
    }
}

impl<S: Service> Shared<S> {
    /// A worker's life.
    fn work(&self, counts: &WorkerCounts) {
        let mut room = self.service.room();
        while let Some(job) = self.queue.take() {
            let mut stages = StageTimes::new(S::STAGES);
            stages.add(0, monotonic_ns().saturating_sub(job.queued_ns), 0);
            if S::HAS_BACKEND {
                stages.add(1, job.queued_ns - job.origin.arrived_ns, 0);
            }
            let mut clock = StageClock::start(stages);
            let mut frame = Vec::new();
            match self.service.work(&job.request, &mut clock, &mut room) {
                Ok(blob) => {
                    let reply = Message {
                        kind: MessageKind::Reply,
                        seqid: job.origin.seqid,
                        name: S::METHOD,
                    };
                    write_frame(&mut frame, |message| {
                        reply.write(message, |result| {
                            result.field_struct(0, |fields| {
                                S::write(&blob, clock.stages(), fields);
                            });
                        });
                    });
                    let service_ns = monotonic_ns() - job.origin.arrived_ns;
                    counts.answered(blob.checksum, service_ns, clock.stages());
                }
                Err(refusal) => {
                    self.refuse(&job.origin, &refusal);
                    continue;
                }
            }
            self.answer(&job.origin, frame);
        }
    }

    /// The backend's life: requests go on to the workers when they are due.
    fn let_due_in(&self) {
        let Some(backend) = &self.backend else {
            return;
        };
        while let Some(job) = backend.take() {
            if let Err(job) = self.queue.push(job) {
                self.refuse(&job.origin, &Refusal::Overloaded);
            }
        }
    }

    fn refuse(&self, origin: &Origin, refusal: &Refusal) {
        self.refused(refusal);
        let mut frame = Vec::new();
        refusal.write(&mut frame, S::METHOD, origin.seqid);
        self.answer(origin, frame);
    }

    fn answer(&self, origin: &Origin, frame: Vec<u8>) {
        let answer = Answer {
            connection: origin.connection,
            frame,
        };
        self.mailboxes[origin.thread].post(|post| post.answers.push(answer));
    }
}
