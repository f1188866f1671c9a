//! CPU time of one process by node: its threads, each looked at.
//!
//! A look at a thread that has not run costs one read of a file that stays open.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use steelyard_kernel::numa::{Missing, Nodes, add};
use steelyard_kernel::{Stat, Tree, TreeFile, ns_per_clock_tick, scan};

/// How many files may be kept open between looks; those beyond are opened at each look.
#[derive(Debug, Clone)]
pub struct Keeper(Rc<Cell<usize>>);

impl Keeper {
    /// At most `files`.
    pub fn new(files: usize) -> Self {
        Self(Rc::new(Cell::new(files)))
    }

    fn open(&self, tree: &Tree, name: String) -> io::Result<KeptFile> {
        let left = self.0.get();
        if left == 0 || !tree.is_live() {
            let file = tree.file_at_each_read(name);
            return Ok(KeptFile { file, keeper: None });
        }
        let file = tree.file(name)?;
        self.0.set(left - 1);
        Ok(KeptFile {
            file,
            keeper: Some(self.clone()),
        })
    }
}

/// A file that gives its place back when it is closed.
#[derive(Debug)]
struct KeptFile {
    file: TreeFile,
    keeper: Option<Keeper>,
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        if let Some(keeper) = &self.keeper {
            keeper.0.set(keeper.0.get() + 1);
        }
    }
}

/// What a look needs beside the process.
pub(super) struct Context<'c> {
    pub tree: &'c Tree,
    pub nodes: &'c Nodes,
    pub keeper: &'c Keeper,
    pub buffer: &'c mut Vec<u8>,
}

#[derive(Debug)]
struct Thread {
    tid: u32,
    /// None where the kernel has no schedstat: then CPU time comes from stat, in clock ticks.
    schedstat: Option<KeptFile>,
    stat: Option<KeptFile>,
    run_ns: u64,
    /// Position of the node that it ran on last, as it was read; None when it has run since.
    position: Option<Option<usize>>,
    has_ended: bool,
}

/// What is known of a process at a look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Who {
    pub name: String,
    pub is_kernel: bool,
    pub start_ticks: u64,
    pub rss_pages: Option<u64>,
    pub faults: [Option<u64>; 2],
}

/// The CPU time of one process by node.
#[derive(Debug)]
pub(super) struct ProcessCpu {
    pid: u32,
    pub who: Who,
    threads: Vec<Thread>,
    /// Of the window, by position, ns.
    window_ns: Vec<u64>,
    pub has_ended: bool,
}

impl ProcessCpu {
    /// Begins to watch a process: what it ran before does not count.
    pub(super) fn start(context: &mut Context<'_>, pid: u32) -> Result<Self, Missing> {
        let mut process = Self {
            pid,
            who: Who::default(),
            threads: Vec::new(),
            window_ns: vec![0; context.nodes.len()],
            has_ended: false,
        };
        let mut leader = Thread::leader(context, pid)?;
        let threads = process.read_stat(context, &mut leader)?.1;
        if process.who.is_kernel {
            return Ok(process);
        }
        leader.start(context, pid)?;
        process.threads.push(leader);
        if threads > 1 {
            process.list(context, false);
        }
        Ok(process)
    }

    /// Reads the process's stat file: where its leader ran last, and its number of threads.
    fn read_stat(
        &mut self,
        context: &mut Context<'_>,
        leader: &mut Thread,
    ) -> Result<(Option<usize>, u64), Missing> {
        let nodes = context.nodes;
        let stat = leader
            .read_stat(context, self.pid, true)
            .map_err(|error| Missing::of_process("stat", &error))?;
        let who = Who {
            name: String::new(),
            is_kernel: stat.flags.is_some_and(|flags| flags & PF_KTHREAD != 0),
            start_ticks: stat.start_ticks,
            rss_pages: stat.rss_pages,
            faults: stat.faults,
        };
        if self.who.name.as_bytes() != stat.command {
            self.who.name = String::from_utf8_lossy(stat.command).into_owned();
        }
        let position = stat.processor.and_then(|cpu| nodes.position_of_cpu(cpu));
        let threads = stat.threads;
        leader.position = Some(position);
        self.who = Who {
            name: std::mem::take(&mut self.who.name),
            ..who
        };
        Ok((position, threads))
    }

