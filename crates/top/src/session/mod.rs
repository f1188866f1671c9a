//! One look after another: readings, counters and samples joined to a snapshot.
//!
//! In: a tree, what is wanted, the clock, counters and samples (injected). Out: a [`Snapshot`] each time.
//! Not here: waiting between looks, drawing.

use std::collections::HashMap;

use steelyard_kernel::Tree;

use crate::column::Column;
use crate::derive::{self, MachineUse, Row, Subject};
use crate::ipc;
use crate::mix::{Counts, MIX_NOT_SAMPLED, Mixer};
use crate::sample::{Sample, Sampler, TaskId, Wants};
use crate::{Figure, Reason, TopError};

mod outside;

pub use outside::Outside;

/// What a row is made for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum By {
    /// A process.
    #[default]
    Process,
    /// A thread.
    Thread,
    /// A control group with all below it.
    Cgroup,
}

impl By {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Thread => "thread",
            Self::Cgroup => "cgroup",
        }
    }
}

/// Everything there is to show at one time.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// When it was taken, ns of the monotonic clock.
    pub time_ns: u64,
    /// The time that rates are over, s.
    pub interval_s: f64,
    /// What rows stand for.
    pub by: By,
    /// The machine.
    pub machine: MachineUse,
    /// Processes, and their threads in all.
    pub processes: usize,
    /// Threads of all processes.
    pub threads: u64,
    /// Rows; those of control groups in the order of their paths.
    pub rows: Vec<Row>,
    /// CPU time of this program over the interval, in CPUs.
    pub own_cpus: Option<f64>,
    /// The event that instructions are sampled by, or why they are not.
    pub mix_event: Option<Result<String, Reason>>,
    /// What is not shown fully, in sentences.
    pub notes: Vec<String>,
}

/// A session over one tree.
pub struct Session {
    outside: Outside,
    sampler: Sampler,
    by: By,
    mixer: Option<Mixer>,
    wants_mix: bool,
    before: Option<Sample>,
    own_cpu_ns: u64,
    counts: HashMap<u32, ipc::Count>,
    /// The processes that were asked for; empty for all.
    pids: Vec<u32>,
    /// The process that the user looks at, which is counted and sampled before others.
    selected: Option<u32>,
}

impl Session {
    /// A session that looks at `pids`, or at all processes when there are none.
    pub fn new(
        tree: &Tree,
        pids: Vec<u32>,
        by: By,
        wants_mix: bool,
        outside: Outside,
    ) -> Result<Self, TopError> {
        let wants = Wants {
            threads: by == By::Thread,
            groups: by == By::Cgroup,
            pids: pids.clone(),
        };
        Ok(Self {
            sampler: Sampler::new(tree, wants)?,
            outside,
            by,
            mixer: None,
            wants_mix,
            before: None,
            own_cpu_ns: 0,
            counts: HashMap::new(),
            pids,
            selected: None,
        })
    }

    /// From the next look on, rows stand for something else.
    pub fn set_by(&mut self, by: By) {
        self.by = by;
        self.sampler.want(by == By::Thread, by == By::Cgroup);
    }

    /// Switches the sampling of instructions.
    pub fn set_mix(&mut self, wanted: bool) {
        self.wants_mix = wanted;
        if !wanted {
            self.mixer = None;
        }
    }

    /// The process that is looked at.
    pub fn select(&mut self, pid: Option<u32>) {
        self.selected = pid;
    }

    /// Empties the samples' rings, which hold seconds.
    pub fn take_samples(&mut self) {
        let now_ns = (self.outside.clock)();
        if let Some(mixer) = &mut self.mixer {
            mixer.take(now_ns);
        }
    }

    /// Looks. The first look has no rates.
    pub fn look(&mut self) -> Snapshot {
        let own_cpu_ns = (self.outside.own_cpu_ns)();
        let after = self.sampler.read(&*self.outside.clock);
        if self.wants_mix && self.mixer.is_none() {
            self.mixer = Some((self.outside.mixer)(after.machine.cpus));
        }
        self.take_samples();
        let snapshot = self.join(&after, own_cpu_ns);
        self.own_cpu_ns = own_cpu_ns;
        self.before = Some(after);
        snapshot
    }

