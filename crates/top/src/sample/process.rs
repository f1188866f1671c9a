//! One process and its threads, read as cheaply as the kernel allows.
//!
//! A thread that has not run has changed nothing: no CPU time, no faults, no I/O, no new thread. Its schedstat
//! file, the cheapest there is, shows that. So of a sleeping process only these are read, and the costlier files
//! (stat, io, status) of those that ran. Resident memory, which others may take away, is read again after
//! [`REST_NS`] at the latest.
//!
//! What only threads have (time waiting, context switches) is summed up as it grows, so that the sum of a
//! process never goes back when a thread ends; what a thread did between the last reading and its end is lost.

use std::io;
use std::rc::Rc;

use steelyard_kernel::cgroup::group_of;
use steelyard_kernel::numa::Nodes;
use steelyard_kernel::{Stat, ns_per_clock_tick};

use super::files::{Files, Place};
use super::parse;
use super::reading::{Counter, Counters, Identity, Reading, TaskId};
use super::thread::{Thread, faults, io_counters, is_denied, rss};
use super::users::Users;
use crate::Reason;

/// Longest time for which a process at rest is not read again, ns.
const REST_NS: u64 = 10_000_000_000;
/// PF_KTHREAD of linux/sched.h.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// What a reader of processes needs to know.
pub struct Context<'a> {
    /// Reads files.
    pub files: &'a mut Files,
    /// Names of users.
    pub users: &'a mut Users,
    /// The monotonic time, ns.
    pub clock: &'a dyn Fn() -> u64,
    /// Whether each thread is wanted for itself.
    pub want_threads: bool,
    /// The controller whose hierarchy names control groups, as [`parse::cgroup`] takes it.
    pub controller: Option<&'static str>,
    /// NUMA nodes, where there are several.
    pub nodes: Option<&'a Nodes>,
}

/// A process that is looked after.
#[derive(Debug, Default)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    stat: Place,
    io: Place,
    io_denied: bool,
    threads: Vec<Thread>,
    has_schedstat: bool,
    has_switches: bool,
    /// Sums over threads, those that have ended too.
    wait_ns: u64,
    switches: [u64; 2],
    /// CPU time by NUMA node, ns, halved at each reading.
    nodes: Vec<f64>,
    read_ns: u64,
    reading: Option<Reading>,
    /// Readings in a row that found it at rest.
    pub rests: u32,
    /// When to look at it again on a crowded machine, ns.
    pub next_visit_ns: u64,
}

impl Process {
    /// A process that nothing is known of.
    pub fn new(pid: u32) -> Self {
        Self {
            pid,
            ..Self::default()
        }
    }

    /// The last reading; None before the first.
    pub fn reading(&self) -> Option<&Reading> {
        self.reading.as_ref()
    }

    /// The last readings of its threads, where they are wanted.
    pub fn thread_readings(&self) -> impl Iterator<Item = &Reading> {
        self.threads
            .iter()
            .filter_map(|thread| thread.reading.as_ref())
    }

    /// Threads looked after.
    pub fn thread_count(&self) -> usize {
        self.threads.len()
    }

    /// Reads what has changed. An error means that the process has ended.
    pub fn read(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let time_ns = (context.clock)();
        let first = self.reading.is_none();
        let some_ran = first || self.look_at_threads(context);
        if !some_ran && time_ns.saturating_sub(self.read_ns) < REST_NS {
            self.rests = self.rests.saturating_add(1);
            if let Some(reading) = &mut self.reading {
                reading.time_ns = time_ns;
            }
            for thread in &mut self.threads {
                if let Some(reading) = &mut thread.reading {
                    reading.time_ns = time_ns;
                }
            }
            return Ok(());
        }
        self.rests = if some_ran { 0 } else { self.rests + 1 };
        self.read_changed(context, first)
    }

    /// Reads the threads' turns; whether any has run, come or gone.
    fn look_at_threads(&mut self, context: &mut Context<'_>) -> bool {
        let pid = self.pid;
        if !self.has_schedstat {
            for thread in &mut self.threads {
                thread.ran = true;
            }
            return true;
        }
        let mut some_ran = false;
        let before = self.threads.len();
        self.threads.retain_mut(|thread| {
            match thread.look(pid, context) {
                Ok(ran) => some_ran |= ran,
                Err(_) => {
                    thread.close(context.files);
                    return false;
                }
            }
            true
        });
        for thread in &mut self.threads {
            self.wait_ns += std::mem::take(&mut thread.wait_ns);
        }
        some_ran || self.threads.len() != before
    }

