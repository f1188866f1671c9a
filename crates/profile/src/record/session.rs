//! A recording from start to end.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::process::Child;
use std::time::{Duration, Instant};

use steelyard_launch::{GRACE, Stop};
use steelyard_record::Clock;

use super::descendants::{CHILD_END, Descendants};
use super::events::Events;
use super::processes::Processes;
use super::ring::Ring;
use super::signals::{process_end, system};
use super::{Recorded, Scope, Settings, command, idle};
use crate::python::Interpreters;
use crate::sample::{Assembler, Label, Rounds};
use crate::symbols::name_all;
use crate::{Profile, ProfileError};

/// Time between two looks at the rings. Short enough that files of short-lived processes can mostly still be
/// opened, long enough to cost nothing.
const ROUND: Duration = Duration::from_millis(250);

/// Time that naming the samples, and a command that is asked to end, may take after a request to stop.
const FINISH: Duration = Duration::from_secs(60);

/// The same at the beginning, while a command starts an interpreter, and how long that lasts.
const EARLY_ROUND: Duration = Duration::from_millis(20);
const EARLY: Duration = Duration::from_secs(1);

/// Records until the time, the command, the processes or a signal ends it.
///
/// A command that is still running then is sent SIGTERM, and SIGKILL five seconds later. After a signal that asks to
/// stop the profile is still finished (see [`Stop`]).
pub fn record(settings: &Settings) -> Result<Recorded, ProfileError> {
    record_labelled(settings, None)
}

/// The same with a label before each process's command; and with frames of files that have no name here as `0xOFFSET`
/// in `module@BUILDID`, for whoever has the names.
pub fn record_labelled(
    settings: &Settings,
    label: Option<Label>,
) -> Result<Recorded, ProfileError> {
    let stop = Stop::watch().map_err(|source| ProfileError::System {
        what: "wait for signals",
        source,
    })?;
    let open = |pid| {
        let events = Events::open(settings, pid)?;
        events.enable();
        Ok(events)
    };
    let (mut child, events) = if settings.command.is_empty() {
        (None, open(None)?)
    } else {
        let (child, events) = command::start(&settings.command, |pid| open(Some(pid)))?;
        (Some(child), events)
    };
    let mut recording = Recording::new(settings, events, stop);
    recording.assembler.keeps_offsets = label.is_some();
    let children = |root| label_children(root, settings.plain_commands);
    recording.assembler.label = label.or_else(|| settings.descendants_of.map(children));
    recording.assembler.labelled_only = settings.descendants_of.is_some();
    let recorded = recording.run(child.as_mut());
    let command_exit = child.as_mut().and_then(command::end);
    stop.allow(GRACE);
    recorded.map(|recorded| Recorded {
        command_exit,
        ..recorded
    })
}

/// A label that says which child of `root` a process descends from, or an empty one for every descendant.
fn label_children(root: u32, is_plain: bool) -> Label {
    let mut descendants = Descendants::of(root);
    Box::new(move |pid, spaces| {
        let child = descendants.child_of(pid, spaces)?;
        Some(match is_plain {
            true => String::new(),
            false => format!("{child}{CHILD_END}"),
        })
    })
}

struct Recording<'a> {
    settings: &'a Settings,
    events: Events,
    stop: &'static Stop,
    assembler: Assembler,
    rounds: Rounds,
    processes: Processes,
    clock: Clock,
    begin: Instant,
}

impl<'a> Recording<'a> {
    fn new(settings: &'a Settings, events: Events, stop: &'static Stop) -> Self {
        let mut assembler = Assembler::new(None);
        assembler.attributes.add(events.attribute.clone(), []);
        assembler.times = settings.keeps_times.then(Default::default);
        let interpreters = settings.interpreted.then(|| Interpreters::new(settings.hz));
        let mut processes = Processes::new(interpreters);
        if settings.lines {
            processes.want_lines();
        }
        Self {
            settings,
            events,
            stop,
            assembler,
            rounds: Rounds::default(),
            processes,
            clock: Clock::now(),
            begin: Instant::now(),
        }
    }

