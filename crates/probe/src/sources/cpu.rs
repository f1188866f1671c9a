//! CPU time by mode, per core, from /proc/stat.
//!
//! A CPU that goes offline loses its row and gets it back when it returns; the kernel keeps its counters.
//! The total over CPUs is not stored: it is their sum. Source: proc_stat(5).

use std::io;

use steelyard_kernel::{SharedFile, Tree, cpu_times, ns_per_clock_tick};

use crate::source::{Definition, Source, Tick, Unavailable};
use crate::table::{Column, Table};

pub const DEFINITION: Definition = Definition {
    name: "cpu",
    about: "CPU time by mode for each core that is online, from /proc/stat",
    columns: COLUMNS,
    open,
};

const COLUMNS: &[Column] = &[
    Column::TIME,
    Column::index("cpu", "number of the core"),
    Column::counter("user_ns", "ns", "in user mode, guests included"),
    Column::counter("nice_ns", "ns", "in user mode at low priority"),
    Column::counter("system_ns", "ns", "in the kernel"),
    Column::counter("idle_ns", "ns", "idle"),
    Column::counter("iowait_ns", "ns", "idle while a task waited for a disk"),
    Column::counter("irq_ns", "ns", "in interrupts"),
    Column::counter("softirq_ns", "ns", "in soft interrupts"),
    Column::counter("steal_ns", "ns", "stolen by the hypervisor"),
    Column::counter("guest_ns", "ns", "running guests, part of user_ns"),
    Column::counter(
        "guest_nice_ns",
        "ns",
        "running guests at low priority, part of nice_ns",
    ),
];

struct CpuSource {
    stat: SharedFile,
    ns_per_tick: u64,
}

fn open(tree: &Tree) -> Result<Box<dyn Source>, Unavailable> {
    let stat = tree
        .shared("proc/stat")
        .map_err(|error| Unavailable::cannot_read(&tree.path("proc/stat"), &error))?;
    Ok(Box::new(CpuSource {
        stat,
        ns_per_tick: ns_per_clock_tick(),
    }))
}

impl Source for CpuSource {
    fn columns(&self) -> Vec<Column> {
        COLUMNS.to_vec()
    }

    fn read(&mut self, tick: &Tick<'_>, table: &mut Table) -> io::Result<()> {
        self.stat.read(tick.number, tick.clock, |time_ns, text| {
            parse(text, time_ns, self.ns_per_tick, table);
        })
    }
}

pub fn parse(text: &[u8], time_ns: u64, ns_per_tick: u64, table: &mut Table) {
    for line in cpu_times(text) {
        // The total over CPUs has no row.
        let Some(Ok(cpu)) = line.cpu.map(i32::try_from) else {
            continue;
        };
        let mut row = table.row(time_ns);
        row.index(Some(cpu));
        for ticks in line.ticks {
            row.value(ticks.and_then(|ticks| ticks.checked_mul(ns_per_tick)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::rows;

    const NS: u64 = 10_000_000;

    #[test]
    fn one_row_a_core_and_none_for_the_total() {
        let text = b"cpu  4 0 0 0 0 0 0 0 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n\
            cpu7 1 1 1 1 1 1 1 1 1 1\nintr 5\ncpu9 1\n";
        let rows = rows(COLUMNS, |table| parse(text, 3, NS, table));
        assert_eq!(
            rows,
            [
                "3 0 10000000 20000000 30000000 40000000 50000000 60000000 70000000 80000000 90000000 100000000",
                "3 7 10000000 10000000 10000000 10000000 10000000 10000000 10000000 10000000 10000000 10000000",
            ]
        );
    }

    #[test]
    fn modes_that_an_old_kernel_lacks_and_times_that_do_not_fit_are_null() {
        let text = b"cpu0 1 18446744073709551615 3 4\ncpu99999999999 1\n";
        let rows = rows(COLUMNS, |table| parse(text, 3, NS, table));
        assert_eq!(rows, ["3 0 10000000 - 30000000 40000000 - - - - - -"]);
    }
}