    fn read_changed(&mut self, context: &mut Context<'_>, mut first: bool) -> io::Result<()> {
        let pid = self.pid;
        let time_ns = (context.clock)();
        let text = context
            .files
            .read(&mut self.stat, || format!("proc/{pid}/stat"))?;
        let stat = Stat::parse(text).ok_or(io::ErrorKind::InvalidData)?;
        let name = parse::harmless(stat.command);
        let stat = stat.without_name();
        if self
            .reading
            .as_ref()
            .is_some_and(|reading| reading.id.start_ticks != stat.start_ticks)
        {
            // Another process has the id now.
            self.forget(context.files);
            first = true;
        }
        if first || self.threads.len() as u64 != stat.threads {
            self.list_threads(context, first);
        }
        self.read_threads(context);
        let who = self.identity(context, &stat, name, time_ns);
        let [read_bytes, written_bytes] = self.read_io(context, &who);
        let nodes = self.read_nodes(context);
        self.read_ns = time_ns;
        let wait_ns = self.counter_if(self.has_schedstat, self.wait_ns);
        let voluntary = self.counter_if(self.has_switches, self.switches[0]);
        let involuntary = self.counter_if(self.has_switches, self.switches[1]);
        let tick_ns = ns_per_clock_tick();
        let (minor_faults, major_faults) = faults(&stat);
        self.reading = Some(Reading {
            id: TaskId {
                pid,
                tid: None,
                start_ticks: stat.start_ticks,
            },
            time_ns,
            state: stat.state,
            counters: Counters {
                user_ns: stat.user_ticks.saturating_mul(tick_ns),
                system_ns: stat.system_ticks.saturating_mul(tick_ns),
                wait_ns,
                minor_faults,
                major_faults,
                read_bytes,
                written_bytes,
                voluntary,
                involuntary,
            },
            rss_bytes: rss(&stat, &who),
            threads: stat.threads,
            nodes,
            who,
        });
        Ok(())
    }

    fn counter_if(&self, is_reported: bool, value: u64) -> Counter {
        if is_reported {
            Ok(value)
        } else {
            Err(Reason::NOT_REPORTED)
        }
    }

    /// Takes up threads that are new and lets go of those that have ended.
    fn list_threads(&mut self, context: &mut Context<'_>, first: bool) {
        let pid = self.pid;
        let mut tids: Vec<u32> = context
            .files
            .tree()
            .directories(format!("proc/{pid}/task"))
            .iter()
            .filter_map(|name| name.parse().ok())
            .collect();
        tids.sort_unstable();
        if tids.is_empty() {
            tids.push(pid);
        }
        let mut known = std::mem::take(&mut self.threads).into_iter().peekable();
        for tid in tids {
            while let Some(mut ended) = known.next_if(|thread| thread.tid < tid) {
                ended.close(context.files);
            }
            if let Some(thread) = known.next_if(|thread| thread.tid == tid) {
                self.threads.push(thread);
                continue;
            }
            let mut thread = Thread {
                tid,
                ..Thread::default()
            };
            match thread.look(pid, context) {
                Ok(_) => self.has_schedstat = true,
                Err(error) if error.kind() == io::ErrorKind::NotFound && first && tid == pid => {
                    self.has_schedstat = false;
                }
                Err(_) => {}
            }
            thread.ran = true;
            self.wait_ns += std::mem::take(&mut thread.wait_ns);
            self.threads.push(thread);
        }
        for mut ended in known {
            ended.close(context.files);
        }
    }

    /// Reads the dearer files of threads that ran.
    fn read_threads(&mut self, context: &mut Context<'_>) {
        let pid = self.pid;
        for thread in self.threads.iter_mut().filter(|thread| thread.ran) {
            let Ok(text) = context.files.read(&mut thread.status, || {
                format!("proc/{pid}/task/{}/status", thread.tid)
            }) else {
                continue;
            };
            let status = parse::status(text);
            if let [Some(voluntary), Some(involuntary)] = status.switches {
                self.has_switches = true;
                let now = [voluntary, involuntary];
                let before = thread.switches.replace(now).unwrap_or([0; 2]);
                for (kind, sum) in self.switches.iter_mut().enumerate() {
                    let grown = now[kind].saturating_sub(before[kind]);
                    *sum += grown;
                    thread.switches_sum[kind] += grown;
                }
            }
        }
    }

