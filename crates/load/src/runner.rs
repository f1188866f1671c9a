//! The controlling thread: starts generator threads, sets the phases, and gathers what they report.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufWriter};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriter, IntervalLogWriterBuilder, Tag};
use steelyard_record::{Clock, LoadResult, monotonic_ns};

use crate::codec::{Codec, Factory, factory};
use crate::control::{Control, Counts, Interval, Measured, NOTICE_NS, Phase, thread_cpu_ns};
use crate::engine::{Engine, Prefill, Report, Task};
use crate::io::{Epoll, Uring};
use crate::latency::Latencies;
use crate::progress::Progress;
use crate::random::{Purpose, Random};
use crate::schedule::{Schedule, Share};
use crate::settings::{IoChoice, Settings};
use crate::workload::Workload;
use crate::{LoadError, summary};

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
enum Order {
    /// Begin to measure.
    Measure,
    /// The input has ended.
    Gone,
}

type HlogWriter<'a> = IntervalLogWriter<'a, 'a, BufWriter<File>, V2DeflateSerializer>;

/// Runs the load that `settings` describe.
pub fn run(settings: &Settings, surroundings: Surroundings<'_>) -> Result<LoadResult, LoadError> {
    run_whole(settings, surroundings).map(|(result, _)| result)
}

/// The same, with the histograms that the result's percentiles come from.
pub fn run_whole(
    settings: &Settings,
    surroundings: Surroundings<'_>,
) -> Result<(LoadResult, Latencies), LoadError> {
    settings.check()?;
    let io = choose_io(settings.io)?;
    let workload = Arc::new(Workload::of(settings)?);

    // The log's file is opened before any load: a name that cannot be written costs no run.
    let clock = Clock::now();
    let mut file;
    let mut serializer = V2DeflateSerializer::new();
    let mut hlog = None;
    if let Some(path) = &surroundings.hlog {
        file = BufWriter::new(File::create(path).map_err(|source| file_error(path, source))?);
        hlog = Some(begin_hlog(&mut file, &mut serializer, path, clock)?);
    }
    let codecs = factory(settings, &workload)?;
    let mut runner = Runner::start(settings, surroundings, io, &workload, &codecs, clock)?;
    runner.wait_ready()?;
    runner.begin();
    runner.gather(&mut hlog)?;
    let Runner {
        surroundings,
        outcome,
        ..
    } = runner;
    let latencies = outcome.latencies.clone();
    let result = summary::result(settings, &workload, surroundings.command, outcome);
    Ok((result, latencies))
}

fn file_error(path: &Path, source: std::io::Error) -> LoadError {
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
                tracing::info!(%error, "io_uring is not to be had, epoll is used");
                Ok("epoll")
            }
            Err(source) => Err(LoadError::Environment {
                what: "io_uring is not to be had".to_owned(),
                source,
            }),
        },
    }
}

fn begin_hlog<'a>(
    file: &'a mut BufWriter<File>,
    serializer: &'a mut V2DeflateSerializer,
    path: &Path,
    clock: Clock,
) -> Result<HlogWriter<'a>, LoadError> {
    let start = SystemTime::UNIX_EPOCH + Duration::from_nanos(clock.realtime_ns);
    IntervalLogWriterBuilder::new()
        .add_comment("[Latencies in ns; tags: response, service, lag, queued]")
        .with_start_time(start)
        .with_max_value_divisor(1e6)
        .begin_log_with(file, serializer)
        .map_err(|source| file_error(path, source))
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
    told: Option<Phase>,
    controller_cpu_ns: (u64, u64),
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
        for index in 0..settings.threads {
            let (start, started) = channel();
            let (spare, used) = channel();
            starts.push(start);
            spares.push(spare);
            let task = task(settings, index, workload, &control, report.clone(), used);
            let worker = Worker::new(settings, index, io, codecs, started);
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
            told: None,
            controller_cpu_ns: (0, 0),
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
            match self.reports.recv_timeout(Duration::from_millis(10)) {
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
        self.outcome.latencies.add(&interval.late);
        if self.control.phase(interval.begin_ns) == Phase::Measure {
            self.outcome.latencies.add(&interval.latencies);
            self.outcome.threads[thread].add(&interval.counts);
        }
        interval.fold();
        self.reported_ns[thread] = interval.end_ns;
        let Some(sum) = self.partial.get_mut(&interval.begin_ns) else {
            self.partial.insert(interval.begin_ns, interval);
            return;
        };
        sum.end_ns = sum.end_ns.max(interval.end_ns);
        sum.add(&interval);
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
            if self.told < Some(phase) && now_ns >= at_ns {
                self.told = Some(phase);
                self.surroundings.progress.phase(phase.name(), at_ns);
                let cpu = thread_cpu_ns();
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
            if let Some(watch) = &mut self.surroundings.watch
                && watch(&interval, phase).is_break()
            {
                self.interrupt(monotonic_ns());
            }
            self.outcome.series.push(summary::row(&interval, phase));
            if let (Some(hlog), Some(path)) = (hlog.as_mut(), &self.surroundings.hlog) {
                write_interval(hlog, &interval, self.outcome.clock)
                    .map_err(|source| file_error(path, source))?;
            }
            interval.restart(0);
            let _ = self.spares[0].send(interval);
        }
        Ok(())
    }
}

