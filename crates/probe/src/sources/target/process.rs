//! One process of the program: its threads, and its own figures where one of them moved.

use super::thread::{Kept, Reader, Thread, ThreadRow};
use crate::source::Tick;
use crate::sources::process::process_columns;
use crate::table::{Column, Table};
use steelyard_kernel::{Stat, Tree, page_bytes, storage_bytes};

pub const COLUMNS: &[Column] = process_columns![
    Column::counter(
        "read_bytes",
        "bytes",
        "read from disks; null where this user may not read /proc/PID/io",
    ),
    Column::counter(
        "written_bytes",
        "bytes",
        "written to disks, without what was deleted before"
    ),
];

/// A row of `target_process`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessRow {
    time_ns: u64,
    pid: u32,
    start_ticks: u64,
    command: Box<[u8]>,
    values: [Option<u64>; 8],
}

impl ProcessRow {
    /// Appends the row.
    pub fn write(&self, table: &mut Table) {
        table
            .row(self.time_ns)
            .values(&[Some(u64::from(self.pid)), Some(self.start_ticks)])
            .text(&self.command)
            .values(&self.values);
    }
}

/// A process that is watched.
#[derive(Debug)]
pub struct Watched {
    tree: Tree,
    pid: u32,
    stat: Kept,
    io: Kept,
    threads: Vec<Thread>,
    /// Those of which this look found that they are gone.
    gone: Vec<Thread>,
    /// Threads beyond those that are looked at.
    unread: usize,
    rss_bytes: u64,
    /// Threads according to its stat file.
    thread_count: u64,
    start_ticks: Option<u64>,
    ended: bool,
}

impl Watched {
    /// A process that has not been looked at.
    pub fn new(tree: &Tree, pid: u32) -> Self {
        Self {
            tree: tree.clone(),
            pid,
            stat: Kept::new(tree.is_live()),
            io: Kept::new(tree.is_live()),
            threads: Vec::new(),
            gone: Vec::new(),
            unread: 0,
            rss_bytes: 0,
            thread_count: 0,
            start_ticks: None,
            ended: false,
        }
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// How many of its threads are looked at.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// How many are not.
    pub fn unread(&self) -> usize {
        self.unread
    }

    /// Resident memory when it was read last, bytes.
    pub fn rss_bytes(&self) -> u64 {
        self.rss_bytes
    }

    /// Whether it is gone.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Visits its threads, at most `room` of them, and returns whether any moved. `news` says that there may
    /// be new ones.
    pub fn look(
        &mut self,
        tick: &Tick<'_>,
        reader: &mut Reader,
        room: usize,
        news: bool,
        rows: &mut Vec<ThreadRow>,
    ) -> bool {
        let first = self.start_ticks.is_none();
        let mut moved = first || tick.last;
        if news || self.thread_count != (self.threads.len() + self.unread) as u64 {
            self.find_threads(tick.now_ns(), reader, room);
        }
        for thread in &mut self.threads {
            if let Some(row) = thread.visit(tick, reader) {
                rows.push(row);
                moved = true;
            }
        }
        self.gone = self.threads.extract_if(.., |thread| thread.ended).collect();
        moved || !self.gone.is_empty()
    }

    /// Takes up threads that are new, and forgets those that are gone without a word.
    fn find_threads(&mut self, now_ns: u64, reader: &mut Reader, room: usize) {
        let mut there = self.tree.ids(format!("proc/{}/task", self.pid));
        there.sort_unstable();
        self.unread = there.len().saturating_sub(room);
        there.truncate(room);
        let mut known = std::mem::take(&mut self.threads).into_iter().peekable();
        for tid in there {
            // Both are in order. One that is no longer listed is visited once more, to write its end.
            while let Some(mut gone) = known.next_if(|thread| thread.tid < tid) {
                gone.wake();
                self.threads.push(gone);
            }
            let mut thread = known
                .next_if(|thread| thread.tid == tid)
                .unwrap_or_else(|| Thread::new(self.pid, tid, reader));
            thread.there_ns = now_ns;
            self.threads.push(thread);
        }
        self.threads.extend(known.map(|mut gone| {
            gone.wake();
            gone
        }));
    }

    /// Writes the last rows of threads that are gone while the process lives on.
    pub fn part(&mut self, reader: &mut Reader, rows: &mut Vec<ThreadRow>) {
        for mut thread in self.gone.drain(..) {
            rows.extend(thread.last_row(thread.there_ns, reader));
            thread.release(reader);
        }
    }

    /// Writes the last rows of threads that rested when the process ended: after `least_ns`, and after any of
    /// them was found.
    pub fn end(&mut self, least_ns: u64, reader: &mut Reader, rows: &mut Vec<ThreadRow>) {
        self.gone.append(&mut self.threads);
        let found = self.gone.iter().map(|thread| thread.there_ns);
        let there_ns = found.max().unwrap_or(0).max(least_ns);
        for mut thread in self.gone.drain(..) {
            rows.extend(thread.last_row(there_ns, reader));
            thread.release(reader);
        }
    }

    /// Its own figures now; None when it is gone.
    pub fn row(&mut self, tick: &Tick<'_>, reader: &mut Reader) -> Option<ProcessRow> {
        let (time_ns, pid) = (tick.now_ns(), self.pid);
        let text = reader.text(&mut self.stat, || format!("proc/{pid}/stat"));
        // A process that ends leaves its stat file without a thread until its parent has asked for its end.
        let Some(stat) = text.ok().and_then(Stat::parse) else {
            self.ended = true;
            return None;
        };
        // An id that is used again is another process, which the next search finds.
        let none_left = self.threads.is_empty() && self.unread == 0;
        if none_left || *self.start_ticks.get_or_insert(stat.start_ticks) != stat.start_ticks {
            self.ended = true;
            return None;
        }
        self.rss_bytes = stat.rss_pages.unwrap_or(0).saturating_mul(page_bytes());
        self.thread_count = stat.threads;
        let (command, faults, threads) = (stat.command.into(), stat.faults, stat.threads);
        let ticks = [stat.user_ticks, stat.system_ticks];
        let start_ticks = stat.start_ticks;
        let rss = stat
            .rss_pages
            .and_then(|pages| pages.checked_mul(page_bytes()));
        let moved = reader
            .text(&mut self.io, || format!("proc/{pid}/io"))
            .map_or([None; 2], storage_bytes);
        let [user, system] = ticks.map(|ticks| reader.ns(ticks));
        Some(ProcessRow {
            time_ns,
            pid,
            start_ticks,
            command,
            values: [
                user,
                system,
                rss,
                Some(threads),
                faults[0],
                faults[1],
                moved[0],
                moved[1],
            ],
        })
    }
}
