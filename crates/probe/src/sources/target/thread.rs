//! One thread: the contents of its files, and when they are read.
//!
//! Source: proc_pid_stat(5), proc_pid_wchan(5), proc_pid_syscall(5); Linux,
//! Documentation/scheduler/sched-stats.rst.

use std::fs::File;
use std::io;

use steelyard_record::open_file;

use super::calls;
use crate::descriptors::raise_descriptor_limit;
use crate::source::Tick;
use crate::table::{Column, Table};
use steelyard_kernel::scan::{self, words};
use steelyard_kernel::{Tree, ns_per_clock_tick, read_from_start};

pub const COLUMNS: &[Column] = &[
    Column::TIME,
    Column::gauge("pid", "1", "process id").label_too(),
    Column::gauge("tid", "1", "thread id").label_too(),
    Column::gauge(
        "start_ticks",
        "1",
        "when it started, clock ticks since boot: distinguishes threads that had the same id",
    )
    .label_too(),
    Column::gauge(
        "unmoved_ns",
        "ns",
        "until when looks found that it had not run since its row before, CLOCK_MONOTONIC; null where the first look after it found that it had",
    ),
    Column::reading(
        "state",
        "R runs or waits for a CPU, S sleeps, D sleeps undisturbed, T and t are stopped: proc_pid_stat(5)",
    ),
    Column::reading(
        "sleeps_in",
        "kernel function that it sleeps in; null where it does not sleep or this user may not read it",
    ),
    Column::reading(
        "system_call",
        "system call that it sleeps in, its number where the name is not known here; read only where sleeps_in is null",
    ),
    Column::gauge("cpu", "1", "CPU that it ran on last"),
    Column::counter("run_ns", "ns", "time that it ran; null without schedstat"),
    Column::counter("wait_ns", "ns", "time that it waited for a CPU"),
    Column::counter("timeslices", "1", "times that it was put on a CPU"),
    Column::counter("user_ns", "ns", "CPU time in user mode, in clock ticks"),
    Column::counter("system_ns", "ns", "CPU time in the kernel, in clock ticks"),
];

/// Most time without a visit, ns.
pub const REST_MOST_NS: u64 = 1_000_000_000;
/// Time without a visit after one that found a thread unmoved, ns; after n in a row it is n^2 times as long.
const REST_NS: u64 = 10_000_000;
/// Files that a thread keeps open.
const FILES: usize = 3;

/// The fields of the stat file of a thread or process that are used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadStat {
    /// Letter of the state.
    pub state: u8,
    /// Parent process.
    pub parent: u32,
    /// CPU time in user mode and in the kernel, clock ticks.
    pub ticks: [u64; 2],
    /// Start, clock ticks since boot.
    pub start_ticks: u64,
    /// CPU that it ran on last.
    pub cpu: Option<u64>,
}

impl ThreadStat {
    /// Scans the text of a stat file; None when it is none.
    pub fn parse(text: &[u8]) -> Option<Self> {
        // The name may hold anything, parentheses too; nothing behind it does.
        let close = memchr::memrchr(b')', text)?;
        let mut fields = words(scan::trim(&text[close + 1..]));
        // The numbers of fields are those of proc_pid_stat(5).
        let state = *fields.next()?.first()?; // state 3
        let parent = fields.number().and_then(|pid| u32::try_from(pid).ok())?; // ppid 4
        fields.pass(9); // pgrp 5 .. cmajflt 13
        let user = fields.number()?; // utime 14
        let system = fields.number()?; // stime 15
        fields.pass(6); // cutime 16 .. itrealvalue 21
        let start_ticks = fields.number()?; // starttime 22
        fields.pass(16); // vsize 23 .. exit_signal 38
        Some(Self {
            state,
            parent,
            ticks: [user, system],
            start_ticks,
            cpu: fields.number(), // processor 39
        })
    }

