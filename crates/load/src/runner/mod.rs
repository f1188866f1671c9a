//! The controlling thread: starts generator threads, sets the phases, and gathers what they report.

pub mod hlog;
mod worker;

use std::collections::BTreeMap;
use std::io::BufRead;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use steelyard_kernel::usage::Usage;
use steelyard_launch::Stop;
use steelyard_record::{Clock, LoadResult, monotonic_ns};

use crate::codec::{Factory, factory, set_up};
use crate::control::{Control, Counts, Interval, NOTICE_NS, Phase};
use crate::engine::Report;
use crate::io::Uring;
use crate::latency::Latencies;
use crate::progress::Progress;
use crate::settings::{IoChoice, Settings};
use crate::tally::Measured;
use crate::workload::Workload;
use crate::{LoadError, summary};

use hlog::{HlogWriter, begin_hlog, create_hlog, end_hlog, write_interval};
use worker::{Worker, task};

/// Time that the result may take after a request to stop.
const FINISH: Duration = Duration::from_secs(30);
/// Wait for answers after a request to stop, ns.
const FAREWELL_NS: u64 = 200_000_000;

/// How often orders and the wish to stop are looked for.
const LOOK_AROUND: Duration = Duration::from_millis(25);

/// Where the load's outputs go and where its commands come from.
pub struct Surroundings<'a> {
    /// The command line, for the record.
    pub command: Vec<String>,
    /// File for the interval histograms.
    pub hlog: Option<PathBuf>,
    /// Lines on standard error.
    pub progress: Progress,
    /// Set from outside to stop the load early.
    pub stop: &'a AtomicBool,
    /// Lines that command a held load.
    pub input: Option<Box<dyn BufRead + Send>>,
    /// Sees every interval when all threads have reported it; a break stops the load early.
    pub watch: Option<Watch<'a>>,
}

/// Looks at intervals while the load runs.
pub type Watch<'a> = &'a mut dyn FnMut(&Interval, Phase) -> ControlFlow<()>;

/// What the control input said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Begin to measure.
    Measure,
    /// The input has ended.
    Gone,
}

/// Runs the load that `settings` describe.
pub fn run(settings: &Settings, surroundings: Surroundings<'_>) -> Result<LoadResult, LoadError> {
    run_whole(settings, surroundings).map(|whole| whole.result)
}

/// A load that has ended, with the histograms that its result's percentiles come from.
#[derive(Debug)]
pub struct Whole {
    /// Its result.
    pub result: LoadResult,
    /// Latencies of the measure phase.
    pub latencies: Latencies,
    /// Response times of each operation that was drawn, by its name.
    pub operations: BTreeMap<String, Histogram<u64>>,
}

/// The same, with the histograms.
pub fn run_whole(settings: &Settings, surroundings: Surroundings<'_>) -> Result<Whole, LoadError> {
    settings.check()?;
    let settings = &Settings {
        target: settings.target.reach()?,
        ..settings.clone()
    };
    let io = choose_io(settings.io)?;
    let workload = Arc::new(Workload::of(settings)?);

    // The log's file is opened before any load: a name that cannot be written costs no run.
    let clock = Clock::now();
    let log = surroundings.hlog.clone();
    let mut file = log.as_deref().map(create_hlog).transpose()?;
    let mut serializer = V2DeflateSerializer::new();
    let mut hlog = match (&mut file, &log) {
        (Some(file), Some(path)) => Some(begin_hlog(file, &mut serializer, path, clock)?),
        _ => None,
    };
    let codecs = factory(settings, &workload)?;
    set_up(settings, &workload)?;
    let mut runner = Runner::start(settings, surroundings, io, &workload, &codecs, clock)?;
    runner.wait_ready()?;
    runner.begin();
    runner.gather(&mut hlog)?;
    drop(hlog);
    if let (Some(file), Some(path)) = (&mut file, &log) {
        end_hlog(file, path)?;
    }
    let Runner {
        surroundings,
        outcome,
        ..
    } = runner;
    let latencies = outcome.latencies.clone();
    let operations = summary::responses(&workload, &outcome.measured, &latencies)
        .into_iter()
        .map(|(name, responses)| (name.to_owned(), responses.clone()))
        .collect();
    let result = summary::result(settings, &workload, surroundings.command, outcome);
    Ok(Whole {
        result,
        latencies,
        operations,
    })
}

pub(crate) fn file_error(path: &Path, source: std::io::Error) -> LoadError {
    LoadError::File {
        path: path.to_owned(),
        source,
    }
}

fn choose_io(choice: IoChoice) -> Result<&'static str, LoadError> {
    match choice {
        IoChoice::Epoll => Ok("epoll"),
        IoChoice::Uring | IoChoice::Auto => match Uring::new(1) {
            Ok(_) => Ok("uring"),
            Err(error) if choice == IoChoice::Auto => {
                tracing::info!(%error, "io_uring is not available, epoll is used");
                Ok("epoll")
            }
            Err(source) => Err(LoadError::Environment {
                what: "io_uring is not available".to_owned(),
                source,
            }),
        },
    }
}

