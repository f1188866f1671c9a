//! Files and notations of the Linux kernel: /proc, /sys and control groups.
//!
//! In: a root that holds `proc` and `sys` (the machine's own, or a recorded tree) and bytes read from it. Out: numbers, lists
//! of CPUs, mounts, topology.
//!
//! Invariants: nothing panics, whatever the bytes are; text that does not follow its notation is missing as a whole and never
//! understood in part.
//!
//! Not here: when files are read, and what is derived from them.

pub mod cpu_list;
pub mod scan;
pub mod topology;
mod tree;

pub use tree::{SharedFile, TextFile, Tree, TreeFile, read_from_start};