    fn run(mut self, child: Option<&mut Child>) -> Result<Recorded, ProfileError> {
        match &self.settings.scope {
            Scope::All => {
                let root = self.settings.descendants_of;
                self.processes.scan_all(&mut self.assembler.spaces, root);
            }
            _ => {
                for pid in self.events.pids.clone() {
                    self.processes.scan(&mut self.assembler.spaces, pid);
                }
            }
        }
        self.look_for_interpreters();
        let end_reason = self.wait(child)?;
        self.stop.allow(FINISH);
        self.events.disable();
        let sampling_cpu_s = own_cpu_s();
        let duration_s = self.begin.elapsed().as_secs_f64();
        self.drain();
        self.drain();
        let Self {
            settings,
            events,
            mut assembler,
            mut rounds,
            mut processes,
            clock,
            ..
        } = self;
        rounds.end(|kind, misc, body| assembler.record(kind, misc, body, &mut processes));
        let mut assembled = assembler.finish();
        let mut reasons = Vec::new();
        if let Some(mut interpreters) = processes.interpreters.take() {
            reasons = std::mem::take(&mut interpreters.reasons);
            assembled.interpreted = interpreters.finish();
        }
        let mut profile = name_all(assembled, processes.files());
        for reason in reasons {
            profile.reduced(reason);
        }
        describe(&mut profile, settings, &events, duration_s);
        profile.head.recorder_cpu_s = Some(sampling_cpu_s);
        profile.head.naming_cpu_s = Some((own_cpu_s() - sampling_cpu_s).max(0.0));
        Ok(Recorded {
            profile,
            begin_realtime_ns: clock.realtime_ns,
            command_exit: None,
            end_reason,
        })
    }

    /// Looks for interpreters among the processes that are sampled by their ids, before they have samples.
    fn look_for_interpreters(&mut self) {
        let pids = self.events.pids.clone();
        if let Some(interpreters) = &mut self.processes.interpreters {
            interpreters.consider(pids.into_iter());
        }
    }

    /// Empties the rings until something ends the recording, and says what.
    fn wait(&mut self, mut child: Option<&mut Child>) -> Result<&'static str, ProfileError> {
        let deadline = self.settings.duration.map(|duration| self.begin + duration);
        let child_end = child.as_ref().and_then(|child| process_end(child.id()));
        let mut ends: Vec<OwnedFd> = self
            .events
            .asked
            .iter()
            .filter_map(|&pid| process_end(pid))
            .collect();
        // Where the kernel has no pidfd, only time and signals end the sampling of processes.
        let watch_processes = !self.events.asked.is_empty() && !ends.is_empty();
        let mut rings: Vec<RawFd> = self
            .events
            .rings
            .iter()
            .map(|ring| ring.descriptor)
            .collect();
        loop {
            let now = Instant::now();
            let left = deadline.map_or(ROUND, |deadline| deadline.saturating_duration_since(now));
            if left.is_zero() {
                return Ok("duration");
            }
            let fixed = [
                Some(self.stop.descriptor()),
                child_end.as_ref().map(AsRawFd::as_raw_fd),
            ];
            let fixed: Vec<RawFd> = fixed.into_iter().flatten().collect();
            let ended: Vec<RawFd> = ends.iter().map(AsRawFd::as_raw_fd).collect();
            let ready = poll(
                &[&fixed[..], &ended, &rings].concat(),
                left.min(self.round()),
            )?;
            self.drain();
            if self.stop.is_asked() {
                return Ok("signal");
            }
            if let Some(child) = child.as_deref_mut()
                && !matches!(child.try_wait(), Ok(None))
            {
                return Ok("command");
            }
            ends.retain(|end| {
                ready
                    .iter()
                    .all(|&(descriptor, _)| descriptor != end.as_raw_fd())
            });
            if watch_processes && ends.is_empty() {
                return Ok("processes");
            }
            // A ring whose threads have all ended hangs up for good, and would end every wait at once.
            let hung_up = |ring: &RawFd| {
                ready.iter().any(|(descriptor, events)| {
                    descriptor == ring && events & (libc::POLLHUP | libc::POLLERR) != 0
                })
            };
            rings.retain(|ring| !hung_up(ring));
        }
    }

    fn round(&self) -> Duration {
        let is_early = self.settings.interpreted && self.begin.elapsed() < EARLY;
        if is_early { EARLY_ROUND } else { ROUND }
    }

    fn drain(&mut self) {
        let Self {
            events,
            rounds,
            assembler,
            processes,
            ..
        } = self;
        for cpu in &mut events.rings {
            take(&mut cpu.ring, rounds, assembler);
        }
        rounds.end_round(|kind, misc, body| assembler.record(kind, misc, body, processes));
        if rounds.is_full() {
            rounds.end(|kind, misc, body| assembler.record(kind, misc, body, processes));
        }
        processes.look_for_interpreters();
    }
}

