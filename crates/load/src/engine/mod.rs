//! The event loop of one generator thread.
//!
//! Each turn: note the time, cut intervals, make requests that are due, encode them, send them in one batch,
//! wait for answers. A request's *intended* time is set when it becomes due and never moved: in an open loop
//! by the schedule, in a closed loop by the answer before it. Requests that find no free connection wait in a
//! queue and keep their intended time.
//!
//! Time stamps: the sends of a batch run one after the other in one call, so each gets the time interpolated
//! between the call's begin and end: exact for a batch of one, off by at most the batch's duration otherwise.
//! Answers have the time of their arrival as the kernel stamped it, by epoll that after the read. In a closed loop
//! the next request is due at that same time, so that what the generator takes to get round to it is lag, and
//! connections over response time is the rate.

mod answers;
mod connection;
mod handshake;
mod pace;
mod phases;
mod requests;
mod source;

pub use source::Source;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use steelyard_kernel::usage::Usage;
use steelyard_record::monotonic_ns;

use self::connection::{Connection, Due};
use self::pace::Pacer;
use crate::codec::{Answer, Codec};
use crate::control::{Control, Interval};
use crate::io::{Event, GATHER_NS, Transport, Wait, connect_blocking};
use crate::random::Purpose;
use crate::tally::Measured;
use crate::workload::Workload;
use crate::{Address, LoadError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A prefill without an answer for this long has failed.
const PREFILL_STALL_NS: u64 = 10_000_000_000;

/// What a generator thread reports to the controlling thread.
pub enum Report {
    /// Its connections are made and its keys are in the server.
    Ready,
    /// It cannot go on.
    Failed(LoadError),
    /// An interval has ended.
    Interval(usize, Box<Interval>),
    /// The load has ended.
    Done(usize, Box<Measured>),
}

/// Which requests a thread makes before the load.
#[derive(Debug, Clone, Copy)]
pub struct Prefill {
    /// Index of what to do with each key.
    pub operation: usize,
    /// First key.
    pub first: u64,
    /// Distance to the next.
    pub step: u64,
}

/// What one thread is to do.
pub struct Task {
    /// Number of the thread.
    pub index: usize,
    /// Server.
    pub target: Address,
    /// The numbers of its connections among all.
    pub connections: Vec<u64>,
    /// Requests in flight per connection at most.
    pub depth: usize,
    /// Most requests waiting or in flight.
    pub max_outstanding: usize,
    /// How long answers are awaited after the end.
    pub drain_ns: u64,
    /// How long one answer may take from the send of its request; `u64::MAX` is for ever.
    pub timeout_ns: u64,
    /// Seed of every stream.
    pub seed: u64,
    /// What to ask.
    pub workload: Arc<Workload>,
    /// What to ask before.
    pub prefill: Option<Prefill>,
    /// Phases.
    pub control: Arc<Control>,
    /// Where to report.
    pub reports: Sender<Report>,
    /// Intervals to use again.
    pub spare: Receiver<Box<Interval>>,
}

/// What makes requests due.
enum Loop {
    /// Keys in order, once.
    Prefill {
        operation: usize,
        next: u64,
        step: u64,
    },
    /// An answer makes the next request of its connection due.
    Closed,
    /// A schedule does.
    Open(Box<OpenLoop>),
}

struct OpenLoop {
    source: Source,
    /// Due requests without a connection.
    queue: VecDeque<Due>,
}

/// Makes a fresh codec.
pub type Make<C> = Arc<dyn Fn() -> C + Send + Sync>;

/// One thread's event loop over a codec and a transport.
pub struct Engine<C, T> {
    transport: T,
    state: State<C>,
    pacer: Pacer,
}

/// Everything but the transport, so that its events can be handled while it is borrowed.
struct State<C> {
    task: Task,
    make: Make<C>,
    connections: Vec<Connection<C>>,
    /// Connections with bytes to send.
    dirty: Vec<usize>,
    /// Connections whose bytes were given to the transport in this turn.
    sending: Vec<usize>,
    /// Connections that can take a request, the one that waited longest first.
    free: VecDeque<usize>,
    /// Connections whose closed loop has due requests.
    due: Vec<usize>,
    broken: Vec<usize>,
    handshakes: handshake::Handshakes,
    /// When it is next looked for answers that take too long.
    next_late_check_ns: u64,
    down: usize,
    outstanding: usize,
    depth: usize,
    kind: Loop,
    answers: Vec<Answer>,
    interval: Box<Interval>,
    interval_end_ns: u64,
    cpu_ns: (u64, u64),
    measured: Box<Measured>,
    /// Begin and end of the measure phase, as last read.
    measure: (u64, u64),
    last_answer_ns: u64,
    /// Receives since `gap_since_ns`, and the mean distance between them lately.
    receives: u32,
    gap_since_ns: u64,
    gap_ns: f64,
}

impl<C: Codec, T: Transport> Engine<C, T> {
    /// Connects everything; `make` makes a fresh codec.
    pub fn new(task: Task, make: Make<C>, mut transport: T) -> Result<Self, LoadError> {
        let mut connections = Vec::with_capacity(task.connections.len());
        for (slot, &number) in task.connections.iter().enumerate() {
            let socket = connect_blocking(&task.target, CONNECT_TIMEOUT).map_err(|source| {
                LoadError::Connect {
                    target: task.target.to_string(),
                    source,
                }
            })?;
            transport
                .open(slot, socket)
                .map_err(|source| LoadError::Io {
                    what: "opening a socket",
                    source,
                })?;
            let random = Purpose::Requests.stream(task.seed, number);
            connections.push(Connection::new(make(), task.depth, random));
        }
        let state = State {
            make,
            dirty: Vec::with_capacity(connections.len()),
            sending: Vec::with_capacity(connections.len()),
            free: VecDeque::with_capacity(connections.len()),
            due: Vec::with_capacity(connections.len()),
            broken: Vec::new(),
            handshakes: handshake::Handshakes::default(),
            next_late_check_ns: 0,
            down: 0,
            outstanding: 0,
            depth: task.depth,
            kind: Loop::Closed,
            answers: Vec::with_capacity(64),
            interval: Box::default(),
            interval_end_ns: u64::MAX,
            cpu_ns: (0, 0),
            measured: Box::new(Measured::of(task.workload.operations())),
            measure: (u64::MAX, u64::MAX),
            last_answer_ns: 0,
            receives: 0,
            gap_since_ns: monotonic_ns(),
            gap_ns: GATHER_NS as f64,
            connections,
            task,
        };
        Ok(Self {
            transport,
            state,
            pacer: Pacer::default(),
        })
    }

    /// Asks for every key of the thread's share once.
    pub fn prefill(&mut self) -> Result<(), LoadError> {
        let Some(prefill) = self.state.task.prefill else {
            return Ok(());
        };
        let state = &mut self.state;
        state.kind = Loop::Prefill {
            operation: prefill.operation,
            next: prefill.first,
            step: prefill.step,
        };
        state.depth = state.task.depth.max(16);
        let begin_ns = monotonic_ns();
        state.last_answer_ns = begin_ns;
        state.start_closed(begin_ns);
        loop {
            let now_ns = monotonic_ns();
            if self.state.task.control.aborted() {
                break;
            }
            if now_ns > self.state.last_answer_ns + PREFILL_STALL_NS {
                return Err(LoadError::Prefill {
                    why: "the server has stopped answering".to_owned(),
                });
            }
            self.turn(now_ns, Wait::Tick)?;
            if self.state.outstanding == 0 && self.state.prefill_over() && !self.state.is_again() {
                break;
            }
        }
        let counts = self.state.interval.counts;
        if counts.errors as f64 > 1e-3 * (counts.completed + counts.errors) as f64 {
            let kinds: Vec<String> = self
                .state
                .measured
                .errors_by_kind
                .iter()
                .map(|(kind, n)| format!("{n} {kind}"))
                .collect();
            return Err(LoadError::Prefill {
                why: format!(
                    "{} of {} keys failed ({})",
                    counts.errors,
                    counts.completed + counts.errors,
                    kinds.join(", ")
                ),
            });
        }
        Ok(())
    }

    /// Tells the controlling thread that the load may begin.
    pub fn report_ready(&self) {
        let _ = self.state.task.reports.send(Report::Ready);
    }

    /// Runs the load from `start_ns` until it has drained: by `source` in an open loop, else closed.
    pub fn run(mut self, start_ns: u64, source: Option<Source>) -> Result<(), LoadError> {
        let state = &mut self.state;
        state.depth = state.task.depth;
        state.measure = state.task.control.measure();
        state.interval.restart(start_ns);
        state.interval_end_ns = state.task.control.interval_end(start_ns);
        *state.measured = Measured::of(state.task.workload.operations());
        state.cpu_ns = Usage::of_thread().times_ns();
        state.due.clear();
        for connection in &mut state.connections {
            connection.due.clear();
            connection.again.clear();
        }
        match source {
            Some(source) => {
                state.kind = Loop::Open(Box::new(OpenLoop {
                    source,
                    queue: VecDeque::new(),
                }));
                state.refresh_free();
            }
            None => {
                state.kind = Loop::Closed;
                self.wait_until(start_ns)?;
                self.state.start_closed(start_ns);
            }
        }
        self.run_loop()?;
        let state = self.state;
        let _ = state
            .task
            .reports
            .send(Report::Done(state.task.index, state.measured));
        Ok(())
    }

    /// Waits with nothing due: a closed loop that began before its start would answer requests before they were due.
    fn wait_until(&mut self, start_ns: u64) -> Result<(), LoadError> {
        loop {
            let now_ns = monotonic_ns();
            if now_ns >= start_ns {
                return Ok(());
            }
            self.turn(now_ns, self.pacer.wait(now_ns, start_ns))?;
        }
    }

    fn run_loop(&mut self) -> Result<(), LoadError> {
        loop {
            let now_ns = monotonic_ns();
            let state = &mut self.state;
            state.look_at_phases();
            state.catch_up(now_ns);
            if let Loop::Open(open) = &mut state.kind {
                open.source.measure(state.measure.0);
                if let Some(error) = open.source.take_failure() {
                    return Err(error);
                }
            }
            // Before the end is looked at: what fell due before it belongs to the load however late it is seen.
            let due_ns = state.make_due(now_ns);
            let end_ns = state.measure.1;
            if now_ns >= end_ns {
                let drained = state.outstanding == 0 && state.waiting() == 0;
                let most_ns = state.task.control.drain_most_ns();
                let drain_ns = state.task.drain_ns.min(most_ns);
                if drained || now_ns - end_ns >= drain_ns {
                    state.finish(now_ns);
                    return Ok(());
                }
            }
            let retry_ns = state.next_retry();
            let wait = match due_ns.into_iter().chain(retry_ns).min() {
                Some(at_ns) => self.pacer.wait(now_ns, at_ns),
                None => Wait::Tick,
            };
            let busy = self.turn(now_ns, wait)?;
            if !busy {
                match wait {
                    Wait::No => self.state.interval.counts.spin_ns += monotonic_ns() - now_ns,
                    Wait::Until(at_ns) => {
                        let woke_ns = monotonic_ns();
                        if woke_ns >= at_ns {
                            self.pacer.slept(at_ns, woke_ns);
                        }
                    }
                    Wait::Tick => {}
                }
            }
        }
    }

    /// Sends what can be sent and takes what has come; false when there was neither.
    fn turn(&mut self, now_ns: u64, wait: Wait) -> Result<bool, LoadError> {
        let state = &mut self.state;
        state.issue();
        let mut busy = !state.dirty.is_empty();
        if busy {
            state
                .send_dirty(&mut self.transport)
                .map_err(|source| LoadError::Io {
                    what: "sending",
                    source,
                })?;
        }
        // What was left to send before the wait makes the wait's end mean nothing.
        self.transport
            .poll(wait, state.gather(now_ns), &mut |slot, event| {
                busy |= !matches!(event, Event::Sent);
                state.receives += u32::from(matches!(event, Event::Received { .. }));
                state.handle(slot, event);
            })
            .map_err(|source| LoadError::Io {
                what: "waiting for answers",
                source,
            })?;
        state.break_silent(now_ns);
        state.break_late(now_ns);
        if !state.broken.is_empty() {
            state.clear_broken(&mut self.transport);
        }
        if state.down > 0 {
            state.reconnect(now_ns, &mut self.transport);
        }
        Ok(busy)
    }
}

impl<C: Codec> State<C> {
    /// Whether requests wait that a connection took with it.
    fn is_again(&self) -> bool {
        self.connections.iter().any(|c| !c.again.is_empty())
    }

    /// How much is due and not encoded.
    fn waiting(&self) -> usize {
        match &self.kind {
            Loop::Open(open) => open.queue.len(),
            _ => self.due.len(),
        }
    }

    fn prefill_over(&self) -> bool {
        match &self.kind {
            Loop::Prefill { next, .. } => *next >= self.task.workload.keys.count(),
            _ => true,
        }
    }

    /// Gives the bytes of all connections that take some to the transport, in one batch.
    fn send_dirty(&mut self, transport: &mut impl Transport) -> io::Result<()> {
        for slot in self.dirty.drain(..) {
            let connection = &mut self.connections[slot];
            connection.listed = false;
            // A connection that is still sending is listed again when it has done so.
            if !connection.out.is_empty() && transport.can_send(slot) {
                self.interval.counts.sent_bytes += connection.out.len() as u64;
                transport.send(slot, &mut connection.out);
                self.sending.push(slot);
            }
        }
        if self.sending.is_empty() {
            return Ok(());
        }
        let begin_ns = monotonic_ns();
        transport.flush()?;
        let end_ns = monotonic_ns();
        let step_ns = (end_ns - begin_ns) as f64 / self.sending.len() as f64;
        for (index, slot) in self.sending.drain(..).enumerate() {
            let sent_ns = begin_ns + (index as f64 * step_ns) as u64;
            self.connections[slot].stamp(sent_ns, |pending| {
                let (intended_ns, measured) = (pending.due.intended_ns, pending.due.is_measured);
                let lag_ns = sent_ns.saturating_sub(intended_ns + pending.queued_ns);
                self.interval.tally.sent += u64::from(measured);
                self.interval
                    .sent(intended_ns, measured, lag_ns, pending.queued_ns);
            });
        }
        Ok(())
    }
}
