//! The sources, one file each (or one for a few that are alike).
//!
//! Each file has the columns of its table, how it is opened, how it is read, and tests over text as kernels
//! print it.

mod cpu;
mod disk;
mod memory;
mod network;
mod scheduler;

use crate::source::Definition;

/// All sources, in the order in which they are read.
pub const ALL: &[Definition] = &[
    cpu::DEFINITION,
    scheduler::DEFINITION,
    memory::DEFINITION,
    disk::DEFINITION,
    network::DEFINITION,
];