    fn join(&mut self, after: &Sample, own_cpu_ns: u64) -> Snapshot {
        let first = Sample::default();
        let is_first = self.before.is_none();
        let before = self.before.take();
        let before = before.as_ref().unwrap_or(&first);
        let elapsed_ns = after.time_ns.saturating_sub(before.time_ns);
        let mut processes = derive::processes(before, after);
        if is_first {
            for row in &mut processes {
                forget_rates(row);
            }
        }
        self.follow(&processes);
        let ipc = self.count(&processes, is_first);
        self.add_memory(&processes, after);
        let mix = self.mixer.as_ref().map(Mixer::by_process);
        for row in &mut processes {
            if let Subject::Task(id) = row.subject {
                row.figures.set(Column::Ipc, self.ipc_of(&ipc, id.pid));
                self.set_mix_of(row, id, mix.as_ref());
            }
        }
        let scores: HashMap<TaskId, Figure> = after
            .processes
            .iter()
            .map(|reading| (reading.id, self.sampler.numa().score(reading)))
            .collect();
        for row in &mut processes {
            if let Subject::Task(id) = &row.subject {
                row.figures.set(Column::Numa, scores[id].clone());
            }
        }
        let mut snapshot = Snapshot {
            time_ns: after.time_ns,
            interval_s: if is_first {
                0.0
            } else {
                elapsed_ns as f64 / 1e9
            },
            by: self.by,
            machine: derive::machine(&before.machine, &after.machine),
            processes: after.processes.len(),
            threads: after.processes.iter().map(|process| process.threads).sum(),
            rows: Vec::new(),
            own_cpus: (!is_first && elapsed_ns > 0)
                .then(|| own_cpu_ns.saturating_sub(self.own_cpu_ns) as f64 / elapsed_ns as f64),
            mix_event: self.wants_mix.then(|| match &self.mixer {
                Some(mixer) => mixer.event().map(str::to_owned),
                None => Err(Reason::Fixed(MIX_NOT_SAMPLED)),
            }),
            notes: Vec::new(),
        };
        snapshot.rows = match self.by {
            By::Process => processes,
            By::Thread => self.thread_rows(before, after, &processes, is_first),
            By::Cgroup => self.group_rows(before, after, &processes, &ipc),
        };
        snapshot.notes = self.notes(&snapshot.rows);
        snapshot
    }

    /// Whether only some processes are counted or sampled, which must be known before the look that is shown.
    pub fn wants_busiest(&self) -> bool {
        self.pids.is_empty()
            && (self.outside.counters.unavailable().is_none()
                || self.mixer.as_ref().is_some_and(Mixer::is_restricted))
    }

    /// Has the processes counted and sampled that are worth it: those asked for, the selected one and the
    /// busiest. Where only some may be sampled, it is the first of this user's own.
    fn follow(&mut self, processes: &[Row]) {
        let mut busy: Vec<(bool, f64, &Row, u32)> = processes
            .iter()
            .filter_map(|row| match row.subject {
                Subject::Task(id) if !row.who.is_kernel => {
                    let cpus = row.figures.number(Column::Cpu).unwrap_or(0.0);
                    Some((Some(id.pid) == self.selected, cpus, row, id.pid))
                }
                _ => None,
            })
            .filter(|(selected, cpus, _, _)| *cpus > 0.0 || *selected || !self.pids.is_empty())
            .collect();
        busy.sort_by(|one, other| {
            let by_cpu = other.1.total_cmp(&one.1);
            other.0.cmp(&one.0).then(by_cpu)
        });
        let pids: Vec<u32> = busy
            .iter()
            .take(ipc::MOST_PROCESSES)
            .map(|one| one.3)
            .collect();
        self.outside.counters.follow(&pids);
        let uid = self.outside.uid;
        let own = busy
            .iter()
            .find(|one| one.0 || uid == 0 || one.2.who.uid == Some(uid))
            .map(|one| one.3);
        if let (Some(mixer), Some(pid)) = (&mut self.mixer, own) {
            mixer.follow(&[pid]);
        }
    }