    /// Begins a window.
    pub(super) fn begin(&mut self, context: &mut Context<'_>) {
        // What ran between two windows belongs to neither.
        self.look(context);
        self.window_ns.fill(0);
    }

    /// Counts what ran since the look before.
    pub(super) fn look(&mut self, context: &mut Context<'_>) {
        if self.who.is_kernel || self.has_ended {
            return;
        }
        let mut ran = false;
        let mut threads_now = None;
        for index in 0..self.threads.len() {
            let Some(ns) = self.threads[index].ran(context, self.pid) else {
                continue;
            };
            ran = true;
            let is_leader = self.threads[index].tid == self.pid;
            let position = if is_leader {
                let mut leader = std::mem::replace(&mut self.threads[index], Thread::gone());
                let read = self.read_stat(context, &mut leader);
                self.threads[index] = leader;
                read.ok().and_then(|(position, threads)| {
                    threads_now = Some(threads);
                    position
                })
            } else {
                self.threads[index].position(context, self.pid)
            };
            if let Some(position) = position {
                add(&mut self.window_ns, position, ns);
            }
        }
        self.threads.retain(|thread| !thread.has_ended);
        self.has_ended = self.threads.is_empty();
        // Only a thread that runs starts others.
        if ran && (self.threads.len() > 1 || threads_now != Some(1)) {
            self.list(context, true);
        }
    }

    /// Finds threads that are new; `count` says that what they ran counts.
    fn list(&mut self, context: &mut Context<'_>, count: bool) {
        let pid = self.pid;
        let mut there = context.tree.ids(format!("proc/{pid}/task"));
        there.sort_unstable();
        self.threads.sort_unstable_by_key(|thread| thread.tid);
        for tid in there {
            if self
                .threads
                .binary_search_by_key(&tid, |thread| thread.tid)
                .is_ok()
            {
                continue;
            }
            let mut thread = Thread::of(context, pid, tid);
            if count {
                let ran = thread.ran(context, pid);
                if let (Some(ns), Some(position)) = (ran, thread.position(context, pid)) {
                    add(&mut self.window_ns, position, ns);
                }
            } else if thread.start(context, pid).is_err() {
                continue;
            }
            let place = self.threads.partition_point(|other| other.tid < thread.tid);
            self.threads.insert(place, thread);
        }
    }

    /// Its id.
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Begins the window anew: what ran before does not count.
    pub(super) fn reset(&mut self) {
        self.window_ns.fill(0);
    }

    /// Counts all that it has run so far: it was born in the window.
    pub(super) fn count_lifetime(&mut self, context: &mut Context<'_>) {
        self.window_ns = self.lifetime_ns(context);
    }

    /// CPU time by position in the window, ns.
    pub(super) fn window_ns(&self) -> &[u64] {
        &self.window_ns
    }

    /// CPU time of the threads that live since they began, as if each had always run where it ran last, ns.
    pub(super) fn lifetime_ns(&mut self, context: &mut Context<'_>) -> Vec<u64> {
        let mut sums = vec![0; context.nodes.len()];
        let pid = self.pid;
        for thread in &mut self.threads {
            if let Some(position) = thread.position(context, pid) {
                add(&mut sums, position, thread.run_ns);
            }
        }
        sums
    }
}

/// Linux, include/linux/sched.h.
const PF_KTHREAD: u64 = 0x0020_0000;

impl Thread {
    fn gone() -> Self {
        Self {
            tid: 0,
            schedstat: None,
            stat: None,
            run_ns: 0,
            position: None,
            has_ended: true,
        }
    }

