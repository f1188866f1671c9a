//! The processes that use the most CPU, from /proc/PID/stat and /proc/PID/schedstat.
//!
//! A tick must stay cheap with hundreds of processes, of which few run. So each process's files stay open;
//! of a process with one thread only `schedstat` is read (a quarter of the cost of `stat`), and `stat` too
//! only when its CPU time has moved. A process that stands still is visited less and less often, every
//! [`REST_MOST_NS`] in the end, and every one is visited at the first and the last tick. New processes are
//! looked for when the kernel has handed out new ids, once a second at most. What starts and ends between two
//! looks is not seen.
//!
//! A row is written for the [`ROWS`] processes that used the most CPU time since they were visited before,
//! and at the first tick for the [`FIRST_ROWS`] that used the most ever. A process that used none has no row.
//! Counters being cumulative, a late visit delays a row but loses nothing.
//!
//! Bounds: at most [`TRACKED`] processes; files of at most half the descriptors that the probe may have,
//! the rest being opened for each read, [`VISITS`] of them a tick in turn.
//!
//! Source: proc_pid_stat(5); Linux, Documentation/scheduler/sched-stats.rst.

use std::fs::File;
use std::io;

use steelyard_record::open_file;

use crate::source::{Definition, Source, Tick, Unavailable};
use crate::table::{Column, Table};
use steelyard_kernel::scan::{number, words};
use steelyard_kernel::{SharedFile, Stat, Tree, ns_per_clock_tick, page_bytes, read_from_start};

pub const DEFINITION: Definition = Definition {
    name: "process",
    about: "the processes that used the most CPU since the tick before, at most 32 a tick, from /proc/PID/stat",
    columns: COLUMNS,
    open,
};

/// The columns of a process in every table of processes, and `more` behind them.
macro_rules! process_columns {
    ($($more:expr),* $(,)?) => {
        &[
            Column::TIME,
            Column::gauge("pid", "1", "process id").label_too(),
            Column::gauge(
                "start_ticks",
                "1",
                "when it started, clock ticks since boot: distinguishes processes that had the same id",
            )
            .label_too(),
            Column::label("command", "name of the executable, at most 15 bytes"),
            Column::counter("user_ns", "ns", "CPU time in user mode, of all its threads"),
            Column::counter("system_ns", "ns", "CPU time in the kernel"),
            Column::gauge("rss_bytes", "bytes", "resident memory"),
            Column::gauge("threads", "1", "threads"),
            Column::counter("minor_faults", "1", "page faults without a disk"),
            Column::counter("major_faults", "1", "page faults that read a disk"),
            $($more),*
        ]
    };
}
pub(crate) use process_columns;

const COLUMNS: &[Column] = process_columns![];

/// Most rows of a tick.
pub const ROWS: usize = 32;
/// Most rows of the first tick.
pub const FIRST_ROWS: usize = 256;
/// Most processes looked after.
pub const TRACKED: usize = 32_768;
/// Most processes visited a tick among those whose files are not kept open.
pub const VISITS: usize = 128;
/// Most time without a visit, ns.
pub const REST_MOST_NS: u64 = 5_000_000_000;
/// Time without a visit after one that found a process at rest, ns; after n in a row it is n^2 times as long,
/// so that a process at rest for half a minute is left alone for five seconds, and one that has just stopped
/// hardly at all.
const REST_NS: u64 = 10_000_000;
/// Shortest time between two looks for new processes, ns.
const LOOK_NS: u64 = 1_000_000_000;
/// Longest time between two looks, ns.
const LOOK_AT_LEAST_NS: u64 = 10_000_000_000;

/// A process that is looked after.
#[derive(Debug)]
struct Process {
    pid: u32,
    /// Open files, None when they are opened for each read.
    files: Option<Files>,
    /// CPU time when a row was last due, clock ticks; None before the first read.
    cpu_ticks: Option<u64>,
    /// Time its only thread has run, ns; None when it has several.
    run_ns: Option<u64>,
    /// Visits in a row that found it at rest, and when the next one is due.
    rests: u64,
    next_visit_ns: u64,
    ended: bool,
}

#[derive(Debug)]
struct Files {
    stat: File,
    /// None on kernels without it.
    schedstat: Option<File>,
}

/// A process whose CPU time moved in this tick.
#[derive(Debug)]
struct Candidate {
    used_ticks: u64,
    time_ns: u64,
    /// Where its stat text is in the buffer of candidates.
    text: std::ops::Range<usize>,
    pid: u32,
}

