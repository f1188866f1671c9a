//! Several load processes, on this host or on others, as one load.
//!
//! In: where the processes are to run, the flags of the load. Out: what one process would have said of the same
//! load: counts summed, histograms merged exactly, one row a host. A process is `steelyard-load join`, started
//! directly for `localhost` and by the system's ssh for other hosts; it takes orders and gives reports, a JSON
//! line each ([`wire`]), until its input ends, and then it ends too, in the middle of a load if need be.
//!
//! No clock is trusted across hosts: every process measures on its own, times go over the wire only as lengths,
//! and what each process saw is put together by the time since the begin of its own measure phase
//! ([`merge`]). How far apart the phases began follows from when the order was sent, here, and how long after it
//! came the phase began, there; what the way took is in that figure too.
//!
//! Invariants: when this process ends, however it does, no process of it goes on loading. Not here: what the
//! processes do ([`join`]).

pub mod join;
mod member;
mod merge;
pub mod wire;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use steelyard_record::{Clock, monotonic_ns};

use crate::LoadError;
use crate::offer::{Offer, Offered};
use crate::settings::Settings;
use crate::slo::Slo;
use member::Member;
use wire::{Changes, Order, Report, Share};

/// How processes on other hosts are started.
#[derive(Debug, Clone)]
pub struct Remote {
    /// ssh and its options, in words.
    pub ssh: Vec<String>,
    /// `steelyard-load` on other hosts.
    pub command: String,
}

/// The processes.
pub struct Fleet<'a> {
    members: Vec<Member>,
    arguments: Vec<String>,
    stop: &'a AtomicBool,
}

/// How often a process is told that somebody is still there.
const PING: Duration = Duration::from_secs(5);
/// How long a process may take to say hello.
const HELLO: Duration = Duration::from_secs(30);
/// How long processes that were asked to stop may take to tell what they have.
const STOPPING: Duration = Duration::from_secs(15);
/// Length of an interval, so that phases begin at most this far apart; rows are put together later.
const INTERVAL_NS: u64 = 100_000_000;

impl<'a> Fleet<'a> {
    /// Starts a process on each of `hosts`, which make loads of `arguments`.
    pub fn start(
        hosts: &[String],
        remote: &Remote,
        arguments: Vec<String>,
        stop: &'a AtomicBool,
    ) -> Result<Self, LoadError> {
        let mut members = Vec::new();
        for host in hosts {
            members.push(Member::start(host, remote)?);
        }
        let mut fleet = Self {
            members,
            arguments,
            stop,
        };
        let deadline = Instant::now() + HELLO;
        for index in 0..fleet.members.len() {
            let member = &mut fleet.members[index];
            match member.wait(deadline, stop)? {
                Report::Hello { version } if version == env!("CARGO_PKG_VERSION") => {}
                Report::Hello { version } => {
                    let here = env!("CARGO_PKG_VERSION");
                    return Err(member.error(&format!("it has version {version}, here is {here}")));
                }
                _ => return Err(member.error("it did not say hello")),
            }
        }
        Ok(fleet)
    }

    /// Refuses loads that cannot be split.
    pub fn check(hosts: usize, settings: &Settings) -> Result<(), LoadError> {
        let wrong = |name, why: String| Err(LoadError::Setting { name, why });
        let least = settings.threads as usize * hosts;
        if (settings.connections as usize) < least {
            return wrong(
                "--connections",
                format!("must be at least {least}: one for each thread of {hosts} hosts"),
            );
        }
        if settings.arrival.mean_rate_per_s().is_some() {
            return wrong(
                "--arrival",
                "must be constant or poisson for more than one host".to_owned(),
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
        }
    }

    fn load(&mut self, settings: &Settings) -> Result<Vec<Share>, LoadError> {
        // The first fills the server before the others look.
        for index in 0..self.members.len() {
            let order = Order::Load {
                arguments: self.arguments.clone(),
                changes: self.changes(settings, index),
            };
            self.members[index].send(&order)?;
            if index == 0 && settings.prefill.is_some() {
                self.expect_warm(0)?;
            }
        }
        for index in 0..self.members.len() {
            self.expect_warm(index)?;
        }
        self.sleep(Duration::from_nanos(settings.warmup_ns));
        for member in &mut self.members {
            member.measure()?;
        }
        let mut shares = Vec::new();
        for index in 0..self.members.len() {
            shares.push(self.expect_share(index)?);
        }
        Ok(shares)
    }

    /// Waits until the process has begun its warm-up; one that is stopped meanwhile tells its result instead.
    fn expect_warm(&mut self, index: usize) -> Result<(), LoadError> {
        while !self.members[index].warm() {
            let report = self.report(index, None)?;
            self.members[index].take(report)?;
        }
        Ok(())
    }

    fn expect_share(&mut self, index: usize) -> Result<Share, LoadError> {
        let mut deadline = None;
        loop {
            if let Some(share) = self.members[index].share() {
                return Ok(share);
            }
            if self.stop.load(Ordering::Relaxed) && deadline.is_none() {
                deadline = Some(Instant::now() + STOPPING);
            }
            let report = self.report(index, deadline)?;
            self.members[index].take(report)?;
        }
    }

    /// The next report of a process; while it is awaited the others hear that somebody is there, and of a stop.
    fn report(
        &mut self,
        index: usize,
        deadline: Option<Instant>,
    ) -> Result<Option<Report>, LoadError> {
        self.tell()?;
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            return Err(self.members[index].error("it did not stop"));
        }
        self.members[index].poll()
    }

    fn sleep(&mut self, length: Duration) {
        let until = Instant::now() + length;
        while Instant::now() < until && !self.stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10).min(length));
            // A process that has died is noticed where its report is awaited.
            let _ = self.tell();
        }
    }

    fn tell(&mut self) -> Result<(), LoadError> {
        let stop = self.stop.load(Ordering::Relaxed);
        for member in &mut self.members {
            member.tell(stop, PING)?;
        }
        Ok(())
    }
}

impl Offer for Fleet<'_> {
    fn offer(&mut self, settings: &Settings, slo: &Slo) -> Result<Offered, LoadError> {
        Self::check(self.members.len(), settings)?;
        let clock = Clock::now();
        let begin_ns = monotonic_ns();
        let shares = self.load(settings)?;
        let names: Vec<&str> = self.members.iter().map(Member::name).collect();
        let sent: Vec<u64> = self.members.iter().map(Member::measured_ns).collect();
        merge::merge(&merge::Parts {
            settings,
            slo,
            clock,
            begin_ns,
            names: &names,
            sent_ns: &sent,
            shares: &shares,
        })
    }
}