    fn of(context: &Context<'_>, pid: u32, tid: u32) -> Self {
        Self {
            tid,
            schedstat: context
                .keeper
                .open(context.tree, format!("proc/{pid}/task/{tid}/schedstat"))
                .ok(),
            stat: None,
            run_ns: 0,
            position: None,
            has_ended: false,
        }
    }

    /// The first thread, whose files are the process's own.
    fn leader(context: &Context<'_>, pid: u32) -> Result<Self, Missing> {
        let stat = context
            .keeper
            .open(context.tree, format!("proc/{pid}/stat"))
            .map_err(|error| Missing::of_process("stat", &error))?;
        Ok(Self {
            tid: pid,
            schedstat: context
                .keeper
                .open(context.tree, format!("proc/{pid}/schedstat"))
                .ok(),
            stat: Some(stat),
            run_ns: 0,
            position: None,
            has_ended: false,
        })
    }

    /// Reads the CPU time from which the next look counts.
    fn start(&mut self, context: &mut Context<'_>, pid: u32) -> Result<(), Missing> {
        self.run_ns = self
            .read_run_ns(context, pid)
            .map_err(|error| Missing::of_process("schedstat", &error))?;
        Ok(())
    }

    /// CPU time since the look before, None when there is none.
    fn ran(&mut self, context: &mut Context<'_>, pid: u32) -> Option<u64> {
        match self.read_run_ns(context, pid) {
            Ok(now) if now > self.run_ns => {
                let ns = now - self.run_ns;
                self.run_ns = now;
                self.position = None;
                Some(ns)
            }
            Ok(_) => None,
            Err(_) => {
                self.has_ended = true;
                None
            }
        }
    }

    fn read_run_ns(&mut self, context: &mut Context<'_>, pid: u32) -> io::Result<u64> {
        if let Some(file) = &mut self.schedstat {
            match file.file.read(context.buffer, true) {
                Ok(text) => {
                    return scan::words(scan::trim(text))
                        .number()
                        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData));
                }
                // A recorded tree or a kernel without CONFIG_SCHED_INFO: clock ticks must do.
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.schedstat = None,
                Err(error) => return Err(error),
            }
        }
        let stat = self.read_stat(context, pid, false)?;
        Ok(stat.cpu_ticks().saturating_mul(ns_per_clock_tick()))
    }

    /// The thread's stat; `of_process` says that the sums of the whole process will do.
    fn read_stat<'b>(
        &mut self,
        context: &'b mut Context<'_>,
        pid: u32,
        of_process: bool,
    ) -> io::Result<Stat<'b>> {
        let tid = self.tid;
        let file = match &mut self.stat {
            Some(file) if of_process || tid != pid || self.schedstat.is_some() => file,
            // In clock ticks the leader's own time is asked for, which the process's file has not.
            Some(_) => {
                let name = format!("proc/{pid}/task/{tid}/stat");
                let mut file = context.tree.file_at_each_read(name);
                let length = match file.read(context.buffer, true) {
                    Ok(text) => text.len(),
                    Err(error) if context.tree.is_live() => return Err(error),
                    // A recorded tree may have no threads.
                    Err(_) => {
                        let mut file = context.tree.file_at_each_read(format!("proc/{pid}/stat"));
                        file.read(context.buffer, true)?.len()
                    }
                };
                return parsed(&context.buffer[..length]);
            }
            None => {
                let name = format!("proc/{pid}/task/{tid}/stat");
                self.stat.insert(context.keeper.open(context.tree, name)?)
            }
        };
        parsed(file.file.read(context.buffer, true)?)
    }

    /// Position of the node of the CPU that it ran on last.
    fn position(&mut self, context: &mut Context<'_>, pid: u32) -> Option<usize> {
        if self.position.is_none() {
            let nodes = context.nodes;
            let cpu = self.read_stat(context, pid, true).ok()?.processor;
            self.position = Some(cpu.and_then(|cpu| nodes.position_of_cpu(cpu)));
        }
        self.position?
    }
}

fn parsed(text: &[u8]) -> io::Result<Stat<'_>> {
    Stat::parse(text).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}
