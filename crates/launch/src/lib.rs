//! Starts a command so that nothing of it outlives its starter, and ends a program that is asked to stop ([`Stop`]).
//!
//! In: a command, the CPUs and memory nodes it may use, how long it may take to end. Out: the command's exit status, after
//! every process that descends from it is gone.
//!
//! Invariants: the command runs in a process group of its own; its processes that lose their parent are
//! adopted by the supervisor (child subreaper) and are killed with it; when the supervisor's own parent ends, by
//! whatever signal, the command is asked to end (SIGTERM) and after the grace time killed; when the
//! supervisor is killed outright, the kernel kills the command (parent-death signal).
//!
//! Not here: resource limits, restarts, logging.

mod affinity;
mod memory;
mod stop;
mod supervisor;

pub use affinity::{pin_to_cpus, usable_cpus};
pub use memory::{allowed_memory_nodes, bind_memory};
pub use stop::{AGAIN, GRACE, Stop, ignore_file_size_signal, restore_file_size_signal, unblock};
pub use supervisor::{Ended, LaunchError, Supervision, die_with_parent, supervise};
