//! Reads processes, threads, control groups and the machine through an injected tree: cumulative counters.
//!
//! In: the tree, what is wanted, and the monotonic clock. Out: a [`Sample`] each time it is asked. Invariants:
//! every counter has the time of its read; a process is its id and its start; files stay open between
//! readings while there are descriptors to spare.
//!
//! On a machine with more than [`CROWDED`] threads those at rest are visited less and less often, every
//! [`VISIT_AT_LEAST_NS`] in the end, so that thousands of sleepers do not make this program busy.
//!
//! Not here: rates and shares (`derive`).

mod files;
mod groups;
mod machine;
pub mod numa;
pub mod parse;
mod process;
mod reading;
mod thread;
mod users;

use steelyard_kernel::Tree;

pub use reading::{
    Counter, Counters, GroupReading, Identity, MachineReading, Reading, Sample, TaskId,
};

use crate::TopError;
use files::Files;
use groups::Groups;
pub use groups::ancestors;
use machine::Machine;
use numa::Numa;
use process::{Context, Process};
use users::Users;

/// Most processes looked after.
pub const TRACKED: usize = 65_536;
/// Threads above which those at rest are left alone for a while.
pub const CROWDED: usize = 4096;
/// Longest time without a visit, ns.
pub const VISIT_AT_LEAST_NS: u64 = 5_000_000_000;
/// Longest time between two looks for new processes, ns.
const LOOK_AT_LEAST_NS: u64 = 10_000_000_000;

/// What is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wants {
    /// Only these processes; all when empty.
    pub pids: Vec<u32>,
    /// Each thread for itself.
    pub threads: bool,
    /// Control groups.
    pub groups: bool,
}

/// Reads a tree again and again.
pub struct Sampler {
    tree: Tree,
    wants: Wants,
    files: Files,
    users: Users,
    machine: Machine,
    groups: Groups,
    numa: Numa,
    processes: Vec<Process>,
    last_pid: Option<u64>,
    last_look_ns: Option<u64>,
}

impl Sampler {
    /// A reader of `tree`.
    pub fn new(tree: &Tree, wants: Wants) -> Result<Self, TopError> {
        let sampler = Self {
            files: Files::new(tree),
            users: Users::read(tree),
            machine: Machine::new(tree),
            groups: Groups::new(tree),
            numa: Numa::new(tree),
            tree: tree.clone(),
            wants,
            processes: Vec::new(),
            last_pid: None,
            last_look_ns: None,
        };
        for &pid in &sampler.wants.pids {
            if !tree.path(format!("proc/{pid}/stat")).exists() {
                return Err(TopError::NoProcess { pid });
            }
        }
        if sampler.pids().is_empty() {
            return Err(TopError::NoProcesses {
                path: tree.path("proc").display().to_string(),
            });
        }
        Ok(sampler)
    }

    /// From the next reading on, threads and control groups are read or not.
    pub fn want(&mut self, threads: bool, groups: bool) {
        self.wants.threads = threads;
        self.wants.groups = groups;
    }

    /// NUMA nodes and where memory lies.
    pub fn numa(&self) -> &Numa {
        &self.numa
    }

    /// Looks where the memory of these processes lies, the first first, as far as a tick allows.
    pub fn look_at_memory<'r>(&mut self, wanted: impl Iterator<Item = &'r Reading>, now_ns: u64) {
        self.numa.look(wanted, now_ns);
    }

    /// Reads everything that is wanted.
    pub fn read(&mut self, clock: &dyn Fn() -> u64) -> Sample {
        let time_ns = clock();
        let machine = self.machine.read(time_ns);
        self.look_for_new(time_ns);
        self.visit(clock, time_ns);
        let readings = |process: &Process| process.reading().cloned();
        let processes: Vec<Reading> = self.processes.iter().filter_map(readings).collect();
        let threads = if self.wants.threads {
            let of = Process::thread_readings;
            self.processes.iter().flat_map(of).cloned().collect()
        } else {
            Vec::new()
        };
        let groups = if self.wants.groups {
            let paths = processes
                .iter()
                .filter_map(|process| process.who.cgroup.as_deref());
            self.groups.read(paths, clock)
        } else {
            Vec::new()
        };
        Sample {
            time_ns,
            machine,
            processes,
            threads,
            groups,
        }
    }

    fn visit(&mut self, clock: &dyn Fn() -> u64, now_ns: u64) {
        let threads: usize = self.processes.iter().map(Process::thread_count).sum();
        let is_crowded = threads > CROWDED;
        let mut context = Context {
            files: &mut self.files,
            users: &mut self.users,
            clock,
            want_threads: self.wants.threads,
            controller: self.groups.controller(),
            nodes: self.numa.nodes(),
        };
        self.processes.retain_mut(|process| {
            if is_crowded && process.next_visit_ns > now_ns {
                return true;
            }
            if process.read(&mut context).is_err() {
                process.close(context.files);
                return false;
            }
            if context.want_threads {
                process.read_each_thread(&mut context);
            }
            let rest_ns = u64::from(process.rests)
                .saturating_pow(2)
                .saturating_mul(50_000_000);
            process.next_visit_ns = now_ns.saturating_add(rest_ns.min(VISIT_AT_LEAST_NS));
            true
        });
    }

    /// Takes up new processes when the kernel has handed out ids since the last look.
    fn look_for_new(&mut self, now_ns: u64) {
        let last_pid = self.machine.last_pid();
        let due = match self.last_look_ns {
            None => true,
            Some(last_ns) => {
                last_pid.is_none()
                    || last_pid != self.last_pid
                    || now_ns.saturating_sub(last_ns) >= LOOK_AT_LEAST_NS
            }
        };
        if !due {
            return;
        }
        self.last_look_ns = Some(now_ns);
        self.last_pid = last_pid;
        let mut known = std::mem::take(&mut self.processes).into_iter().peekable();
        for pid in self.pids() {
            while let Some(mut ended) = known.next_if(|process| process.pid < pid) {
                ended.close(&mut self.files);
            }
            let process = known
                .next_if(|process| process.pid == pid)
                .unwrap_or_else(|| Process::new(pid));
            self.processes.push(process);
        }
        for mut ended in known {
            ended.close(&mut self.files);
        }
    }

    /// Ids of the processes that are wanted and there, in order.
    fn pids(&self) -> Vec<u32> {
        let mut pids: Vec<u32> = if self.wants.pids.is_empty() {
            std::fs::read_dir(self.tree.path("proc"))
                .into_iter()
                .flatten()
                .flatten()
                .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
                .collect()
        } else {
            self.wants.pids.clone()
        };
        pids.sort_unstable();
        pids.dedup();
        pids.truncate(TRACKED);
        pids
    }
}

/// Runs every scanner over `text`: whatever the kernel prints, none may panic. For tests and the fuzz target.
#[doc(hidden)]
pub fn parse_anything(text: &[u8]) {
    parse::status(text);
    parse::schedstat(text);
    parse::command_line(text);
    parse::harmless(text);
    machine::cpu_times(text);
    machine::memory(text);
}

#[cfg(test)]
mod tests;