    /// Cycles and instructions of each process that is counted, since the look before.
    fn count(
        &mut self,
        processes: &[Row],
        is_first: bool,
    ) -> HashMap<u32, Result<ipc::Count, Reason>> {
        let mut found = HashMap::new();
        if self.outside.counters.unavailable().is_some() {
            return found;
        }
        let before = std::mem::take(&mut self.counts);
        for row in processes {
            let Subject::Task(TaskId { pid, .. }) = row.subject else {
                continue;
            };
            let now = match self.outside.counters.read(pid) {
                Ok(now) => now,
                Err(reason) => {
                    found.insert(pid, Err(reason));
                    continue;
                }
            };
            self.counts.insert(pid, now);
            let difference = match before.get(&pid) {
                Some(before) if !is_first => Ok(ipc::Count {
                    cycles: now.cycles - before.cycles,
                    instructions: now.instructions - before.instructions,
                }),
                _ => Err(Reason::FIRST_READING),
            };
            found.insert(pid, difference);
        }
        found
    }

    fn ipc_of(&self, found: &HashMap<u32, Result<ipc::Count, Reason>>, pid: u32) -> Figure {
        if let Some(reason) = self.outside.counters.unavailable() {
            return Err(reason);
        }
        let count = found.get(&pid).cloned().unwrap_or(Err(ipc::NOT_COUNTED))?;
        ipc::ratio(&ipc::Count::default(), &count)
    }

    /// Looks where the memory of busy processes lies.
    fn add_memory(&mut self, processes: &[Row], after: &Sample) {
        let mut busy: Vec<(f64, usize)> = processes
            .iter()
            .enumerate()
            .map(|(at, row)| (row.figures.number(Column::Cpu).unwrap_or(0.0), at))
            .filter(|(cpus, _)| *cpus > 0.0)
            .collect();
        busy.sort_by(|one, other| other.0.total_cmp(&one.0));
        busy.truncate(ipc::MOST_PROCESSES);
        let readings = busy.iter().map(|(_, at)| &after.processes[*at]);
        self.sampler.look_at_memory(readings, after.time_ns);
    }

    fn set_mix_of(&self, row: &mut Row, id: TaskId, by_process: Option<&HashMap<u32, Counts>>) {
        let Some(mixer) = &self.mixer else {
            return;
        };
        let counts = match id.tid {
            Some(_) => mixer.counts(id.pid, id.tid),
            None => match by_process.and_then(|all| all.get(&id.pid)) {
                Some(counts) => Ok(*counts),
                None => Err(mixer.why_none(id.pid)),
            },
        };
        put_mix(row, counts);
    }

    fn thread_rows(
        &self,
        before: &Sample,
        after: &Sample,
        processes: &[Row],
        is_first: bool,
    ) -> Vec<Row> {
        let scores: HashMap<u32, &Figure> = processes
            .iter()
            .filter_map(|row| match row.subject {
                Subject::Task(id) => Some((id.pid, row.figures.get(Column::Numa))),
                Subject::Group(_) => None,
            })
            .collect();
        let mut rows = derive::threads(before, after);
        for row in &mut rows {
            let Subject::Task(id) = row.subject else {
                continue;
            };
            if is_first || before.threads.is_empty() {
                forget_rates(row);
            }
            let ipc = self.outside.counters.unavailable().unwrap_or(Reason::Fixed(
                "counted for whole processes only: p shows those",
            ));
            row.figures.set(Column::Ipc, Err(ipc));
            if let Some(figure) = scores.get(&id.pid) {
                row.figures.set(Column::Numa, (*figure).clone());
            }
            self.set_mix_of(row, id, None);
        }
        rows
    }

