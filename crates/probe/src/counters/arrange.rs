//! Groups of events that the free counters can count at the same time.
//!
//! In: events and the kernel, of which each group is tried. Out: groups, what was refused, and notes.
//!
//! How many counters are free is nowhere to be read: the kernel refuses to open a group that no CPU of this
//! kind could count at once, and of what it opens it never runs a group that does not fit beside counters
//! that others hold for good, such as the NMI watchdog's. So a group counts as fitting when it was seen
//! running. Source: perf_event_open(2), ERRORS (EINVAL, ENOSPC) and `time_running`.
//!
//! Invariants: every event is in one group or missing with a reason; events of two PMUs share no group.

use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use steelyard_record::Modes;

use super::kernel::{Attr, Counter, Kernel, Who};
use super::plan::{Event, Missing};
use super::pmu::{Pmu, Reach, SOFTWARE};
use super::reasons::{self, Need};
use steelyard_kernel::Tree;
use steelyard_kernel::scan;

/// Events that are counted at the same time.
#[derive(Debug, Clone)]
pub struct Group {
    /// Number in the table.
    pub number: u32,
    /// The PMU of all of them.
    pub pmu: Rc<Pmu>,
    /// The first is the leader.
    pub events: Vec<Event>,
}

/// Where groups are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trial {
    /// On a CPU, whatever runs there.
    Cpu(u32),
    /// On the calling thread.
    Own,
}

/// How long a group is watched for a sign of running: longer than the kernel takes to give every group its
/// turn a few times (1 to 4 ms each by default, `perf_event_mux_interval_ms`).
const TRIAL_STEPS: usize = 25;
const TRIAL_STEP_NS: u64 = 1_000_000;
const FIRST_STEP_NS: u64 = 20_000;

/// Tries groups.
pub struct Arranger<'a> {
    kernel: &'a dyn Kernel,
    tree: &'a Tree,
    trial: Trial,
    /// What is missing so far.
    pub missing: &'a mut Missing,
    /// What a reader of the counts should know.
    pub notes: Vec<String>,
    limits: BTreeMap<String, Limit>,
}

/// How many events of one PMU fit, as far as it is known.
#[derive(Debug, Clone, Copy)]
struct Limit {
    general: usize,
    /// Whether events that should have a counter of their own were seen not to.
    fixed_count: bool,
}

impl Limit {
    fn counts(self, event: &Event) -> bool {
        self.fixed_count || !event.fixed
    }
}

impl<'a> Arranger<'a> {
    /// Tries groups of `trial` with `kernel`.
    pub fn new(
        kernel: &'a dyn Kernel,
        tree: &'a Tree,
        trial: Trial,
        missing: &'a mut Missing,
    ) -> Self {
        Self {
            kernel,
            tree,
            trial,
            missing,
            notes: Vec::new(),
            limits: BTreeMap::new(),
        }
    }

    /// The groups of `events`.
    pub fn arrange(&mut self, events: Vec<Event>) -> Vec<Group> {
        let mut queues: Vec<(Rc<Pmu>, Option<String>, Vec<Event>)> = Vec::new();
        for event in self.accepted(events) {
            let at = queues
                .iter()
                .position(|(pmu, group, _)| pmu.name == event.pmu.name && *group == event.group);
            match at {
                Some(at) => queues[at].2.push(event),
                None => queues.push((Rc::clone(&event.pmu), event.group.clone(), vec![event])),
            }
        }
        let mut groups = Vec::new();
        for (pmu, name, queue) in queues {
            let parts = self.fit(&pmu, queue);
            if let (Some(name), 2..) = (name, parts.len()) {
                self.notes.push(format!(
                    "group {name} does not fit the counters of PMU {} that are free: it is split into {} \
                     groups that take turns",
                    pmu.name,
                    parts.len()
                ));
            }
            for events in parts {
                let number = groups.len() as u32;
                groups.push(Group {
                    number,
                    pmu: Rc::clone(&pmu),
                    events,
                });
            }
        }
        groups
    }

    /// The events that the kernel opens alone.
    fn accepted(&mut self, events: Vec<Event>) -> Vec<Event> {
        let names: Vec<String> = events.iter().map(|event| event.name.clone()).collect();
        let mut accepted = Vec::new();
        for event in events {
            let Err(error) = self.open(&event, None) else {
                accepted.push(event);
                continue;
            };
            let need = match (self.trial, event.modes) {
                (Trial::Cpu(_), _) => Need::Cpus,
                (Trial::Own, Modes::User) => Need::OwnUser,
                (Trial::Own, _) => Need::OwnKernel,
            };
            let reason = reasons::event_refused(&error, &event.pmu, need, self.tree, self.kernel);
            let instances = names.iter().filter(|name| **name == event.name).count();
            let place = if instances == 1 { "" } else { &event.pmu.name };
            match self.in_user_mode(&event, &error) {
                Some(other) if other.name == event.name => accepted.push(other),
                Some(other) => {
                    let reason = format!("{reason}; in user mode it is counted as {}", other.name);
                    self.missing.add(&event.name, place, reason);
                    if !names.contains(&other.name) {
                        accepted.push(other);
                    }
                }
                None => self.missing.add(&event.name, place, reason),
            }
        }
        accepted
    }

