//! Rates between two readings: pure functions.
//!
//! In: two samples. Out: rows. Invariants: a process is compared with itself only (its id and its start); one
//! that came between two samples counts from zero over the time between them, since all it did it did then;
//! one that was there but read for the first time has no rates; a counter that went back has none either.

use std::collections::HashMap;
use std::rc::Rc;

use steelyard_probe::GroupCounters;

use crate::column::Column;
use crate::mix::{Counts, MIX_NOT_SAMPLED};
use crate::sample::{
    Counter, Counters, GroupReading, Identity, MachineReading, Reading, Sample, TaskId,
};
use crate::{Figure, Figures, Reason};

/// What a row stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A process or thread.
    Task(TaskId),
    /// A control group, by its path.
    Group(Rc<str>),
}

/// One line of the table.
#[derive(Debug, Clone)]
pub struct Row {
    /// What it stands for.
    pub subject: Subject,
    /// Who that is.
    pub who: Rc<Identity>,
    /// Its state as one letter; None for a control group.
    pub state: Option<char>,
    /// Its figures.
    pub figures: Figures,
    /// Time it waited in run queues, seconds a second, summed over threads.
    pub waiting: Figure,
    /// What its instructions were, or why that is not known.
    pub mix: Result<Counts, Reason>,
    /// How deep it stands in the tree of control groups.
    pub depth: usize,
}

/// The rows of processes.
pub fn processes(before: &Sample, after: &Sample) -> Vec<Row> {
    tasks(before.time_ns, &before.processes, &after.processes)
}

/// The rows of threads.
pub fn threads(before: &Sample, after: &Sample) -> Vec<Row> {
    if before.threads.is_empty() {
        // Threads were not wanted then.
        return after
            .threads
            .iter()
            .map(|reading| row(reading, None, after.time_ns))
            .collect();
    }
    tasks(before.time_ns, &before.threads, &after.threads)
}

fn tasks(before_ns: u64, before: &[Reading], after: &[Reading]) -> Vec<Row> {
    let known: HashMap<TaskId, &Reading> =
        before.iter().map(|reading| (reading.id, reading)).collect();
    after
        .iter()
        .map(|reading| row(reading, known.get(&reading.id).copied(), before_ns))
        .collect()
}

/// The row of a task, which was as `before` says, or not there at `before_ns`.
fn row(after: &Reading, before: Option<&Reading>, before_ns: u64) -> Row {
    let zero;
    let (from_ns, from) = match before {
        Some(before) => (before.time_ns, &before.counters),
        None => {
            zero = zeroes();
            (before_ns, &zero)
        }
    };
    let rates = Rates::new(from_ns, after.time_ns);
    let mut figures = Figures::missing(&Reason::NOT_REPORTED);
    let to = &after.counters;
    let cpus = |from_ns, to_ns| rates.of(&Ok(from_ns), &Ok(to_ns)).map(|rate| rate / 1e9);
    let (user, system) = (
        cpus(from.user_ns, to.user_ns),
        cpus(from.system_ns, to.system_ns),
    );
    let cpu = sum(&user, &system);
    let waiting = rates.of(&from.wait_ns, &to.wait_ns).map(|rate| rate / 1e9);
    figures.set(Column::Wait, wait_ratio(&cpu, &waiting));
    figures.set(Column::Cpu, cpu);
    figures.set(Column::User, user);
    figures.set(Column::System, system);
    for (column, from, to) in [
        (Column::MinorFaults, &from.minor_faults, &to.minor_faults),
        (Column::MajorFaults, &from.major_faults, &to.major_faults),
        (Column::Read, &from.read_bytes, &to.read_bytes),
        (Column::Written, &from.written_bytes, &to.written_bytes),
        (Column::Voluntary, &from.voluntary, &to.voluntary),
        (Column::Involuntary, &from.involuntary, &to.involuntary),
    ] {
        figures.set(column, rates.of(from, to));
    }
    figures.set(
        Column::Rss,
        after.rss_bytes.clone().map(|bytes| bytes as f64),
    );
    figures.set(Column::Threads, Ok(after.threads as f64));
    let unsampled = Reason::Fixed(MIX_NOT_SAMPLED);
    figures.set(Column::Vector, Err(unsampled.clone()));
    Row {
        subject: Subject::Task(after.id),
        who: Rc::clone(&after.who),
        state: Some(char::from(after.state)),
        figures,
        waiting,
        mix: Err(unsampled),
        depth: 0,
    }
}