    fn group_rows(
        &self,
        before: &Sample,
        after: &Sample,
        processes: &[Row],
        ipc: &HashMap<u32, Result<ipc::Count, Reason>>,
    ) -> Vec<Row> {
        let mut rows = derive::groups(before, after, processes);
        for row in &mut rows {
            let Subject::Group(path) = &row.subject else {
                continue;
            };
            let members: Vec<&Row> = processes
                .iter()
                .filter(|process| derive::is_in(process, path))
                .collect();
            row.figures.set(Column::Ipc, self.group_ipc(&members, ipc));
            if self.mixer.is_some() {
                put_mix(row, group_mix(&members));
            }
        }
        rows
    }

    /// A group's instructions per cycle, where those of its members that were counted used most of its CPU
    /// time.
    fn group_ipc(
        &self,
        members: &[&Row],
        counted: &HashMap<u32, Result<ipc::Count, Reason>>,
    ) -> Figure {
        if let Some(reason) = self.outside.counters.unavailable() {
            return Err(reason);
        }
        let mut sum = ipc::Count::default();
        let (mut covered, mut all) = (0.0, 0.0);
        for member in members {
            let Subject::Task(id) = member.subject else {
                continue;
            };
            let cpus = member.figures.number(Column::Cpu).unwrap_or(0.0);
            all += cpus;
            if let Some(Ok(count)) = counted.get(&id.pid) {
                covered += cpus;
                sum.cycles += count.cycles;
                sum.instructions += count.instructions;
            }
        }
        if covered < LEAST_COVERED * all {
            return Err(Reason::made(format!(
                "counted for {:.0} % of its CPU time only",
                100.0 * covered / all
            )));
        }
        ipc::ratio(&ipc::Count::default(), &sum)
    }

    /// What the rows cannot show, each reason once.
    fn notes(&self, rows: &[Row]) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(reason) = self.outside.counters.unavailable() {
            notes.push(format!("IPC: {reason}"));
        }
        notes.extend(self.outside.counters.note());
        for refused in [Reason::NOT_PERMITTED, Reason::REFUSED_TO_ROOT] {
            let denied = rows
                .iter()
                .filter(|row| *row.figures.get(Column::Read) == Err(refused.clone()))
                .count();
            if denied > 0 {
                let what = match self.by {
                    By::Cgroup => "groups",
                    By::Process => "processes",
                    By::Thread => "threads",
                };
                notes.push(format!(
                    "I/O of {denied} of {} {what}: {refused}",
                    rows.len()
                ));
            }
        }
        if rows
            .iter()
            .any(|row| *row.figures.get(Column::Numa) == Err(Reason::ONE_NODE))
        {
            notes.push(format!("NUMA: {}", Reason::ONE_NODE));
        }
        if let Some(mixer) = &self.mixer {
            notes.extend(mixer.notes());
        }
        notes
    }
}

/// Share of a group's CPU time that must have been counted for its IPC to be shown.
const LEAST_COVERED: f64 = 0.9;

/// At the first look there is nothing to compare with; what has no rate stays.
fn forget_rates(row: &mut Row) {
    for about in &crate::column::COLUMNS {
        if !matches!(about.column, Column::Rss | Column::Threads) {
            row.figures.set(about.column, Err(Reason::FIRST_READING));
        }
    }
    row.waiting = Err(Reason::FIRST_READING);
}

fn put_mix(row: &mut Row, counts: Result<Counts, Reason>) {
    let ratio = match &counts {
        Ok(counts) => counts.vector_ratio(),
        Err(reason) => Err(reason.clone()),
    };
    row.figures.set(Column::Vector, ratio);
    row.mix = counts;
}

fn group_mix(members: &[&Row]) -> Result<Counts, Reason> {
    let mut sum = Counts::default();
    let mut why = Reason::Fixed("it has no processes");
    for member in members {
        match &member.mix {
            Ok(counts) => sum.merge(counts),
            Err(reason) => why = reason.clone(),
        }
    }
    if sum.samples() == 0 {
        return Err(why);
    }
    Ok(sum)
}

#[cfg(test)]
mod tests;