    /// The same event in user mode, where only that is allowed and means anything.
    fn in_user_mode(&self, event: &Event, error: &io::Error) -> Option<Event> {
        // Software events, by config: clocks count time whatever the mode; faults happen in a mode; the
        // others happen in the kernel only. Source: include/uapi/linux/perf_event.h, perf_sw_ids.
        let suffix = match (event.pmu.type_, event.words[0]) {
            (SOFTWARE, 0 | 1) => "",
            (SOFTWARE, 2 | 5 | 6) => ":u",
            (SOFTWARE, _) => return None,
            _ => ":u",
        };
        let refused = matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM));
        if !refused || event.modes != Modes::All || self.trial != Trial::Own {
            return None;
        }
        let other = Event {
            name: format!("{}{suffix}", event.name),
            modes: Modes::User,
            ..event.clone()
        };
        self.open(&other, None).is_ok().then_some(other)
    }

    /// Parts of `queue` that fit one after the other, each as long as can be.
    fn fit(&mut self, pmu: &Rc<Pmu>, mut queue: Vec<Event>) -> Vec<Vec<Event>> {
        let mut parts = Vec::new();
        while !queue.is_empty() {
            let limit = self.limits.get(&pmu.name).copied().unwrap_or(Limit {
                general: usize::MAX,
                fixed_count: false,
            });
            let (mut taken, mut rest): (Vec<Event>, Vec<Event>) = (Vec::new(), Vec::new());
            let mut counters: Vec<Box<dyn Counter>> = Vec::new();
            for event in &queue {
                let general = taken.iter().filter(|event| limit.counts(event)).count();
                let leader = counters.first().map(|leader| leader.number());
                let opened = if limit.counts(event) && general >= limit.general {
                    None
                } else {
                    self.open(event, leader).ok()
                };
                match opened {
                    Some(counter) => {
                        counters.push(counter);
                        taken.push(event.clone());
                    }
                    None => rest.push(event.clone()),
                }
            }
            if taken.is_empty() {
                for event in rest {
                    let reason = "the kernel opened it once and then refused it".to_owned();
                    self.missing.add(&event.name, &pmu.name, reason);
                }
                break;
            }
            if taken.len() > 1 && !self.runs(pmu, &*counters[0], taken.len()) {
                self.lower(pmu, limit, &taken);
                continue;
            }
            parts.push(taken);
            queue = rest;
        }
        parts
    }

    /// Learns from a group that never ran.
    fn lower(&mut self, pmu: &Pmu, limit: Limit, taken: &[Event]) {
        let general = taken.iter().filter(|event| limit.counts(event)).count();
        let lower = if general > 1 {
            Limit {
                general: general - 1,
                ..limit
            }
        } else {
            Limit {
                general: taken.len() - 1,
                fixed_count: true,
            }
        };
        self.limits.insert(pmu.name.clone(), lower);
        let watchdog = self.tree.text("proc/sys/kernel/nmi_watchdog");
        let holder = if watchdog.ok().and_then(|text| scan::number(&text)) == Some(1) {
            "the NMI watchdog holds one of each CPU's: sysctl kernel.nmi_watchdog=0 frees it"
        } else {
            "another program holds some of them"
        };
        let note = format!(
            "PMU {} has fewer counters free than the CPU has, so that groups are smaller: {holder}",
            pmu.name
        );
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Whether the group of `leader` was seen running.
    fn runs(&self, pmu: &Pmu, leader: &dyn Counter, members: usize) -> bool {
        if pmu.type_ == SOFTWARE || leader.enable().is_err() {
            return true;
        }
        let cpus = match (self.trial, &pmu.reach) {
            (Trial::Own, Reach::Cores(cpus)) => Some(cpus.as_slice()),
            _ => None,
        };
        let mut words = vec![0; 3 + members];
        let mut enabled = false;
        for step in 0..TRIAL_STEPS {
            let time_ns = if step == 0 {
                FIRST_STEP_NS
            } else {
                TRIAL_STEP_NS
            };
            self.kernel.run_for(time_ns, cpus);
            if leader.read(&mut words).is_err() || words[2] > 0 {
                return true;
            }
            enabled |= words[1] > 0;
        }
        // One that was never enabled, on a core that this thread may not use, tells nothing.
        !enabled
    }

    fn open(&self, event: &Event, leader: Option<i32>) -> io::Result<Box<dyn Counter>> {
        let attr = Attr {
            type_: event.pmu.type_,
            words: event.words,
            modes: event.modes,
            inherit: false,
            disabled: leader.is_none(),
            enable_on_exec: false,
        };
        let (who, cpu) = match (self.trial, &event.pmu.reach) {
            (Trial::Own, _) => (Who::Thread(0), None),
            (Trial::Cpu(cpu), Reach::Everywhere) => (Who::All, Some(cpu)),
            (Trial::Cpu(cpu), Reach::Cores(cpus) | Reach::Machine(cpus)) => {
                (Who::All, Some(cpus.first().copied().unwrap_or(cpu)))
            }
        };
        self.kernel.open(&attr, who, cpu, leader)
    }
}
