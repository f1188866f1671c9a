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
pub mod target;
pub mod tcp;
pub mod thermal;
pub mod vmstat;
pub mod watched;

use crate::counters;
use crate::source::Definition;
use crate::table::Table;

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
    // Last, so that the files it keeps open are none that another source needs.
    counters::DEFINITION,
];

/// Runs every parser over `text` twice, as if a tick had followed another: whatever the kernel prints, none
/// may panic. For the fuzz target and the property test below.
pub fn parse_anything(text: &[u8]) {
    let table = |definition: &Definition| Table::new(definition.columns);
    let mut places = keyed::Places::default();
    let mut heads = tcp::Heads::default();
    let mut interrupts = interrupts::Counts::new(true);
    let mut softirqs = interrupts::Counts::new(false);
    for text in [text, &text[text.len() / 2..]] {
        cpu::parse(text, 0, 10_000_000, &mut table(&cpu::DEFINITION));
        scheduler::parse(text, 0, [None; 3], &mut table(&scheduler::DEFINITION));
        scheduler::loads(text);
        schedstat::parse(text, 0, &mut table(&schedstat::DEFINITION));
        memory::parse(text, 0, &mut places, &mut table(&memory::DEFINITION));
        vmstat::keys(text);
        disk::parse(text, 0, &mut table(&disk::DEFINITION));
        network::parse(text, 0, &mut table(&network::DEFINITION));
        tcp::parse_snmp(text, &mut heads);
        interrupts.parse(text, 0, &mut table(&interrupts::INTERRUPTS));
        softirqs.parse(text, 0, &mut table(&interrupts::SOFTIRQS));
        pressure::parse(text, 0, "cpu", &mut table(&pressure::DEFINITION));
        numa::memory_of(text);
        cgroup::blkio_bytes(text);
        cgroup::io_bytes(text);
        target::parse_anything(text);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Beginnings that lead the parsers past their first checks.
    const BEGINNINGS: [&str; 8] = [
        "cpu0 1 2 3\n",
        "ctxt 5\nprocesses 6\n",
        "8 0 sda 1 2 3\n",
        "eth0: 1 2 3\n",
        "Tcp: InSegs OutSegs\nTcp: 1 2\n",
        "CPU0 CPU1\n1: 2 3 name\n",
        "some avg10=0 total=5\n",
        "1 (sh) S 1 2 3 4\n",
    ];

    proptest! {
        #[test]
        fn no_parser_panics(
            beginning in proptest::sample::select(&BEGINNINGS[..]),
            bytes: Vec<u8>,
            like_the_kernel in "([a-zA-Z0-9:=(). -]{0,30}\n?){0,6}",
            overwritten in proptest::collection::vec((0..64usize, any::<u8>()), 0..4),
        ) {
            let mut text = [beginning.as_bytes(), like_the_kernel.as_bytes(), &bytes].concat();
            for (place, byte) in overwritten {
                if let Some(there) = text.get_mut(place) {
                    *there = byte;
                }
            }
            parse_anything(&text);
        }
    }
}