fn write_interval(
    hlog: &mut HlogWriter<'_>,
    interval: &Interval,
    clock: Clock,
) -> std::io::Result<()> {
    let start = Duration::from_nanos(interval.begin_ns.saturating_sub(clock.monotonic_ns));
    let length = Duration::from_nanos(interval.end_ns - interval.begin_ns);
    let latencies = &interval.latencies;
    for (tag, histogram) in [
        ("response", &latencies.response),
        ("service", &latencies.service),
        ("lag", &latencies.lag),
        ("queued", &latencies.queued),
    ] {
        hlog.write_histogram(histogram, start, length, Tag::new(tag))
            .map_err(|error| std::io::Error::other(format!("{error:?}")))?;
    }
    Ok(())
}

fn thread_lost() -> LoadError {
    LoadError::Thread {
        why: "it is gone".to_owned(),
    }
}

/// Reads orders in a thread of its own, which ends with the process.
fn listen(input: Box<dyn BufRead + Send>) -> Receiver<Order> {
    let (sender, orders) = channel();
    thread::spawn(move || {
        for line in input.lines() {
            match line {
                Ok(line) if line.trim() == "measure" => {
                    let _ = sender.send(Order::Measure);
                    return;
                }
                Ok(line) if line.trim().is_empty() => {}
                Ok(line) => tracing::warn!(?line, "unknown order; the only one is `measure`"),
                Err(_) => break,
            }
        }
        let _ = sender.send(Order::Gone);
    });
    orders
}

fn task(
    settings: &Settings,
    index: u32,
    workload: &Arc<Workload>,
    control: &Arc<Control>,
    reports: Sender<Report>,
    spare: Receiver<Box<Interval>>,
) -> Task {
    let threads = u64::from(settings.threads);
    Task {
        index: index as usize,
        target: settings.target,
        connections: (u64::from(index)..u64::from(settings.connections))
            .step_by(threads as usize)
            .collect(),
        depth: settings.depth as usize,
        max_outstanding: settings.max_outstanding.div_ceil(threads) as usize,
        drain_ns: settings.drain_ns,
        seed: settings.seed,
        workload: Arc::clone(workload),
        prefill: settings.prefill.map(|operation| Prefill {
            operation,
            first: u64::from(index),
            step: threads,
        }),
        control: Arc::clone(control),
        reports,
        spare,
    }
}

/// What a generator thread needs besides its task.
struct Worker {
    io: &'static str,
    cpu: Option<usize>,
    pin: fn(&[usize]) -> std::io::Result<()>,
    codecs: Factory,
    started: Receiver<u64>,
    /// Makes the schedule of an open loop from its start.
    schedule: Option<Box<dyn FnOnce(u64) -> Schedule + Send>>,
}

impl Worker {
    fn new(
        settings: &Settings,
        index: u32,
        io: &'static str,
        codecs: &Factory,
        started: Receiver<u64>,
    ) -> Self {
        let schedule = settings.offers_per_s().map(|rate| {
            let random = Random::stream(settings.seed, Purpose::Arrivals, u64::from(index));
            let (arrival, duration_ns) = (settings.arrival.clone(), settings.duration_ns);
            let share = Share {
                thread: index,
                threads: settings.threads,
            };
            let make =
                move |start_ns| Schedule::new(&arrival, rate, duration_ns, share, start_ns, random);
            Box::new(make) as Box<dyn FnOnce(u64) -> Schedule + Send>
        });
        let cpu = (!settings.cpus.is_empty())
            .then(|| settings.cpus[index as usize % settings.cpus.len()]);
        Self {
            io,
            cpu,
            pin: settings.pin,
            codecs: Arc::clone(codecs),
            started,
            schedule,
        }
    }

    fn main(self, task: Task) {
        let reports = task.reports.clone();
        let ended = catch_unwind(AssertUnwindSafe(|| self.work(task)));
        let error = match ended {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(_) => LoadError::Thread {
                why: "it panicked, see above".to_owned(),
            },
        };
        let _ = reports.send(Report::Failed(error));
    }

    fn work(self, task: Task) -> Result<(), LoadError> {
        if let Some(cpu) = self.cpu {
            (self.pin)(&[cpu]).map_err(|source| LoadError::Environment {
                what: format!("--cpus: CPU {cpu}"),
                source,
            })?;
        }
        // SAFETY: PR_SET_TIMERSLACK changes how precisely this thread is woken, nothing else.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        let slots = task.connections.len();
        let codecs = Arc::clone(&self.codecs);
        let environment = |what: &str, source| LoadError::Environment {
            what: what.to_owned(),
            source,
        };
        if self.io == "uring" {
            let transport = Uring::new(slots).map_err(|source| environment("io_uring", source))?;
            self.drive(Engine::new(task, codecs, transport)?)
        } else {
            let transport = Epoll::new(slots).map_err(|source| environment("epoll", source))?;
            self.drive(Engine::new(task, codecs, transport)?)
        }
    }

    fn drive<T: crate::io::Transport>(
        self,
        mut engine: Engine<Box<dyn Codec>, T>,
    ) -> Result<(), LoadError> {
        engine.shake_hands()?;
        engine.prefill()?;
        engine.report_ready();
        // Without a start the controlling thread has given up, and said why.
        let Ok(start_ns) = self.started.recv() else {
            return Ok(());
        };
        let schedule = self.schedule.map(|make| make(start_ns));
        engine.run(start_ns, schedule)
    }
}
