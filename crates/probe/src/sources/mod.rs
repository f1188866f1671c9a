//! The sources, one file each (or one for a few that are alike).
//!
//! Each file has the columns of its table, how it is opened, how it is read, and tests over text as kernels
//! print it.

pub mod cgroup;
pub mod cpu;
pub mod disk;
pub mod frequency;
pub mod interrupts;
pub mod keyed;
pub mod memory;
pub mod network;
pub mod numa;
pub mod power;
pub mod pressure;
pub mod process;
pub mod schedstat;
pub mod scheduler;
pub mod tcp;
pub mod thermal;
pub mod vmstat;
mod watched;

use crate::source::Definition;

/// All sources, in the order in which they are read.
pub const ALL: &[Definition] = &[
    cpu::DEFINITION,
    scheduler::DEFINITION,
    schedstat::DEFINITION,
    memory::DEFINITION,
    vmstat::DEFINITION,
    disk::DEFINITION,
    network::DEFINITION,
    tcp::DEFINITION,
    interrupts::INTERRUPTS,
    interrupts::SOFTIRQS,
    pressure::DEFINITION,
    frequency::CPUFREQ,
    frequency::APERFMPERF,
    power::DEFINITION,
    thermal::DEFINITION,
    frequency::THROTTLE,
    numa::DEFINITION,
    cgroup::DEFINITION,
    process::DEFINITION,
];