struct Runner<'a, 'w> {
    settings: &'a Settings,
    surroundings: Surroundings<'w>,
    control: Arc<Control>,
    reports: Receiver<Report>,
    starts: Vec<Sender<u64>>,
    spares: Vec<Sender<Box<Interval>>>,
    orders: Option<Receiver<Order>>,
    start_ns: u64,
    phase_reported: Option<Phase>,
    controller_cpu_ns: (u64, u64),
    /// Whether to work in pieces of a few tens of microseconds: the generator threads of an open loop have
    /// requests to send on time, and may share their CPUs with this thread.
    gives_way: bool,
    /// Up to when each thread has reported.
    reported_ns: Vec<u64>,
    /// Intervals by their begin, summed over the threads that have reported them.
    partial: BTreeMap<u64, Box<Interval>>,
    outcome: summary::Outcome,
}

impl<'a, 'w> Runner<'a, 'w> {
    fn start(
        settings: &'a Settings,
        mut surroundings: Surroundings<'w>,
        io: &'static str,
        workload: &Arc<Workload>,
        codecs: &Factory,
        clock: Clock,
    ) -> Result<Self, LoadError> {
        let control = Arc::new(Control::new(settings.interval_ns));
        let (report, reports) = channel();
        let (mut starts, mut spares) = (Vec::new(), Vec::new());
        if settings.prefill.is_some() {
            surroundings.progress.phase("prefill", monotonic_ns());
        }
        let mut traces = match &settings.trace {
            Some(trace) => trace.streams(settings.threads, workload)?,
            None => Vec::new(),
        }
        .into_iter();
        for index in 0..settings.threads {
            let (start, started) = channel();
            let (spare, used) = channel();
            starts.push(start);
            spares.push(spare);
            let task = task(settings, index, workload, &control, report.clone(), used);
            let worker = Worker::new(settings, index, io, codecs, started, traces.next());
            thread::Builder::new()
                .name(format!("load-{index}"))
                .spawn(move || worker.main(task))
                .map_err(|source| LoadError::Environment {
                    what: "starting a thread".to_owned(),
                    source,
                })?;
        }
        let orders = surroundings
            .input
            .take()
            .filter(|_| settings.hold)
            .map(listen);
        let outcome = summary::Outcome {
            clock,
            io,
            begin_ns: 0,
            end_ns: 0,
            interrupted: false,
            measured: Measured::of(workload.operations()),
            latencies: Latencies::default(),
            threads: vec![Counts::default(); settings.threads as usize],
            controller_cpu_ns: (0, 0),
            series: Vec::new(),
        };
        Ok(Self {
            settings,
            surroundings,
            control,
            reports,
            starts,
            spares,
            orders,
            start_ns: 0,
            phase_reported: None,
            controller_cpu_ns: (0, 0),
            gives_way: settings.offers_per_s().is_some(),
            reported_ns: vec![0; settings.threads as usize],
            partial: BTreeMap::new(),
            outcome,
        })
    }

