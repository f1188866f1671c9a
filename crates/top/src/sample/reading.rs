//! What one reading of a process, thread or machine holds: cumulative counters with the time of their read.

use std::rc::Rc;

use crate::Reason;

/// A cumulative count, or why there is none.
pub type Counter = Result<u64, Reason>;

/// Which process or thread: an id is used again, so that its start belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId {
    /// Process.
    pub pid: u32,
    /// Thread; None for the process as a whole.
    pub tid: Option<u32>,
    /// When it started, clock ticks since boot.
    pub start_ticks: u64,
}

/// What does not change from reading to reading. Every text in it is harmless to a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// Name of the executable or thread, at most 15 bytes.
    pub name: String,
    /// The command line, None when it has none.
    pub command: Option<String>,
    /// The user it runs as.
    pub user: Option<String>,
    /// Its number.
    pub uid: Option<u32>,
    /// Path of its control group in the hierarchy of CPU time.
    pub cgroup: Option<String>,
    /// A thread of the kernel.
    pub is_kernel: bool,
}

/// Counters since the start of a process or thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    /// CPU time in user mode, ns, in steps of a clock tick.
    pub user_ns: u64,
    /// CPU time in the kernel, ns, in steps of a clock tick.
    pub system_ns: u64,
    /// Time it waited in a run queue, ns, summed over its threads.
    pub wait_ns: Counter,
    /// Page faults without a disk.
    pub minor_faults: Counter,
    /// Page faults with a disk.
    pub major_faults: Counter,
    /// Bytes read from storage.
    pub read_bytes: Counter,
    /// Bytes written to storage.
    pub written_bytes: Counter,
    /// Context switches it asked for, summed over its threads.
    pub voluntary: Counter,
    /// Context switches it did not ask for.
    pub involuntary: Counter,
}

/// One process or thread at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Which one.
    pub id: TaskId,
    /// Who it is.
    pub who: Rc<Identity>,
    /// When its counters were read, ns.
    pub time_ns: u64,
    /// Its state as one letter.
    pub state: u8,
    /// Its counters.
    pub counters: Counters,
    /// Resident memory, bytes.
    pub rss_bytes: Counter,
    /// Threads.
    pub threads: u64,
    /// Share of its recent CPU time by NUMA node; empty on a machine with one node.
    pub nodes: Vec<f64>,
}

/// A control group's own counters at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupReading {
    /// Its path below the hierarchy's root, harmless to a terminal.
    pub path: String,
    /// When they were read, ns.
    pub time_ns: u64,
    /// Its counters.
    pub counters: steelyard_probe::GroupCounters,
}

/// The machine as a whole at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MachineReading {
    /// When it was read, ns.
    pub time_ns: u64,
    /// CPUs.
    pub cpus: usize,
    /// Time of all CPUs: in user mode, in the kernel, stolen by the hypervisor, ns.
    pub times_ns: Option<[u64; 3]>,
    /// Load average over one minute.
    pub load_1m: Option<f64>,
    /// Memory in all and memory available, bytes.
    pub memory_bytes: Option<[u64; 2]>,
}

/// Everything that was read at one tick.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// When the tick began, ns.
    pub time_ns: u64,
    /// The machine.
    pub machine: MachineReading,
    /// Processes, in the order of their ids.
    pub processes: Vec<Reading>,
    /// Threads, where they were asked for.
    pub threads: Vec<Reading>,
    /// Control groups, where they were asked for.
    pub groups: Vec<GroupReading>,
}