fn zeroes() -> Counters {
    Counters {
        user_ns: 0,
        system_ns: 0,
        wait_ns: Ok(0),
        minor_faults: Ok(0),
        major_faults: Ok(0),
        read_bytes: Ok(0),
        written_bytes: Ok(0),
        voluntary: Ok(0),
        involuntary: Ok(0),
    }
}

fn sum(one: &Figure, other: &Figure) -> Figure {
    Ok(one.clone()? + other.clone()?)
}

/// Of the time that it wanted a CPU, the share that it waited for one.
fn wait_ratio(cpu: &Figure, waiting: &Figure) -> Figure {
    let (cpu, waiting) = (cpu.clone()?, waiting.clone()?);
    if cpu + waiting <= 0.0 {
        return Err(Reason::DID_NOT_RUN);
    }
    Ok(waiting / (cpu + waiting))
}

/// Makes rates over one time.
struct Rates {
    seconds: f64,
}

impl Rates {
    fn new(from_ns: u64, to_ns: u64) -> Self {
        Self {
            seconds: to_ns.saturating_sub(from_ns) as f64 / 1e9,
        }
    }

    /// How much a counter grew a second.
    fn of(&self, from: &Counter, to: &Counter) -> Figure {
        let to = to.as_ref().map_err(Clone::clone)?;
        // What could not be read then can be read now.
        let from = from.as_ref().map_err(|_| Reason::FIRST_READING)?;
        if self.seconds <= 0.0 {
            return Err(Reason::NOT_VISITED);
        }
        let grown = to.checked_sub(*from).ok_or(Reason::Fixed(
            "the kernel's counter went back, so that there is no rate",
        ))?;
        Ok(grown as f64 / self.seconds)
    }
}

/// The whole machine's use between two readings.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MachineUse {
    /// CPUs.
    pub cpus: usize,
    /// CPU time in user mode, in the kernel and stolen, in CPUs.
    pub used: Option<[f64; 3]>,
    /// Load average over one minute.
    pub load_1m: Option<f64>,
    /// Memory in all and memory available, bytes.
    pub memory_bytes: Option<[u64; 2]>,
}

/// The machine between two readings.
pub fn machine(before: &MachineReading, after: &MachineReading) -> MachineUse {
    let elapsed_ns = after.time_ns.saturating_sub(before.time_ns);
    let used = before
        .times_ns
        .zip(after.times_ns)
        .filter(|_| elapsed_ns > 0)
        .map(|(from, to)| {
            std::array::from_fn(|kind| {
                // Clock ticks are counted when they are whole, so that one may look as if it had gone back.
                to[kind].saturating_sub(from[kind]) as f64 / elapsed_ns as f64
            })
        });
    MachineUse {
        cpus: after.cpus,
        used,
        load_1m: after.load_1m,
        memory_bytes: after.memory_bytes,
    }
}

/// The rows of control groups, each with all that is below it, in the order of a tree.
///
/// CPU time, memory and I/O are the controllers' where they can be read, which count processes that have ended
/// too; the rest is the sum over the processes that are there.
pub fn groups(before: &Sample, after: &Sample, members: &[Row]) -> Vec<Row> {
    let known: HashMap<&str, &GroupReading> = before
        .groups
        .iter()
        .map(|group| (group.path.as_str(), group))
        .collect();
    let mut by_group: HashMap<&str, Vec<&Row>> = HashMap::new();
    for member in members {
        if let Some(path) = &member.who.cgroup {
            for above in crate::sample::ancestors(path) {
                by_group.entry(above).or_default().push(member);
            }
        }
    }
    after
        .groups
        .iter()
        .map(|group| {
            let members = by_group.remove(group.path.as_str()).unwrap_or_default();
            group_row(group, known.get(group.path.as_str()).copied(), &members)
        })
        .collect()
}