    /// Whether only its exit status is left.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// Three counters of schedstat: time run, time waited for a CPU, times put on one.
pub fn parse_schedstat(text: &[u8]) -> Option<[u64; 3]> {
    let mut numbers = words(scan::trim(text));
    Some([numbers.number()?, numbers.number()?, numbers.number()?])
}

/// Reads files into one buffer, and knows how many may stay open.
#[derive(Debug)]
pub struct Reader {
    tree: Tree,
    buffer: Vec<u8>,
    /// Threads whose files are open, and how many may be.
    kept: usize,
    kept_most: usize,
    ns_per_tick: u64,
}

impl Reader {
    /// A reader of files in `tree`.
    pub fn new(tree: &Tree) -> Self {
        Self {
            tree: tree.clone(),
            buffer: Vec::new(),
            kept: 0,
            // In a recorded tree files are opened for each read, so that changes are seen.
            kept_most: if tree.is_live() {
                raise_descriptor_limit() / 2 / FILES
            } else {
                0
            },
            ns_per_tick: ns_per_clock_tick(),
        }
    }

    /// The text of a file that is open, or is opened for this read.
    pub fn text(&mut self, file: &mut Kept, path: impl FnOnce() -> String) -> io::Result<&[u8]> {
        let opened;
        let open = match &file.0 {
            Some(open) => open,
            None => {
                opened = open_file(&self.tree.path(path()))?;
                if file.1 {
                    file.0.insert(opened)
                } else {
                    &opened
                }
            }
        };
        read_from_start(open, &mut self.buffer, true)
    }

    /// Nanoseconds of so many clock ticks.
    pub fn ns(&self, ticks: u64) -> Option<u64> {
        ticks.checked_mul(self.ns_per_tick)
    }
}

/// A file, and whether it stays open once it is.
#[derive(Debug, Default)]
pub struct Kept(Option<File>, bool);

impl Kept {
    /// A file that stays open, or does not.
    pub fn new(stays: bool) -> Self {
        Self(None, stays)
    }
}

/// A row of `target_thread`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadRow {
    time_ns: u64,
    ids: [u32; 2],
    unmoved_ns: Option<u64>,
    seen: Seen,
    ns: [Option<u64>; 2],
}

impl ThreadRow {
    /// Appends the row.
    pub fn write(&self, table: &mut Table) {
        let seen = &self.seen;
        let ids = self.ids.map(|id| Some(u64::from(id)));
        let counts = seen.counts.map_or([None; 3], |counts| counts.map(Some));
        table
            .row(self.time_ns)
            .values(&ids)
            .values(&[Some(seen.stat.start_ticks), self.unmoved_ns])
            .text(&[seen.stat.state])
            .optional_text(seen.sleeps_in.as_deref())
            .optional_text(seen.system_call.as_deref().map(str::as_bytes))
            .value(seen.stat.cpu)
            .values(&counts)
            .values(&self.ns);
    }
}

/// What a visit found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    stat: ThreadStat,
    sleeps_in: Option<Box<[u8]>>,
    system_call: Option<Box<str>>,
    counts: Option<[u64; 3]>,
}

/// A thread that is watched.
#[derive(Debug)]
pub struct Thread {
    pid: u32,
    /// Thread id.
    pub tid: u32,
    stat: Kept,
    schedstat: Kept,
    wchan: Kept,
    last: Option<Seen>,
    /// Until when it was found unmoved since its last row.
    unmoved_ns: Option<u64>,
    rests: u64,
    next_visit_ns: u64,
    /// When a visit found it last.
    pub there_ns: u64,
    /// Whether its files are gone.
    pub ended: bool,
}