struct ProcessSource {
    tree: Tree,
    loadavg: Option<SharedFile>,
    processes: Vec<Process>,
    /// How many processes may keep their files open.
    kept_most: usize,
    kept: usize,
    /// Next process to visit among those without open files.
    next_visit: usize,
    last_pid: Option<u64>,
    last_look_ns: Option<u64>,
    first: bool,
    buffer: Vec<u8>,
    texts: Vec<u8>,
    candidates: Vec<Candidate>,
    units: Units,
}

#[derive(Debug, Clone, Copy)]
struct Units {
    ns_per_tick: u64,
    page_bytes: u64,
}

fn open(tree: &Tree) -> Result<Box<dyn Source>, Unavailable> {
    if pids(tree).is_empty() {
        return Err(Unavailable::new(format!(
            "{} has no processes",
            tree.path("proc").display()
        )));
    }
    Ok(Box::new(ProcessSource {
        tree: tree.clone(),
        loadavg: tree.shared("proc/loadavg").ok(),
        processes: Vec::new(),
        kept_most: crate::descriptors::raise_descriptor_limit() / 4,
        kept: 0,
        next_visit: 0,
        last_pid: None,
        last_look_ns: None,
        first: true,
        buffer: Vec::new(),
        texts: Vec::new(),
        candidates: Vec::new(),
        units: Units {
            ns_per_tick: ns_per_clock_tick(),
            page_bytes: page_bytes(),
        },
    }))
}

/// Ids of all processes, in order, at most [`TRACKED`].
fn pids(tree: &Tree) -> Vec<u32> {
    let mut pids = tree.ids("proc");
    pids.sort_unstable();
    pids.truncate(TRACKED);
    pids
}

impl Source for ProcessSource {
    fn columns(&self) -> Vec<Column> {
        COLUMNS.to_vec()
    }

    fn read(&mut self, tick: &Tick<'_>, table: &mut Table) -> io::Result<()> {
        self.look_for_new(tick);
        self.candidates.clear();
        self.texts.clear();
        self.visit(tick);
        self.forget_ended();
        self.write_rows(table);
        self.first = false;
        Ok(())
    }
}

impl ProcessSource {
    /// Reads the processes whose turn it is.
    fn visit(&mut self, tick: &Tick<'_>) {
        let now_ns = tick.now_ns();
        let mut visits = if tick.last { usize::MAX } else { VISITS };
        let from = match self.next_visit < self.processes.len() {
            true => self.next_visit,
            false => 0,
        };
        let (before, after) = self.processes.split_at_mut(from);
        for (place, process) in (from..).zip(after).chain((0..).zip(before)) {
            if process.next_visit_ns > now_ns && !tick.last {
                continue;
            }
            if process.files.is_none() {
                if visits == 0 {
                    continue;
                }
                visits -= 1;
                self.next_visit = place + 1;
            }
            let read = process.read(tick, &self.tree, &mut self.buffer, self.first);
            if let Some((used_ticks, time_ns, text)) = read {
                process.rests = 0;
                let start = self.texts.len();
                self.texts.extend_from_slice(text);
                self.candidates.push(Candidate {
                    used_ticks,
                    time_ns,
                    text: start..self.texts.len(),
                    pid: process.pid,
                });
            } else {
                process.rests += 1;
                let rest_ns = process.rests.saturating_pow(2).saturating_mul(REST_NS);
                process.next_visit_ns = now_ns.saturating_add(rest_ns.min(REST_MOST_NS));
            }
        }
    }

    /// Takes up processes that are new, if it is time to look.
    fn look_for_new(&mut self, tick: &Tick<'_>) {
        let now_ns = tick.now_ns();
        let last_pid = self.loadavg.as_ref().and_then(|loadavg| {
            loadavg
                .read(tick.number, tick.clock, |_, text| {
                    words(steelyard_kernel::scan::trim(text))
                        .nth(4)
                        .and_then(number)
                })
                .ok()
                .flatten()
        });
        let due = match self.last_look_ns {
            None => true,
            Some(last_ns) => {
                let since_ns = now_ns.saturating_sub(last_ns);
                // Without the last id there may be new ones at any time.
                let news = last_pid.is_none() || last_pid != self.last_pid;
                (news && since_ns >= LOOK_NS) || since_ns >= LOOK_AT_LEAST_NS
            }
        };
        if !due {
            return;
        }
        self.last_look_ns = Some(now_ns);
        self.last_pid = last_pid;
        let mut known = std::mem::take(&mut self.processes).into_iter().peekable();
        for pid in pids(&self.tree) {
            // Both are in order; one that is no longer listed has ended.
            while known.next_if(|process| process.pid < pid).is_some() {}
            let process = known
                .next_if(|process| process.pid == pid)
                .unwrap_or_else(|| Process::new(pid));
            self.processes.push(process);
        }
        self.kept = self
            .processes
            .iter()
            .filter(|process| process.files.is_some())
            .count();
        // In a recorded tree files are opened for each read, so that changes are seen.
        if self.tree.is_live() {
            for process in &mut self.processes {
                if self.kept >= self.kept_most {
                    break;
                }
                if process.files.is_none() {
                    process.files = Files::open(&self.tree, process.pid).ok();
                    self.kept += usize::from(process.files.is_some());
                }
            }
        }
    }