fn group_row(after: &GroupReading, before: Option<&GroupReading>, members: &[&Row]) -> Row {
    let waiting = members
        .iter()
        .try_fold(0.0, |sum, row| Ok(sum + row.waiting.clone()?));
    let name = match after.path.rsplit_once('/') {
        Some((_, "")) | None => after.path.clone(),
        Some((_, name)) => name.to_owned(),
    };
    Row {
        subject: Subject::Group(Rc::from(after.path.as_str())),
        who: Rc::new(Identity {
            name,
            command: Some(after.path.clone()),
            cgroup: Some(after.path.clone()),
            ..Identity::default()
        }),
        state: None,
        figures: group_figures(after, before, members, &waiting),
        waiting,
        mix: Err(Reason::Fixed(MIX_NOT_SAMPLED)),
        depth: match after.path.as_str() {
            "/" => 0,
            path => path.matches('/').count(),
        },
    }
}

/// A counter of a control group's controller.
type OfController = fn(&GroupCounters) -> Option<u64>;

/// Counters of controllers with the columns that they belong to, and what a second of the column is in them.
const OF_CONTROLLERS: [(Column, OfController, f64); 5] = [
    (Column::Cpu, |counters| counters.usage_ns, 1e9),
    (Column::User, |counters| counters.user_ns, 1e9),
    (Column::System, |counters| counters.system_ns, 1e9),
    (Column::Read, |counters| counters.read_bytes, 1.0),
    (Column::Written, |counters| counters.written_bytes, 1.0),
];

fn group_figures(
    after: &GroupReading,
    before: Option<&GroupReading>,
    members: &[&Row],
    waiting: &Figure,
) -> Figures {
    let mut figures = Figures::missing(&Reason::NOT_REPORTED);
    for column in [
        Column::MinorFaults,
        Column::MajorFaults,
        Column::Threads,
        Column::Voluntary,
        Column::Involuntary,
    ] {
        figures.set(column, total(column, members));
    }
    for (column, get, unit) in OF_CONTROLLERS {
        let of_controller = before.and_then(|before| {
            let (from, to) = (get(&before.counters)?, get(&after.counters)?);
            let rates = Rates::new(before.time_ns, after.time_ns);
            Some(rates.of(&Ok(from), &Ok(to)).ok()? / unit)
        });
        let figure = of_controller.map_or_else(|| total(column, members), Ok);
        figures.set(column, figure);
    }
    let memory = match after.counters.memory_bytes {
        Some(bytes) => Ok(bytes as f64),
        None => total(Column::Rss, members),
    };
    figures.set(Column::Rss, memory);
    let used = total(Column::Cpu, members);
    figures.set(Column::Wait, wait_ratio(&used, waiting));
    figures.set(Column::Numa, numa_score(members));
    figures
}

/// The sum over members. Kernel threads have no I/O and no memory to add; any other gap makes a gap.
fn total(column: Column, members: &[&Row]) -> Figure {
    let mut sum = 0.0;
    let mut missing = 0;
    let mut why = None;
    for member in members {
        match member.figures.get(column) {
            Ok(number) => sum += number,
            Err(reason) if *reason == Reason::KERNEL_THREAD => {}
            Err(reason) => {
                missing += 1;
                why.get_or_insert(reason);
            }
        }
    }
    match why {
        None => Ok(sum),
        Some(reason) => Err(Reason::made(format!(
            "unknown for {missing} of {} processes: {reason}",
            members.len()
        ))),
    }
}

/// Whether a task is in the group at `path`, or in one below it.
pub fn is_in(row: &Row, path: &str) -> bool {
    row.who.cgroup.as_deref().is_some_and(|group| {
        path == "/"
            || group
                .strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// NUMA score of the members of which it is known, weighed by their memory.
fn numa_score(members: &[&Row]) -> Figure {
    let mut local = 0.0;
    let mut all = 0.0;
    let mut why = Reason::Fixed("it has no processes");
    for member in members {
        match (
            member.figures.get(Column::Numa),
            member.figures.number(Column::Rss),
        ) {
            (Ok(ratio), Some(bytes)) => {
                local += ratio * bytes;
                all += bytes;
            }
            (Err(reason), _) if *reason != Reason::KERNEL_THREAD => why = reason.clone(),
            _ => {}
        }
    }
    if all > 0.0 { Ok(local / all) } else { Err(why) }
}

#[cfg(test)]
mod tests;