impl Thread {
    /// A thread that has not been visited.
    pub fn new(pid: u32, tid: u32, reader: &mut Reader) -> Self {
        let stays = reader.kept < reader.kept_most;
        reader.kept += usize::from(stays);
        Self {
            pid,
            tid,
            stat: Kept::new(stays),
            schedstat: Kept::new(stays),
            wchan: Kept::new(stays),
            last: None,
            unmoved_ns: None,
            rests: 0,
            next_visit_ns: 0,
            there_ns: 0,
            ended: false,
        }
    }

    /// Lets the next look visit it, however long it rested.
    pub fn wake(&mut self) {
        self.next_visit_ns = 0;
    }

    /// Gives its files back.
    pub fn release(&self, reader: &mut Reader) {
        reader.kept -= usize::from(self.stat.1);
    }

    /// Visits it if it is time, and returns a row if it moved since the row before or the tick is the last.
    /// Says in `ended` that it is gone.
    pub fn visit(&mut self, tick: &Tick<'_>, reader: &mut Reader) -> Option<ThreadRow> {
        let now_ns = tick.now_ns();
        if now_ns < self.next_visit_ns && !tick.last {
            return None;
        }
        let (pid, tid) = (self.pid, self.tid);
        let path = |name| move || format!("proc/{pid}/task/{tid}/{name}");
        let counts = reader
            .text(&mut self.schedstat, path("schedstat"))
            .ok()
            .and_then(parse_schedstat);
        if let Some(last) = &self.last
            && counts.is_some()
            && last.counts == counts
            && last.stat.state != b'R'
        {
            return self.rest(now_ns, tick.last, reader);
        }
        let Some(stat) = reader
            .text(&mut self.stat, path("stat"))
            .ok()
            .and_then(ThreadStat::parse)
            .filter(|stat| !stat.has_ended())
        else {
            self.ended = true;
            return None;
        };
        self.there_ns = now_ns;
        let mut seen = Seen {
            stat,
            sleeps_in: None,
            system_call: None,
            counts,
        };
        if stat.state != b'R' {
            let place = reader.text(&mut self.wchan, path("wchan")).unwrap_or(b"");
            seen.sleeps_in = (!matches!(place, b"" | b"0")).then(|| place.into());
            if seen.sleeps_in.is_none() {
                let line = reader.text(&mut Kept::default(), path("syscall")).ok();
                seen.system_call = line.and_then(calls::name);
            }
        }
        (self.rests, self.next_visit_ns) = (0, 0);
        let unmoved_ns = self.unmoved_ns.take();
        let row = self.row(now_ns, unmoved_ns, &seen, reader);
        self.last = Some(seen);
        Some(row)
    }

    /// Notes that it has not run since its row before, and when to look again.
    fn rest(&mut self, now_ns: u64, write: bool, reader: &Reader) -> Option<ThreadRow> {
        (self.there_ns, self.unmoved_ns) = (now_ns, Some(now_ns));
        self.rests += 1;
        let rest_ns = self.rests.saturating_pow(2).saturating_mul(REST_NS);
        self.next_visit_ns = now_ns.saturating_add(rest_ns.min(REST_MOST_NS));
        if write {
            self.last_row(now_ns, reader)
        } else {
            None
        }
    }

    /// The row of a thread that was unmoved when it was visited last, and was there until `there_ns`: how it
    /// spent the time between the two is not known, and it was asleep before.
    pub fn last_row(&mut self, there_ns: u64, reader: &Reader) -> Option<ThreadRow> {
        let unmoved_ns = self.unmoved_ns.take()?;
        let last = self.last.as_ref()?;
        Some(self.row(there_ns.max(unmoved_ns), Some(unmoved_ns), last, reader))
    }

    fn row(
        &self,
        time_ns: u64,
        unmoved_ns: Option<u64>,
        seen: &Seen,
        reader: &Reader,
    ) -> ThreadRow {
        ThreadRow {
            time_ns,
            ids: [self.pid, self.tid],
            unmoved_ns,
            seen: seen.clone(),
            ns: seen.stat.ticks.map(|ticks| reader.ns(ticks)),
        }
    }
}
