//! What the threads of one program do: whether each runs, waits for a CPU, or sleeps, and on what.
//!
//! In: process ids, or a control group. Out: three tables, filled by one walk a tick: `target` (one row a
//! look), `target_process` and `target_thread` (a row where something moved).
//!
//! A profile of CPU time cannot say what a sleeping thread waits for; this can: /proc/PID/task/TID/wchan names
//! the kernel function that it sleeps in (proc_pid_wchan(5)), and schedstat how long it ran and how long it
//! waited for a CPU (Documentation/scheduler/sched-stats.rst).
//!
//! A look must stay cheap with thousands of threads, of which few run. A thread whose schedstat stands still
//! has not run, so that it sleeps where it slept: only that file is read, no row is written, and the next row
//! says until when it was so (`unmoved_ns`). One at rest is visited less and less often, at least once in
//! [`thread::REST_MOST_NS`]. Looks together take at most [`COST_RATIO`] of one CPU after the first [`BURST_NS`]:
//! ticks are passed over where they would take more.
//!
//! What starts and ends between two looks is not seen.

mod calls;
pub mod members;
pub mod process;
pub mod thread;

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use self::members::Members;
pub use self::members::Target;
use self::process::{ProcessRow, Watched};
use self::thread::ThreadRow;
use crate::source::{Definition, Source, Tick, Unavailable};
use crate::table::{Column, Table};
use steelyard_kernel::scan::words;
use steelyard_kernel::{SharedFile, Tree};

/// Share of one CPU that looks may take.
pub const COST_RATIO: f64 = 0.02;
/// CPU time that looks may take before the share counts, ns: opening the files of thousands of threads.
pub const BURST_NS: u64 = 100_000_000;
/// Threads in one look; a program with more is described by these.
pub const THREADS: usize = 16_384;
/// Longest time between two searches for new processes and threads, ns.
const SEARCH_AT_LEAST_NS: u64 = 1_000_000_000;

/// The tables, in the order in which they are read: the first look at a tick serves all.
pub const DEFINITIONS: &[Definition] = &[
    Definition {
        name: "target",
        about: "looks at the program that is watched (`steelyard-probe watch`), one row a look",
        columns: COLUMNS,
        open: unnamed,
    },
    Definition {
        name: "target_process",
        about: "the processes of the program that is watched, from /proc/PID/stat and io: a row where one of its threads moved",
        columns: process::COLUMNS,
        open: unnamed,
    },
    Definition {
        name: "target_thread",
        about: "the threads of the program that is watched, from /proc/PID/task/TID: a row where one moved since its row before, and at the last look",
        columns: thread::COLUMNS,
        open: unnamed,
    },
];

const COLUMNS: &[Column] = &[
    Column::TIME,
    Column::gauge("processes", "1", "processes that were looked at"),
    Column::gauge("threads", "1", "threads that were looked at"),
    Column::gauge(
        "unread_threads",
        "1",
        "threads beyond the 16,384 that are looked at",
    ),
    Column::gauge("rss_bytes", "bytes", "resident memory of all its processes"),
    Column::counter(
        "cost_ns",
        "ns",
        "CPU time that the recorder had used before the look",
    ),
];

fn unnamed(_: &Tree) -> Result<Box<dyn Source>, Unavailable> {
    Err(Unavailable::new("no program was named").enable("use steelyard-probe watch"))
}

/// Opens the tables for `target`, each with its definition.
pub fn open(tree: &Tree, target: &Target) -> Vec<(&'static Definition, Box<dyn Source>)> {
    open_with(tree, target, steelyard_kernel::usage::thread_cpu_ns)
}

fn open_with(
    tree: &Tree,
    target: &Target,
    cpu_time_ns: fn() -> u64,
) -> Vec<(&'static Definition, Box<dyn Source>)> {
    let looks = Rc::new(RefCell::new(Looks::new(tree, target, cpu_time_ns)));
    DEFINITIONS
        .iter()
        .zip([Part::Look, Part::Process, Part::Thread])
        .map(|(definition, part)| {
            let table: Box<dyn Source> = Box::new(TargetTable {
                looks: Rc::clone(&looks),
                columns: definition.columns,
                part,
            });
            (definition, table)
        })
        .collect()
}

/// Runs the parsers over `text`; see the fuzz target of all sources.
pub fn parse_anything(text: &[u8]) {
    thread::ThreadStat::parse(text);
    thread::parse_schedstat(text);
    calls::name(text);
}

#[derive(Debug, Clone, Copy)]
enum Part {
    Look,
    Process,
    Thread,
}

struct TargetTable {
    looks: Rc<RefCell<Looks>>,
    columns: &'static [Column],
    part: Part,
}

impl Source for TargetTable {
    fn columns(&self) -> Vec<Column> {
        self.columns.to_vec()
    }

