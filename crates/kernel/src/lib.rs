//! Files and notations of the Linux kernel: /proc, /sys and control groups.
//!
//! In: a root that holds `proc` and `sys` (the machine's own, or a recorded tree) and bytes read from it. Out: numbers, lists
//! of CPUs, mounts, topology.
//!
//! Invariants: nothing panics, whatever the bytes are; text that does not follow its notation is missing as a whole and never
//! understood in part.
//!
//! Not here: when files are read, and what is derived from them.

pub mod cgroup;
pub mod cpu_list;
mod cpu_time;
pub mod meminfo;
pub mod numa;
pub mod rapl;
pub mod scan;
mod storage_bytes;
mod task_stat;
#[cfg(test)]
mod testing;
pub mod topology;
mod tree;
mod units;
pub mod usage;

pub use cpu_time::{CpuTime, cpu_times};
pub use storage_bytes::storage_bytes;
pub use task_stat::Stat;
pub use tree::{SharedFile, TextFile, Tree, TreeFile, read_from_start};
pub use units::{ns_per_clock_tick, page_bytes};

/// Runs every parser over `text`: whatever the kernel prints, none may panic. For the fuzz target.
#[doc(hidden)]
pub fn parse_anything(text: &[u8]) {
    cpu_list::parse(text);
    cpu_list::parse_mask(text);
    cpu_times(text).count();
    cgroup::Hierarchies::parse(text);
    cgroup::group_of(text, "cpu");
    meminfo::value(text, "MemTotal");
    Stat::parse(text);
    numa::parse_anything(text);
    storage_bytes(text);
    scan::signed_number(text);
}