fn take(ring: &mut Ring, rounds: &mut Rounds, assembler: &Assembler) {
    ring.drain(|kind, misc, body| {
        if Assembler::wants(kind) {
            let time = assembler.attributes.time(kind, body).unwrap_or(0);
            rounds.push(time, kind, misc, body);
        }
    });
}

/// Waits until one of the descriptors is ready; those that are, with what happened.
fn poll(
    descriptors: &[RawFd],
    timeout: Duration,
) -> Result<Vec<(RawFd, libc::c_short)>, ProfileError> {
    let mut waits: Vec<libc::pollfd> = descriptors
        .iter()
        .map(|&fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    // A millisecond more than the rest, since a timeout of 0 would not wait at all.
    let timeout = i32::try_from(timeout.as_millis() + 1).unwrap_or(i32::MAX);
    // SAFETY: `waits` is a valid array of `waits.len()` entries.
    let ready = unsafe { libc::poll(waits.as_mut_ptr(), waits.len() as libc::nfds_t, timeout) };
    if ready < 0 && std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
        return Err(system("wait for samples"));
    }
    Ok(waits
        .iter()
        .filter(|wait| wait.revents != 0)
        .map(|wait| (wait.fd, wait.revents))
        .collect())
}

fn describe(profile: &mut Profile, settings: &Settings, events: &Events, duration_s: f64) {
    if profile.head.event.is_none() {
        profile.set_event(&events.attribute.name);
    }
    // Of nothing it is no reason.
    let is_clock = settings.event.is_none() && events.attribute.name != "cycles";
    if is_clock && !profile.stacks.is_empty() {
        profile
            .reduced("CPU time is sampled by cpu-clock, because the kernel offers no cycles here");
    }
    for reason in &events.reasons {
        profile.reduced(reason.clone());
    }
    if profile.times.take_if(|times| times.is_full()).is_some() {
        profile.reduced("there are no times of samples, because there were too many");
    }
    if !settings.with_idle && events.attribute.name == "cpu-clock" {
        idle::leave_out(profile);
    }
    let head = &mut profile.head;
    head.hz = Some(f64::from(settings.hz));
    head.duration_s = Some(duration_s);
    head.cpus = Some(events.cpus as u64);
    head.scope = Some(match &settings.scope {
        Scope::All => "all".to_owned(),
        Scope::Processes(pids) => {
            let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
            format!("pid {}", pids.join(","))
        }
        Scope::Cgroup(path) => format!("cgroup {}", path.display()),
        Scope::Command => "command".to_owned(),
    });
}

/// CPU time of this process so far, s.
fn own_cpu_s() -> f64 {
    // SAFETY: rusage is plain integers, which getrusage fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