    fn read(&mut self, tick: &Tick<'_>, table: &mut Table) -> io::Result<()> {
        let mut looks = self.looks.borrow_mut();
        match self.part {
            Part::Look => looks.look(tick, table),
            Part::Process => looks.processes.drain(..).for_each(|row| row.write(table)),
            Part::Thread => looks.threads.drain(..).for_each(|row| row.write(table)),
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.looks.borrow().over
    }
}

/// One walk over the program at each tick.
struct Looks {
    tree: Tree,
    loadavg: Option<SharedFile>,
    members: Members,
    watched: Vec<Watched>,
    /// Rows of this tick, until their tables are read.
    processes: Vec<ProcessRow>,
    threads: Vec<ThreadRow>,
    reader: thread::Reader,
    cpu_time_ns: fn() -> u64,
    /// Time of the first look, and the CPU time that the recorder had used before it.
    begin: Option<(u64, u64)>,
    /// When the look before was.
    looked_ns: u64,
    last_pid: Option<u64>,
    searched_ns: Option<u64>,
    over: bool,
}

impl Looks {
    fn new(tree: &Tree, target: &Target, cpu_time_ns: fn() -> u64) -> Self {
        Self {
            tree: tree.clone(),
            loadavg: tree.shared("proc/loadavg").ok(),
            members: Members::new(tree, target),
            watched: Vec::new(),
            processes: Vec::new(),
            threads: Vec::new(),
            reader: thread::Reader::new(tree),
            cpu_time_ns,
            begin: None,
            looked_ns: 0,
            last_pid: None,
            searched_ns: None,
            over: false,
        }
    }

    fn look(&mut self, tick: &Tick<'_>, table: &mut Table) {
        let (now_ns, cost_ns) = (tick.now_ns(), (self.cpu_time_ns)());
        let (begin_ns, cost_before_ns) = *self.begin.get_or_insert((now_ns, cost_ns));
        let taken_ns = cost_ns.saturating_sub(cost_before_ns);
        let allowed_ns = (now_ns.saturating_sub(begin_ns) as f64 * COST_RATIO) as u64 + BURST_NS;
        if taken_ns > allowed_ns && !tick.last {
            return;
        }
        let news = self.search(tick, now_ns);
        let (mut threads, mut unread) = (0, 0);
        for watched in &mut self.watched {
            let room = THREADS - threads;
            let moved = watched.look(tick, &mut self.reader, room, news, &mut self.threads);
            if moved {
                self.processes.extend(watched.row(tick, &mut self.reader));
            }
            if !watched.has_ended() {
                watched.part(&mut self.reader, &mut self.threads);
            }
            threads += watched.threads();
            unread += watched.unread();
        }
        self.part_with_ended();
        self.looked_ns = now_ns;
        let rss_bytes: u64 = self.watched.iter().map(Watched::rss_bytes).sum();
        table.row(now_ns).values(&[
            Some(self.watched.len() as u64),
            Some(threads as u64),
            Some(unread as u64),
            Some(rss_bytes),
            Some(taken_ns),
        ]);
    }

    /// Writes the ends of processes that have ended, and of all others if nobody looks again: not at threads
    /// that rest beside a leader that waits to be asked for its end, nor at descendants that live on.
    fn part_with_ended(&mut self) {
        for watched in &self.watched {
            if watched.has_ended() {
                self.members.forget(watched.pid());
            }
        }
        self.over = !self.members.any_alive();
        let over = self.over;
        let mut ended: Vec<Watched> = self
            .watched
            .extract_if(.., |watched| over || watched.has_ended())
            .collect();
        // With the last of its processes the program has ended, which until the look before it had not.
        let least_ns = if self.watched.is_empty() {
            self.looked_ns
        } else {
            0
        };
        for watched in &mut ended {
            watched.end(least_ns, &mut self.reader, &mut self.threads);
        }
    }

    /// Looks for new processes, if it is time, and says whether new threads may be there.
    fn search(&mut self, tick: &Tick<'_>, now_ns: u64) -> bool {
        let last_pid = self.loadavg.as_ref().and_then(|loadavg| {
            let last = |_, text: &[u8]| {
                words(steelyard_kernel::scan::trim(text))
                    .nth(4)
                    .and_then(steelyard_kernel::scan::number)
            };
            loadavg.read(tick.number, tick.clock, last).ok().flatten()
        });
        // Without the last id there may be new ones at any time.
        let news = last_pid.is_none()
            || last_pid != self.last_pid
            || self
                .searched_ns
                .is_none_or(|before_ns| now_ns.saturating_sub(before_ns) >= SEARCH_AT_LEAST_NS);
        if news {
            self.last_pid = last_pid;
            self.searched_ns = Some(now_ns);
            for pid in self.members.search() {
                if self.watched.iter().all(|watched| watched.pid() != pid) {
                    self.watched.push(Watched::new(&self.tree, pid));
                }
            }
        }
        news
    }
}

#[cfg(test)]
mod tests;
