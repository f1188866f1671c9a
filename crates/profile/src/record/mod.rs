//! Samples stacks here and now with perf_event_open(2).
//!
//! In: what to sample, how often and for how long. Out: a profile of names.
//!
//! Cycles are sampled where the machine has them, CPU time otherwise (in most virtual machines); call chains
//! are the kernel's, along frame pointers, or unwound from copies of the stacks. What the kernel refuses is left out and reported; what it refuses
//! altogether is an error that says how to enable it.
//!
//! Not here: unwinding of copied stacks (`unwind`); counting events without sampling.

mod addresses;
mod command;
mod descendants;
mod events;
mod idle;
mod processes;
mod refusals;
mod ring;
mod sampled;
mod session;
mod signals;

use std::path::PathBuf;
use std::time::Duration;

pub use addresses::{Address, Addresses};
pub use descendants::CHILD_END;
pub use sampled::SampledEvent;
pub use session::{record, record_labelled};

pub use crate::sample::{Label, Spaces};

/// What is sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All CPUs.
    All,
    /// Processes with all their threads, and those they make.
    Processes(Vec<u32>),
    /// A control group: a directory below /sys/fs/cgroup.
    Cgroup(PathBuf),
    /// The command, and the processes it makes.
    Command,
}

/// How call chains are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallGraph {
    /// Along frame pointers.
    FramePointers,
    /// From a copy of each sample's registers and stack.
    Dwarf {
        /// Bytes of the stack that are copied, from its pointer upwards.
        stack_bytes: u16,
    },
    /// Only where the CPU was.
    None,
}

/// What to record.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What is sampled.
    pub scope: Scope,
    /// The event whose occurrences are sampled; CPU time where it is None.
    pub event: Option<SampledEvent>,
    /// Samples a second of each busy CPU.
    pub hz: u32,
    /// Time after which to end.
    pub duration: Option<Duration>,
    /// Keep only samples of processes that descend from this one; before their command stands which child of it they
    /// descend from, and [`CHILD_END`].
    pub descendants_of: Option<u32>,
    /// Their commands are written as they are, without the child.
    pub plain_commands: bool,
    /// How call chains are taken.
    pub call_graph: CallGraph,
    /// Keep samples of the idle loop.
    pub with_idle: bool,
    /// Name the functions of interpreted programs (CPython 3.9 to 3.13).
    pub interpreted: bool,
    /// Lines of the source beside functions, where debug information has them.
    pub lines: bool,
    /// Keep when samples were taken.
    pub keeps_times: bool,
    /// A command to run meanwhile; its end ends the recording.
    pub command: Vec<String>,
}

/// A recording that has ended.
#[derive(Debug)]
pub struct Recorded {
    /// The profile.
    pub profile: crate::Profile,
    /// When it began, ns since 1970.
    pub begin_realtime_ns: u64,
    /// How the command ended: its exit code, or 128 + signal.
    pub command_exit: Option<i32>,
    /// What ended it: `duration`, `command`, `processes` or `signal`.
    pub end_reason: &'static str,
}
