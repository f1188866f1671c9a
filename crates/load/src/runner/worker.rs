//! A generator thread from its start to its end: pinned, with a transport of its own, an engine on top, and a
//! report of whatever ends it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use crate::LoadError;
use crate::codec::{Codec, Factory};
use crate::control::{Control, Interval};
use crate::engine::{Engine, Prefill, Report, Source, Task};
use crate::io::{Epoll, Uring};
use crate::random::Purpose;
use crate::schedule::Schedule;
use crate::settings::Settings;
use crate::trace::TraceStream;
use crate::workload::Workload;

/// What thread number `index` is to do.
pub fn task(
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
        target: settings.target.first().clone(),
        connections: (u64::from(index)..u64::from(settings.connections))
            .step_by(threads as usize)
            .collect(),
        depth: settings.depth as usize,
        max_outstanding: settings.max_outstanding.div_ceil(threads) as usize,
        drain_ns: settings.drain_ns,
        timeout_ns: settings.timeout_ns.unwrap_or(u64::MAX),
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
pub struct Worker {
    io: &'static str,
    cpu: Option<usize>,
    pin: fn(&[usize]) -> std::io::Result<()>,
    codecs: Factory,
    started: Receiver<u64>,
    /// Makes the source of an open loop from its start.
    source: Option<Box<dyn FnOnce(u64) -> Source + Send>>,
}

impl Worker {
    /// What thread number `index` needs.
    pub fn new(
        settings: &Settings,
        index: u32,
        io: &'static str,
        codecs: &Factory,
        started: Receiver<u64>,
        trace: Option<TraceStream>,
    ) -> Self {
        let generated = settings.offers_per_s().map(|rate| {
            let random = Purpose::Arrivals.stream(settings.seed, u64::from(index));
            // Connections of closed loops have the streams below.
            let requests = (1 << 40) + u64::from(index);
            let draws = Purpose::Requests.stream(settings.seed, requests);
            let (arrival, duration_ns) = (settings.arrival.clone(), settings.duration_ns);
            let share = settings.turn.share(index, settings.threads);
            let make = move |start_ns| Source::Drawn {
                schedule: Schedule::new(&arrival, rate, duration_ns, share, start_ns, random),
                random: draws,
            };
            Box::new(make) as Box<dyn FnOnce(u64) -> Source + Send>
        });
        let traced = trace.map(|mut stream| {
            let make = move |start_ns| {
                stream.begin(start_ns);
                Source::Trace(stream)
            };
            Box::new(make) as Box<dyn FnOnce(u64) -> Source + Send>
        });
        let cpu = (!settings.cpus.is_empty())
            .then(|| settings.cpus[index as usize % settings.cpus.len()]);
        Self {
            io,
            cpu,
            pin: settings.pin,
            codecs: Arc::clone(codecs),
            started,
            source: traced.or(generated),
        }
    }

    /// The thread's whole life.
    pub fn main(self, task: Task) {
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
        let source = self.source.map(|make| make(start_ns));
        engine.run(start_ns, source)
    }
}
