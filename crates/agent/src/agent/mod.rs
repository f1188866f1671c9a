//! The agent from start to end: windows, profiles, batches, one after the other.
//!
//! In: settings and the time. Out: rows in the spool, figures, and when it wants to be called next.
//!
//! [`Agent::tick`] does what is due and returns when the next thing will be; it never sleeps and reads no clock, so that
//! tests play hours in a moment. `run` calls it with the machine's clocks.
//!
//! Invariants: a window is in the journal before anything else is done with it; a window that was cut short by the end of
//! the agent, or by a machine that slept, has no rows.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use steelyard_kernel::Tree;
use steelyard_record::Clock;

use crate::budget::Budget;
use crate::config::Config;
use crate::health::{Health, Own};
use crate::identity::Finder;
use crate::identity::rules::Rules;
use crate::private::Private;
use crate::profiling::is_chosen;
use crate::rows::{Incident, Machine, MachineSample, Origin, ProfileRow, TaskSample};
use crate::sample::machine::inventory;
use crate::sample::{Sampler, Samples, Window};
use crate::spool::{Spool, SpoolSettings};
use crate::starts::Starts;
use crate::table::Row;
use steelyard_kernel::cgroup::Hierarchies;

/// Settings of an agent, already checked.
#[derive(Debug, Clone)]
pub struct AgentSettings {
    /// The machine.
    pub origin: Origin,
    /// The configuration.
    pub config: Config,
    /// The root of /proc and /sys.
    pub root: PathBuf,
    /// The spool's folder.
    pub spool: PathBuf,
}

/// Takes profiles, in a process of its own or in a test.
pub trait Profiler {
    /// Begins to profile for `duration_s`; rows are of a window that began at `start_unix_s`.
    fn begin(&mut self, start_unix_s: i64, duration_s: f64) -> io::Result<()>;
    /// The outcome; None while it goes on, or when none was begun.
    fn take(&mut self) -> Option<Result<Vec<ProfileRow>, String>>;
    /// Whether one was begun and not taken.
    fn is_going_on(&self) -> bool;
}

/// Judges samples, and may act on them.
pub trait Watch {
    /// A window has ended.
    fn on_window(&mut self, now: Clock, samples: &[TaskSample]) -> Vec<Incident>;
    /// Time has passed.
    fn tick(&mut self, now: Clock) -> Vec<Incident>;
    /// The agent is about to end.
    fn stop(&mut self, now: Clock) -> Vec<Incident>;
    /// Its figures for Prometheus: name without prefix, help, value.
    fn figures(&self) -> Vec<(&'static str, &'static str, f64)>;
}

enum Phase {
    /// Until the window that begins then, s since 1970.
    Waiting { start_unix_s: i64 },
    /// In a window that ends then, by the monotonic clock.
    Counting { window: Box<Window>, end_ns: u64 },
}

/// An agent.
pub struct Agent {
    settings: AgentSettings,
    tree: Tree,
    finder: Finder,
    sampler: Sampler,
    spool: Spool<Private>,
    profiler: Box<dyn Profiler>,
    watch: Option<Box<dyn Watch>>,
    health: Arc<Mutex<Health>>,
    budget: Budget,
    phase: Phase,
    last_minute: Option<i64>,
    starts: Starts,
    machine: Option<Machine>,
    /// Rows of the last window that could not be written down, to be tried once more.
    unwritten: Option<Samples>,
}

/// Seconds between two rows of an unchanged machine.
const MACHINE_EVERY_S: i64 = 86_400;
/// A minute's profile ends so long before the minute does, s.
const PROFILE_SPARE_S: f64 = 5.0;
const SECOND_NS: u64 = 1_000_000_000;