    fn wait_ready(&mut self) -> Result<(), LoadError> {
        let mut ready = 0;
        while ready < self.settings.threads {
            match self.reports.recv_timeout(Duration::from_millis(20)) {
                Ok(Report::Ready) => ready += 1,
                Ok(Report::Failed(error)) => return Err(error),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    if self.surroundings.stop.load(Ordering::Relaxed) {
                        self.control.abort();
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Err(thread_lost()),
            }
        }
        Ok(())
    }

    /// Sets the start a little ahead, so that every thread is there.
    fn begin(&mut self) {
        self.start_ns = monotonic_ns() + 10_000_000;
        if !self.settings.hold {
            let begin_ns = self.start_ns + self.settings.warmup_ns;
            self.control
                .publish_measure(begin_ns, begin_ns + self.settings.duration_ns);
        }
        for start in &self.starts {
            // A thread that is gone has reported why.
            let _ = start.send(self.start_ns);
        }
    }

    fn gather(&mut self, hlog: &mut Option<HlogWriter<'_>>) -> Result<(), LoadError> {
        let mut done = 0;
        while done < self.settings.threads {
            match self.reports.recv_timeout(LOOK_AROUND) {
                Ok(Report::Interval(thread, interval)) => self.add_interval(thread, interval),
                Ok(Report::Done(thread, measured)) => {
                    self.reported_ns[thread] = u64::MAX;
                    self.outcome.measured.add(&measured);
                    done += 1;
                }
                Ok(Report::Failed(error)) => return Err(error),
                Ok(Report::Ready) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(thread_lost()),
            }
            let now_ns = monotonic_ns();
            self.tell_phase(now_ns);
            self.take_orders(now_ns);
            if self.surroundings.stop.load(Ordering::Relaxed) {
                self.interrupt(now_ns);
            }
            self.close_intervals(hlog)?;
        }
        (self.outcome.begin_ns, self.outcome.end_ns) = self.control.measure();
        Ok(())
    }

    fn add_interval(&mut self, thread: usize, mut interval: Box<Interval>) {
        let between = &mut || give_way(self.gives_way);
        self.outcome
            .latencies
            .add_in_pieces(&interval.late, between);
        if self.control.phase(interval.begin_ns) == Phase::Measure {
            self.outcome
                .latencies
                .add_in_pieces(&interval.latencies, between);
            self.outcome.threads[thread].add(&interval.counts);
        }
        interval.fold();
        self.reported_ns[thread] = interval.end_ns;
        let Some(sum) = self.partial.get_mut(&interval.begin_ns) else {
            self.partial.insert(interval.begin_ns, interval);
            return;
        };
        sum.end_ns = sum.end_ns.max(interval.end_ns);
        sum.add(&interval, between);
        // The histograms go back to the thread, so that it need not make new ones while it measures.
        interval.restart(0);
        let _ = self.spares[thread].send(interval);
    }

    /// Tells of the phase changes up to `now_ns`.
    fn tell_phase(&mut self, now_ns: u64) {
        let (begin_ns, end_ns) = self.control.measure();
        for (phase, at_ns) in [
            (Phase::Warmup, self.start_ns),
            (Phase::Measure, begin_ns),
            (Phase::Drain, end_ns),
        ] {
            if self.phase_reported < Some(phase) && now_ns >= at_ns {
                self.phase_reported = Some(phase);
                self.surroundings.progress.phase(phase.name(), at_ns);
                let cpu = Usage::of_thread().times_ns();
                let before = std::mem::replace(&mut self.controller_cpu_ns, cpu);
                if phase == Phase::Drain {
                    self.outcome.controller_cpu_ns = (cpu.0 - before.0, cpu.1 - before.1);
                }
            }
        }
    }

    /// A held load begins to measure at the next interval after the order.
    fn take_orders(&mut self, now_ns: u64) {
        let Some(orders) = &self.orders else { return };
        match orders.try_recv() {
            Ok(Order::Measure) => {
                let earliest_ns = (now_ns + NOTICE_NS).max(self.start_ns + self.settings.warmup_ns);
                let intervals = (earliest_ns - self.start_ns).div_ceil(self.settings.interval_ns);
                let begin_ns = self.start_ns + intervals * self.settings.interval_ns;
                self.control
                    .publish_measure(begin_ns, begin_ns + self.settings.duration_ns);
                self.orders = None;
            }
            Ok(Order::Gone) => {
                tracing::warn!("the control input ended before the line `measure`");
                self.orders = None;
                self.interrupt(now_ns);
            }
            Err(_) => {}
        }
    }

    /// Ends the measure phase, or the load before it, now.
    fn interrupt(&mut self, now_ns: u64) {
        // From here on the result is made.
        Stop::allow_if_asked(FINISH);
        self.control.shorten_drain(FAREWELL_NS);
        let (begin_ns, end_ns) = self.control.measure();
        if self.outcome.interrupted || now_ns >= end_ns {
            return;
        }
        self.outcome.interrupted = true;
        self.orders = None;
        let soon_ns = now_ns.max(self.start_ns) + NOTICE_NS;
        if soon_ns < end_ns {
            self.control.publish_measure(begin_ns.min(soon_ns), soon_ns);
        }
    }

    /// Writes out the intervals that every thread has reported, in order.
    fn close_intervals(&mut self, hlog: &mut Option<HlogWriter<'_>>) -> Result<(), LoadError> {
        while let Some(entry) = self.partial.first_entry() {
            if self
                .reported_ns
                .iter()
                .any(|&until_ns| until_ns <= *entry.key())
            {
                break;
            }
            let mut interval = entry.remove();
            let phase = self.control.phase(interval.begin_ns);
            self.surroundings.progress.interval(&interval, phase);
            give_way(self.gives_way);
            if let Some(watch) = &mut self.surroundings.watch
                && watch(&interval, phase).is_break()
            {
                self.interrupt(monotonic_ns());
            }
            self.outcome.series.push(summary::row(&interval, phase));
            give_way(self.gives_way);
            if let (Some(hlog), Some(path)) = (hlog.as_mut(), &self.surroundings.hlog) {
                write_interval(hlog, &interval, self.outcome.clock, &mut || {
                    give_way(self.gives_way);
                })
                .map_err(|source| file_error(path, source))?;
            }
            interval.restart(0);
            let _ = self.spares[0].send(interval);
        }
        Ok(())
    }
}

/// Leaves the CPU to a generator thread that may share it.
fn give_way(gives_way: bool) {
    if gives_way {
        thread::sleep(Duration::from_micros(200));
    }
}

fn thread_lost() -> LoadError {
    LoadError::Thread {
        why: "it is gone".to_owned(),
    }
}

/// Reads orders in a thread of its own, which ends with the process.
pub(crate) fn listen(input: Box<dyn BufRead + Send>) -> Receiver<Order> {
    let (sender, orders) = channel();
    thread::spawn(move || {
        for line in input.lines() {
            match line {
                Ok(line) if line.trim() == "measure" => {
                    let _ = sender.send(Order::Measure);
                    return;
                }
                Ok(line) if line.trim().is_empty() => {}
                Ok(line) => tracing::warn!(?line, "unknown command: expected `measure`"),
                Err(_) => break,
            }
        }
        let _ = sender.send(Order::Gone);
    });
    orders
}
