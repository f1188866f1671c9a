//! Time tasks ran and waited for a CPU, per core, from /proc/schedstat.
//!
//! Source: Linux, Documentation/scheduler/sched-stats.rst: the last three numbers of a `cpuN` line are the
//! time tasks ran, the time they were runnable and waited (both ns), and the timeslices run.

use std::io;

use crate::source::{Definition, Source, Tick, Unavailable};
use crate::table::{Column, Table};
use steelyard_kernel::scan::{leading_number, lines, words};
use steelyard_kernel::{TextFile, Tree};

pub const DEFINITION: Definition = Definition {
    name: "schedstat",
    about: "time tasks ran on and waited for each core, from /proc/schedstat",
    columns: COLUMNS,
    open,
};

const COLUMNS: &[Column] = &[
    Column::TIME,
    Column::index("cpu", "number of the core"),
    Column::counter("run_ns", "ns", "time tasks ran"),
    Column::counter(
        "wait_ns",
        "ns",
        "time tasks were runnable and waited, summed over tasks",
    ),
    Column::counter("timeslices", "1", "timeslices run"),
];

struct SchedstatSource {
    schedstat: TextFile,
}

fn open(tree: &Tree) -> Result<Box<dyn Source>, Unavailable> {
    let schedstat = tree.file("proc/schedstat").map_err(|error| {
        Unavailable::cannot_read(&tree.path("proc/schedstat"), &error)
            .or_enable("use a kernel built with CONFIG_SCHEDSTATS")
    })?;
    Ok(Box::new(SchedstatSource {
        schedstat: TextFile::new(schedstat),
    }))
}

impl Source for SchedstatSource {
    fn columns(&self) -> Vec<Column> {
        COLUMNS.to_vec()
    }

    fn read(&mut self, tick: &Tick<'_>, table: &mut Table) -> io::Result<()> {
        let time_ns = tick.now_ns();
        parse(self.schedstat.read()?, time_ns, table);
        Ok(())
    }
}

/// Numbers on a `cpuN` line before the three that are kept.
const PASSED: usize = 6;

pub fn parse(text: &[u8], time_ns: u64, table: &mut Table) {
    for line in lines(text) {
        // Lines of domains stand between those of the CPUs.
        let Some(rest) = line.strip_prefix(b"cpu") else {
            continue;
        };
        let (cpu, used) = leading_number(rest);
        let Some(cpu) = cpu.and_then(|cpu| i32::try_from(cpu).ok()) else {
            continue;
        };
        let mut numbers = words(&rest[used..]);
        numbers.pass(PASSED);
        let mut row = table.row(time_ns);
        row.index(Some(cpu));
        for _ in 0..3 {
            row.value(numbers.number());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::rows;

    #[test]
    fn the_last_three_numbers_of_each_cpu() {
        let text = b"version 17\ntimestamp 4295\ncpu0 0 0 0 0 0 0 1000 20 3\n\
            domain0 MC 3 0 0 0\ncpu12 1 2 3 4 5 6 7 8 9\n";
        let rows = rows(COLUMNS, |table| parse(text, 5, table));
        assert_eq!(rows, ["5 0 1000 20 3", "5 12 7 8 9"]);
    }
}