    fn forget_ended(&mut self) {
        if self.processes.iter().any(|process| process.ended) {
            self.processes.retain(|process| !process.ended);
        }
    }

    /// The rows of the candidates that used the most.
    fn write_rows(&mut self, table: &mut Table) {
        let most = if self.first { FIRST_ROWS } else { ROWS };
        let used = |candidate: &Candidate| std::cmp::Reverse((candidate.used_ticks, candidate.pid));
        if self.candidates.len() > most {
            self.candidates.select_nth_unstable_by_key(most, used);
            self.candidates.truncate(most);
        }
        self.candidates.sort_unstable_by_key(used);
        for candidate in &self.candidates {
            let Some(stat) = Stat::parse(&self.texts[candidate.text.clone()]) else {
                continue;
            };
            write_row(candidate, &stat, self.units, table);
        }
    }
}

fn write_row(candidate: &Candidate, stat: &Stat<'_>, units: Units, table: &mut Table) {
    let times =
        [stat.user_ticks, stat.system_ticks].map(|ticks| ticks.checked_mul(units.ns_per_tick));
    let rss = stat
        .rss_pages
        .and_then(|pages| pages.checked_mul(units.page_bytes));
    table
        .row(candidate.time_ns)
        .values(&[Some(u64::from(candidate.pid)), Some(stat.start_ticks)])
        .text(stat.command)
        .values(&times)
        .values(&[rss, Some(stat.threads)])
        .values(&stat.faults);
}

impl Files {
    fn open(tree: &Tree, pid: u32) -> io::Result<Self> {
        Ok(Self {
            stat: open_file(&tree.path(format!("proc/{pid}/stat")))?,
            schedstat: open_file(&tree.path(format!("proc/{pid}/schedstat"))).ok(),
        })
    }
}

impl Process {
    fn new(pid: u32) -> Self {
        Self {
            pid,
            files: None,
            cpu_ticks: None,
            run_ns: None,
            rests: 0,
            next_visit_ns: 0,
            ended: false,
        }
    }

    /// The CPU time used since the last row was due, the time of the read and the text of its stat file;
    /// None when the process used none or has ended. At the `first` tick all it ever used counts.
    fn read<'b>(
        &mut self,
        tick: &Tick<'_>,
        tree: &Tree,
        buffer: &'b mut Vec<u8>,
        first: bool,
    ) -> Option<(u64, u64, &'b [u8])> {
        let opened;
        let files = match &self.files {
            Some(files) => files,
            None => match Files::open(tree, self.pid) {
                Ok(files) => {
                    opened = files;
                    &opened
                }
                Err(_) => {
                    self.ended = true;
                    return None;
                }
            },
        };
        // At the first visit, and while its only thread is known to have run, schedstat tells enough.
        let mut run_ns = None;
        if let Some(schedstat) = &files.schedstat
            && (self.run_ns.is_some() || self.cpu_ticks.is_none())
        {
            run_ns = read_from_start(schedstat, buffer, true)
                .ok()
                .and_then(|text| words(text).number());
            // Its only thread has not run, so that nothing of it has moved, not even its number of threads.
            if run_ns.is_some() && run_ns == self.run_ns {
                return None;
            }
        }
        let time_ns = tick.now_ns();
        let text = match read_from_start(&files.stat, buffer, true) {
            Ok(text) => text,
            Err(_) => {
                self.ended = true;
                return None;
            }
        };
        let stat = Stat::parse(text)?;
        self.run_ns = match stat.threads {
            // A process that has lost its other threads is read from schedstat from its next visit on.
            1 => run_ns.or(Some(u64::MAX)),
            _ => None,
        };
        // A process that came after the first tick has used all its time since.
        let before = self.cpu_ticks.unwrap_or(0);
        let used_ticks = stat.cpu_ticks().wrapping_sub(before);
        if used_ticks == 0 && !(first && self.cpu_ticks.is_none()) {
            return None;
        }
        self.cpu_ticks = Some(stat.cpu_ticks());
        Some((used_ticks, time_ns, text))
    }
}

#[cfg(test)]
mod tests;