impl Agent {
    /// An agent that begins now. `clock` is the monotonic clock that readings are timed by.
    pub fn new(
        settings: AgentSettings,
        profiler: Box<dyn Profiler>,
        watch: Option<Box<dyn Watch>>,
        clock: fn() -> u64,
        now: Clock,
    ) -> io::Result<Self> {
        let config = &settings.config;
        let tree = Tree::new(&settings.root);
        let hierarchies = Hierarchies::of(&tree);
        let rules = Rules::new(&config.rule, config.shipped_rules).map_err(io::Error::other)?;
        let sampling = &config.sampling;
        let private = Private::make(&settings.spool)?;
        let spool = Spool::open(
            private.clone(),
            SpoolSettings {
                folder: private.path().to_owned(),
                origin: settings.origin.clone(),
                batch_s: i64::from(config.spool.batch_minutes) * 60,
                bound_bytes: config.spool.bound_mib << 20,
            },
        )?;
        let health = Health {
            start_unix_s: unix_s(now),
            ..Health::default()
        };
        let mut agent = Self {
            finder: Finder::new(&tree, hierarchies.clone(), rules, sampling.max_tasks),
            sampler: Sampler::new(
                &tree,
                hierarchies,
                sampling.counters,
                config.telemetry.clone(),
                clock,
            ),
            budget: Budget::new(&config.limits),
            tree,
            spool,
            profiler,
            watch,
            health: Arc::new(Mutex::new(health)),
            phase: Phase::Waiting { start_unix_s: 0 },
            last_minute: None,
            starts: Starts::default(),
            machine: None,
            unwritten: None,
            settings,
        };
        // Not in a second in which the agent before may have begun a window.
        agent.phase = Phase::Waiting {
            start_unix_s: agent.next_start(unix_s(now) + 1),
        };
        Ok(agent)
    }

    /// The agent's figures, shared with the page that shows them.
    pub fn health(&self) -> Arc<Mutex<Health>> {
        Arc::clone(&self.health)
    }

    /// The spool.
    pub fn spool(&self) -> &Spool<Private> {
        &self.spool
    }

    /// The first second from `from_unix_s` on in which a window begins. Machines begin at different seconds of their
    /// periods, so that a fleet's uploads do not come all at once.
    fn next_start(&self, from_unix_s: i64) -> i64 {
        let sampling = &self.settings.config.sampling;
        let period_s = i64::from(sampling.period_s);
        let spare_s = (f64::from(sampling.period_s) - sampling.window_s).floor() as i64;
        let offset_s = i64::from(crc32c::crc32c(self.settings.origin.machine.as_bytes()))
            .rem_euclid(spare_s.max(0) + 1)
            % period_s;
        offset_s + (from_unix_s - offset_s + period_s - 1).div_euclid(period_s) * period_s
    }

    /// Begins a window at once, whatever the time.
    pub fn begin_now(&mut self, now: Clock) {
        self.begin(now);
    }

    /// Does what is due, and returns for how long nothing will be, ns.
    pub fn tick(&mut self, now: Clock, own: Own) -> u64 {
        self.take_profile();
        self.maybe_profile(now);
        let incidents = self
            .watch
            .as_mut()
            .map(|watch| watch.tick(now))
            .unwrap_or_default();
        self.add(&incidents);
        let wait_ns = match &self.phase {
            Phase::Waiting { start_unix_s } => {
                let wait_ns = ((*start_unix_s as u64).saturating_mul(SECOND_NS))
                    .saturating_sub(now.realtime_ns);
                let period_ns = u64::from(self.settings.config.sampling.period_s) * SECOND_NS;
                if wait_ns > period_ns {
                    // The clock was set back.
                    let start_unix_s = self.next_start(unix_s(now));
                    self.phase = Phase::Waiting { start_unix_s };
                    0
                } else if wait_ns == 0 {
                    // Not where a window began before the clock was set back.
                    match self.starts.free_from(unix_s(now)) {
                        free if free == unix_s(now) => self.begin(now),
                        start_unix_s => self.phase = Phase::Waiting { start_unix_s },
                    }
                    0
                } else {
                    wait_ns
                }
            }
            Phase::Counting { end_ns, .. } => end_ns.saturating_sub(now.monotonic_ns),
        };
        if matches!(self.phase, Phase::Counting { .. }) && wait_ns == 0 {
            return self.maybe_end(now, own);
        }
        // A second at most: profiles end, batches end, caps end.
        wait_ns.min(SECOND_NS)
    }

    fn maybe_end(&mut self, now: Clock, own: Own) -> u64 {
        let Phase::Counting { end_ns, .. } = &self.phase else {
            return 0;
        };
        let left_ns = end_ns.saturating_sub(now.monotonic_ns);
        if left_ns > 0 {
            return left_ns.min(SECOND_NS);
        }
        self.end(now, own);
        0
    }