    fn read_io(&mut self, context: &mut Context<'_>, who: &Identity) -> [Counter; 2] {
        if who.is_kernel {
            return [Err(Reason::KERNEL_THREAD), Err(Reason::KERNEL_THREAD)];
        }
        if self.io_denied {
            return [Err(Reason::not_permitted()), Err(Reason::not_permitted())];
        }
        let pid = self.pid;
        let read = context
            .files
            .read(&mut self.io, || format!("proc/{pid}/io"))
            .map(steelyard_kernel::storage_bytes);
        self.io_denied = matches!(&read, Err(error) if is_denied(error));
        io_counters(read)
    }

    /// Who it is; read again when its name changes, as it does by executing another program.
    fn identity(
        &mut self,
        context: &mut Context<'_>,
        stat: &Stat<'_>,
        name: String,
        time_ns: u64,
    ) -> Rc<Identity> {
        if let Some(reading) = &self.reading
            && reading.who.name == name
            && time_ns.saturating_sub(self.read_ns) < REST_NS
        {
            return Rc::clone(&reading.who);
        }
        let pid = self.pid;
        let is_kernel = stat.flags.is_some_and(|flags| flags & KERNEL_THREAD != 0);
        let command = context
            .files
            .read_once(&format!("proc/{pid}/cmdline"))
            .ok()
            .and_then(parse::command_line);
        let uid = context
            .files
            .read_once(&format!("proc/{pid}/status"))
            .ok()
            .and_then(|text| parse::status(text).uid);
        let cgroup = context.controller.and_then(|controller| {
            let text = context
                .files
                .read_once(&format!("proc/{pid}/cgroup"))
                .ok()?;
            Some(parse::harmless(group_of(text, controller)?.as_bytes()))
        });
        let identity = Identity {
            name,
            command,
            user: uid.and_then(|uid| context.users.name(uid)),
            uid,
            cgroup,
            is_kernel,
        };
        match &self.reading {
            Some(reading) if *reading.who == identity => Rc::clone(&reading.who),
            _ => Rc::new(identity),
        }
    }

    /// Where it ran lately: the share of each NUMA node, in their order, in its CPU time.
    fn read_nodes(&mut self, context: &mut Context<'_>) -> Vec<f64> {
        let Some(nodes) = context.nodes else {
            return Vec::new();
        };
        self.nodes.resize(nodes.len(), 0.0);
        for time in &mut self.nodes {
            *time /= 2.0;
        }
        let pid = self.pid;
        for thread in self.threads.iter_mut().filter(|thread| thread.ran) {
            let run_ns = std::mem::take(&mut thread.run_ns);
            let node = context
                .files
                .read(&mut thread.stat, || {
                    format!("proc/{pid}/task/{}/stat", thread.tid)
                })
                .ok()
                .and_then(|text| Stat::parse(text)?.processor)
                .and_then(|cpu| nodes.position_of_cpu(cpu));
            if let Some(node) = node {
                // A thread that has just been met has run somewhere, however short.
                self.nodes[node] += run_ns.max(1) as f64;
            }
        }
        let sum: f64 = self.nodes.iter().sum();
        self.nodes
            .iter()
            .map(|time| if sum > 0.0 { time / sum } else { 0.0 })
            .collect()
    }

    /// Reads each thread that ran for itself.
    pub fn read_each_thread(&mut self, context: &mut Context<'_>) {
        let Some(process) = self.reading.clone() else {
            return;
        };
        for thread in &mut self.threads {
            if thread.ran || thread.reading.is_none() {
                thread.read(context, &process, self.has_schedstat);
            }
            thread.ran = false;
        }
    }

    /// Forgets everything but the id, because another process has it now.
    fn forget(&mut self, files: &mut Files) {
        self.close(files);
        *self = Self {
            stat: Place::Untried,
            ..Self::new(self.pid)
        };
    }

    /// Closes its files.
    pub fn close(&mut self, files: &mut Files) {
        files.close(&mut self.stat);
        files.close(&mut self.io);
        for thread in &mut self.threads {
            thread.close(files);
        }
    }
}
