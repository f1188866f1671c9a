//! Several load processes, on this host or on others, as one load.
//!
//! In: where the processes are to run, the flags of the load. Out: what one process would have said of the same
//! load: counts summed, histograms merged exactly, one row a host. A process is `steelyard-load join`, started
//! directly for `localhost` and by the system's ssh for other hosts; it takes orders and gives reports, a JSON
//! line each ([`wire`]), until its input ends, and then it ends too, in the middle of a load if need be.
//!
//! No clock is trusted across hosts: every process measures on its own, times go over the wire only as lengths,
//! and what each process saw is put together by the time since the begin of its own measure phase
//! ([`rows`], [`merge`]). Processes report their intervals during the load, so that what was measured until a
//! host is lost is not lost with it ([`partial`]). How far apart the phases began follows from
//! when this process sent each order and how long after its arrival the phase began; it includes the network's latency.
//!
//! Invariants: when this process ends, however it does, no process of it goes on loading. Not here: what the
//! processes do ([`join`]).

mod follow;
pub mod join;
mod log;
mod member;
mod merge;
mod partial;
mod rows;
pub mod wire;

use std::io::BufRead;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::serialization::V2DeflateSerializer;
use steelyard_launch::{GRACE, Stop};
use steelyard_record::{Clock, monotonic_ns};

use crate::LoadError;
use crate::offer::{Offer, Offered};
use crate::progress::Progress;
use crate::runner::hlog::{create_hlog, end_hlog};
use crate::schedule::Arrival;
use crate::settings::{Settings, Turn};
use crate::slo::Slo;
use follow::Follow;
use log::Log;
use member::Member;
pub use member::Remote;
use partial::Loss;
use rows::{Part, Parts};
use wire::{Changes, Order, Report};

/// The processes.
pub struct Fleet<'a> {
    members: Vec<Member>,
    arguments: Vec<String>,
    hlog: Option<PathBuf>,
    stop: &'a AtomicBool,
    follow: Follow,
}

/// How often a process gets a sign of life.
const PING: Duration = Duration::from_secs(5);
/// How long a process may take to say hello.
const HELLO: Duration = Duration::from_secs(30);
/// How long interrupted processes may take to report their results.
const STOPPING: Duration = Duration::from_secs(3);
/// How long to sleep when no process has reported anything.
const LOOK_AROUND: Duration = Duration::from_millis(10);
/// Length of an interval, so that phases begin at most this far apart; rows are put together later.
const INTERVAL_NS: u64 = 100_000_000;

impl<'a> Fleet<'a> {
    /// Starts a process on each of `hosts`, which make loads of `arguments`. Histograms of intervals over all of
    /// them go to the file `hlog`.
    pub fn start(
        hosts: &[String],
        remote: &Remote,
        arguments: Vec<String>,
        hlog: Option<PathBuf>,
        stop: &'a AtomicBool,
    ) -> Result<Self, LoadError> {
        let mut members = Vec::new();
        for host in hosts {
            members.push(Member::start(host, remote)?);
        }
        let mut fleet = Self {
            members,
            arguments,
            hlog,
            stop,
            follow: Follow::new(Progress::None, None),
        };
        let deadline = Instant::now() + HELLO;
        for index in 0..fleet.members.len() {
            let member = &mut fleet.members[index];
            match member.wait(deadline, stop)? {
                Report::Hello { version } if version == env!("CARGO_PKG_VERSION") => {}
                Report::Hello { version } => {
                    let here = env!("CARGO_PKG_VERSION");
                    return Err(
                        member.error(&format!("it has version {version}, this host has {here}"))
                    );
                }
                _ => return Err(member.error("it sent no greeting")),
            }
        }
        Ok(fleet)
    }

    /// Tells `progress` how the load goes; a held load takes the order to measure from `input`.
    #[must_use]
    pub fn followed(mut self, progress: Progress, input: Option<Box<dyn BufRead + Send>>) -> Self {
        self.follow = Follow::new(progress, input);
        self
    }