    fn begin(&mut self, now: Clock) {
        self.starts.take(unix_s(now));
        let sampling = &self.settings.config.sampling;
        let window_ns = (sampling.window_s * 1e9) as u64;
        let found = self.finder.look();
        {
            let mut health = self.lock();
            health.tasks_over_limit = found.too_many;
            health.groups = found.groups;
        }
        let window = self.sampler.begin(&found.tasks, unix_s(now));
        self.phase = Phase::Counting {
            window: Box::new(window),
            end_ns: now.monotonic_ns + window_ns,
        };
    }

    fn end(&mut self, now: Clock, own: Own) {
        let waiting = Phase::Waiting { start_unix_s: 0 };
        let Phase::Counting { window, end_ns } = std::mem::replace(&mut self.phase, waiting) else {
            return;
        };
        let window_ns = (self.settings.config.sampling.window_s * 1e9) as u64;
        let late_ns = now.monotonic_ns - end_ns;
        // A machine that stood still in the middle of it: no window of the length that was asked for.
        let samples = match late_ns > window_ns.max(SECOND_NS) {
            true => {
                tracing::warn!(
                    "a window of {:.1} s took {:.1} s longer and is skipped",
                    window_ns as f64 / 1e9,
                    late_ns as f64 / 1e9
                );
                self.lock().windows_skipped += 1;
                None
            }
            false => Some(self.sampler.end(*window)),
        };
        self.note_machine(unix_s(now));
        let incidents = match (&mut self.watch, &samples) {
            (Some(watch), Some(samples)) => watch.on_window(now, &samples.tasks),
            _ => Vec::new(),
        };
        if let Some(samples) = samples {
            self.write(samples);
        }
        self.add(&incidents);
        self.seal(unix_s(now));
        let skipped = self.judge(now, own);
        let mut start_unix_s = self.next_start(unix_s(now) + 1);
        if skipped {
            self.lock().windows_skipped += 1;
            start_unix_s += i64::from(self.settings.config.sampling.period_s);
        }
        self.phase = Phase::Waiting { start_unix_s };
    }

    /// Writes a window down; one that fails is tried once more with the next.
    fn write(&mut self, samples: Samples) {
        self.write_before();
        let mut left = samples.clone();
        if !self.try_write(&mut left) {
            self.unwritten = Some(left);
        }
        let missing = self.sampler.missing().clone();
        let nodes = self
            .sampler
            .missing_nodes()
            .map(|reason| ("NUMA nodes".to_owned(), reason.to_owned()));
        let telemetry_failures = self.sampler.telemetry_failures();
        let mut health = self.lock();
        health.windows += 1;
        health.missing = missing;
        health.missing.extend(nodes);
        health.telemetry_failures = telemetry_failures;
        health.tasks = samples.tasks;
    }

    /// Writes down what is left of the window before, or gives it up.
    fn write_before(&mut self) {
        if let Some(mut left) = self.unwritten.take()
            && !self.try_write(&mut left)
        {
            self.spool.lose_window();
        }
    }

    /// Whether all of a window is written down. What is, is taken out, so that it is not written again.
    fn try_write(&mut self, samples: &mut Samples) -> bool {
        let machine: Vec<MachineSample> = samples.machine.iter().cloned().collect();
        if self.add(&machine) {
            samples.machine = None;
        }
        if self.add(&samples.tasks) {
            samples.tasks.clear();
        }
        samples.machine.is_none() && samples.tasks.is_empty()
    }

    fn add<R: Row>(&mut self, rows: &[R]) -> bool {
        if rows.is_empty() {
            return true;
        }
        match self.spool.add(rows) {
            Ok(()) => {
                *self.lock().rows.entry(R::TABLE).or_insert(0) += rows.len() as u64;
                true
            }
            Err(error) => {
                tracing::warn!(
                    "{} rows of {} cannot be written down: {error}",
                    rows.len(),
                    R::NAME
                );
                self.lock().spool_failures += 1;
                false
            }
        }
    }

    /// A row of `machines` when it is new, has changed, or was written a day ago.
    fn note_machine(&mut self, now_unix_s: i64) {
        let config = &self.settings.config;
        let machine = inventory(
            &self.tree,
            &self.sampler.machines().topology,
            &config.machine_limits,
            &config.labels,
            now_unix_s,
        );
        let is_known = self.machine.as_ref().is_some_and(|known| {
            let same = Machine {
                seen_unix_s: known.seen_unix_s,
                ..machine.clone()
            };
            same == *known && now_unix_s - known.seen_unix_s < MACHINE_EVERY_S
        });
        if !is_known && self.add(std::slice::from_ref(&machine)) {
            self.machine = Some(machine);
        }
    }

    fn seal(&mut self, now_unix_s: i64) {
        if let Err(error) = self.spool.seal_ended(now_unix_s) {
            tracing::warn!("a batch cannot be written: {error}");
            self.lock().spool_failures += 1;
        }
        self.note_spool();
    }

    fn note_spool(&self) {
        let waiting_files = self.spool.ready().map(|files| files.len()).unwrap_or(0);
        let mut health = self.lock();
        health.waiting_windows = self.spool.waiting_windows().values().sum();
        health.journal_bytes = self.spool.journal_bytes();
        health.waiting_files = waiting_files;
        health.lost = self.spool.lost().clone();
        health.guard = self
            .watch
            .as_ref()
            .map(|watch| watch.figures())
            .unwrap_or_default();
    }

    /// Holds the agent's own use against its limits; returns whether the next window is to be left out.
    fn judge(&mut self, now: Clock, own: Own) -> bool {
        self.budget.note(now.monotonic_ns, own);
        if self.budget.is_memory_over() {
            // Batches are the most that it holds.
            if let Err(error) = self.spool.seal_all() {
                tracing::warn!("a batch cannot be written: {error}");
            }
        }
        let mut health = self.lock();
        health.own = own;
        health.own_cpu_ratio = self.budget.cpu_ratio();
        drop(health);
        self.budget.is_cpu_far_over()
    }

    fn maybe_profile(&mut self, now: Clock) {
        let minute = unix_s(now).div_euclid(60);
        let begun = self.last_minute.replace(minute);
        // The minute that the agent was started in is not whole.
        if begun.is_none_or(|last| last == minute) {
            return;
        }
        let profiles = &self.settings.config.profiles;
        if !is_chosen(
            &self.settings.origin.machine,
            minute,
            profiles.seed,
            profiles.minutes_ratio,
        ) {
            return;
        }
        if self.budget.is_over() {
            self.lock().profiles_skipped += 1;
            return;
        }
        let passed_s = (now.realtime_ns % (60 * SECOND_NS)) as f64 / 1e9;
        let duration_s = 60.0 - PROFILE_SPARE_S - passed_s;
        if duration_s > 1.0 {
            self.begin_profile(unix_s(now), duration_s);
        }
    }

    /// Profiles for `duration_s` from now on, whatever minute it is.
    pub fn begin_profile(&mut self, start_unix_s: i64, duration_s: f64) {
        if let Err(error) = self.profiler.begin(start_unix_s, duration_s) {
            tracing::warn!("a profile cannot be taken: {error}");
            self.lock().profile_failures += 1;
        }
    }

    /// Whether a profile is being taken.
    pub fn is_profiling(&self) -> bool {
        self.profiler.is_going_on()
    }

    /// Takes the profile that has ended, if one has; returns whether one has.
    pub fn take_profile(&mut self) -> bool {
        match self.profiler.take() {
            None => false,
            Some(Ok(rows)) => {
                self.add(&rows);
                self.lock().profiles += 1;
                true
            }
            Some(Err(reason)) => {
                tracing::warn!("a profile failed: {reason}");
                self.lock().profile_failures += 1;
                true
            }
        }
    }

    /// Ends the agent: what is finished becomes files, what is not is left out.
    pub fn stop(&mut self, now: Clock) -> io::Result<()> {
        let incidents = self
            .watch
            .as_mut()
            .map(|watch| watch.stop(now))
            .unwrap_or_default();
        self.add(&incidents);
        self.write_before();
        let sealed = self.spool.seal_all();
        self.note_spool();
        sealed
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unix_s(now: Clock) -> i64 {
    (now.realtime_ns / SECOND_NS) as i64
}

#[cfg(test)]
mod tests;