    /// Refuses loads that cannot be split.
    pub fn check(hosts: usize, settings: &Settings) -> Result<(), LoadError> {
        let wrong = |name, why: String| Err(LoadError::setting(name, why));
        let least = settings.threads as usize * hosts;
        if (settings.connections as usize) < least {
            return wrong(
                "--connections",
                format!("must be at least {least}: one for each thread of {hosts} hosts"),
            );
        }
        if settings.trace.is_some() {
            return wrong(
                "--trace",
                "is for a load of one process: several processes cannot share its sequence of requests"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// What the process number `index` is to do of `settings`.
    fn changes(&self, settings: &Settings, index: usize) -> Changes {
        let hosts = self.members.len() as u32;
        let more = u32::from((index as u32) < settings.connections % hosts);
        let connections = settings.connections / hosts + more;
        let share = f64::from(connections) / f64::from(settings.connections);
        // A law that brings its rates is dealt arrival by arrival, so that together they are the asked ones.
        let turn = match settings.arrival {
            Arrival::Constant | Arrival::Poisson => Turn::ALONE,
            Arrival::Ramp { .. } | Arrival::Step(_) | Arrival::Recorded(_) => Turn {
                process: index as u32,
                processes: hosts,
            },
        };
        let recording = match &settings.arrival {
            Arrival::Recorded(recording) => Some(recording.fingerprint()),
            _ => None,
        };
        Changes {
            rate_per_s: settings.rate_per_s.map(|rate| rate * share),
            connections,
            // Far apart, so that no two processes ever make the same requests.
            seed: settings.seed ^ ((index as u64) << 40),
            warmup_ns: settings.warmup_ns,
            duration_ns: settings.duration_ns,
            drain_ns: settings.drain_ns,
            interval_ns: settings.interval_ns.min(INTERVAL_NS),
            max_outstanding: (settings.max_outstanding / u64::from(hosts))
                .max(u64::from(settings.threads)),
            prefill: settings.prefill.is_some() && index == 0,
            turn,
            recording,
        }
    }

    /// Lets every process run its load, until each has reported its result.
    fn load(&mut self, settings: &Settings) -> Result<(), (usize, LoadError)> {
        if settings.prefill.is_some() {
            self.follow.fill(monotonic_ns());
        }
        // The first fills the server before the others look.
        for index in 0..self.members.len() {
            let order = Order::Load {
                arguments: self.arguments.clone(),
                changes: self.changes(settings, index),
            };
            let sent = self.members[index].send(&order);
            sent.map_err(|error| (index, error))?;
            if index == 0 && settings.prefill.is_some() {
                while !self.members[0].is_warm() {
                    self.take_reports()?;
                }
            }
        }
        while !self.members.iter().all(Member::is_warm) {
            self.take_reports()?;
        }
        self.follow.begin(monotonic_ns(), self.members.len());
        let warm_up = Instant::now() + Duration::from_nanos(settings.warmup_ns);
        while Instant::now() < warm_up && !self.stop.load(Ordering::Relaxed) {
            self.take_reports()?;
            self.look(settings)?;
        }
        while settings.hold && !self.stop.load(Ordering::Relaxed) {
            match self.follow.order() {
                Some(true) => break,
                Some(false) => self.stop.store(true, Ordering::Relaxed),
                None => {
                    self.take_reports()?;
                    self.look(settings)?;
                }
            }
        }
        for (index, member) in self.members.iter_mut().enumerate() {
            member.measure().map_err(|error| (index, error))?;
        }
        let mut deadline = None;
        while let Some(index) = self.members.iter().position(|member| !member.is_done()) {
            if self.stop.load(Ordering::Relaxed) {
                let deadline = *deadline.get_or_insert_with(|| {
                    Stop::allow_if_asked(STOPPING + GRACE);
                    Instant::now() + STOPPING
                });
                if Instant::now() > deadline {
                    return Err((index, self.members[index].error("it did not stop")));
                }
            }
            self.take_reports()?;
            self.look(settings)?;
        }
        Ok(())
    }

    /// Tells of what has been reported.
    fn look(&mut self, settings: &Settings) -> Result<(), (usize, LoadError)> {
        let (length_ns, duration_ns) = (settings.interval_ns, settings.duration_ns);
        let now_ns = monotonic_ns();
        let looked = self
            .follow
            .look(&self.members, now_ns, length_ns, duration_ns);
        looked.map_err(|error| (0, error))
    }

    /// Notes what the processes report; they get signs of life, and a stop. An error is about the
    /// process with the number.
    fn take_reports(&mut self) -> Result<(), (usize, LoadError)> {
        let stop = self.stop.load(Ordering::Relaxed);
        let mut any = false;
        for (index, member) in self.members.iter_mut().enumerate() {
            let sent = member.tell(stop, PING);
            // A process that has sent its whole result may end.
            if !member.is_done() {
                sent.map_err(|error| (index, error))?;
                any |= member.take_reports().map_err(|error| (index, error))?;
            }
        }
        if !any {
            std::thread::sleep(LOOK_AROUND);
        }
        Ok(())
    }

    /// What there is of a load that was ordered at `clock`.
    fn put_together(
        &self,
        settings: &Settings,
        slo: &Slo,
        clock: Clock,
        lost: Option<Loss>,
        log: Option<&mut Log<'_>>,
    ) -> Result<Offered, LoadError> {
        let members = self.members.iter().enumerate();
        let parts: Vec<Part<'_>> = members
            .map(|(index, member)| Part {
                name: member.name(),
                connections: self.changes(settings, index).connections,
                load: member.load(),
                intervals: &member.load().intervals,
            })
            .collect();
        let parts = Parts {
            settings,
            slo,
            clock,
            members: &parts,
        };
        match lost {
            None => merge::merge(&parts, log),
            Some(lost) => partial::merge(&parts, &lost, log),
        }
    }
}

/// Notes for the record that the process with the number was lost, and why.
fn loss(index: usize, error: &LoadError) -> Loss {
    let why = match error {
        LoadError::Host { why, .. } => why.clone(),
        other => {
            let source = std::error::Error::source(other);
            source.map_or_else(|| other.to_string(), |cause| format!("{other}: {cause}"))
        }
    };
    Loss { index, why }
}

impl Offer for Fleet<'_> {
    fn offer(&mut self, settings: &Settings, slo: &Slo) -> Result<Offered, LoadError> {
        Self::check(self.members.len(), settings)?;
        let clock = Clock::now();
        let hlog = self.hlog.clone();
        // The log's file is opened before any load: a name that cannot be written costs no run.
        let mut file = hlog.as_deref().map(create_hlog).transpose()?;
        let mut serializer = V2DeflateSerializer::new();
        let mut log = match (&mut file, &hlog) {
            (Some(file), Some(path)) => Some(Log::begin(file, &mut serializer, path, clock)?),
            _ => None,
        };
        let lost = match self.load(settings) {
            Ok(()) => None,
            // Before every process loads there is no load yet.
            Err((_, error)) if !self.members.iter().all(Member::is_warm) => return Err(error),
            Err((index, error)) => Some(loss(index, &error)),
        };
        if lost.is_some() {
            for member in &mut self.members {
                // A process that the order cannot reach ends when its input does.
                let _ = member.send(&Order::Stop);
            }
        }
        let offered = self.put_together(settings, slo, clock, lost, log.as_mut())?;
        drop(log);
        if let (Some(file), Some(path)) = (&mut file, &hlog) {
            end_hlog(file, path)?;
        }
        Ok(offered)
    }
}
