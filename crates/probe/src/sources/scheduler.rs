//! Context switches, interrupts, forks, the run queue and load averages, from /proc/stat and /proc/loadavg.

use std::io;

use crate::source::{Definition, Source, Tick, Unavailable};
use crate::table::{Column, Table, Type};
use steelyard_kernel::scan::{decimal, key_value, lines, words};
use steelyard_kernel::{SharedFile, Tree};

pub const DEFINITION: Definition = Definition {
    name: "scheduler",
    about: "context switches, interrupts, forks, run queue and load averages, from /proc/stat and /proc/loadavg",
    columns: COLUMNS,
    open,
};

const COLUMNS: &[Column] = &[
    Column::TIME,
    Column::counter("context_switches", "1", "context switches of all CPUs"),
    Column::counter("interrupts", "1", "interrupts of all CPUs and lines"),
    Column::counter("forks", "1", "processes and threads started"),
    Column::gauge("runnable", "1", "tasks running or waiting for a CPU"),
    Column::gauge("blocked", "1", "tasks waiting for a disk"),
    Column::gauge("load_1min", "1", "load average over 1 minute").of_type(Type::F64),
    Column::gauge("load_5min", "1", "load average over 5 minutes").of_type(Type::F64),
    Column::gauge("load_15min", "1", "load average over 15 minutes").of_type(Type::F64),
];

struct SchedulerSource {
    stat: SharedFile,
    /// None when the tree has no /proc/loadavg.
    loadavg: Option<SharedFile>,
}

fn open(tree: &Tree) -> Result<Box<dyn Source>, Unavailable> {
    let stat = tree
        .shared("proc/stat")
        .map_err(|error| Unavailable::cannot_read(&tree.path("proc/stat"), &error))?;
    Ok(Box::new(SchedulerSource {
        stat,
        loadavg: tree.shared("proc/loadavg").ok(),
    }))
}

impl Source for SchedulerSource {
    fn columns(&self) -> Vec<Column> {
        COLUMNS.to_vec()
    }

    fn missing(&self) -> Vec<(String, String)> {
        if self.loadavg.is_some() {
            return Vec::new();
        }
        ["load_1min", "load_5min", "load_15min"]
            .map(|name| (name.to_owned(), "/proc/loadavg cannot be read".to_owned()))
            .to_vec()
    }

    fn read(&mut self, tick: &Tick<'_>, table: &mut Table) -> io::Result<()> {
        let loads = match &self.loadavg {
            Some(loadavg) => loadavg
                .read(tick.number, tick.clock, |_, text| loads(text))
                .unwrap_or_default(),
            None => [None; 3],
        };
        self.stat.read(tick.number, tick.clock, |time_ns, text| {
            parse(text, time_ns, loads, table)
        })
    }
}

/// The three averages of /proc/loadavg.
pub fn loads(text: &[u8]) -> [Option<f64>; 3] {
    let mut words = words(steelyard_kernel::scan::trim(text));
    [(); 3].map(|()| words.next().and_then(decimal))
}

pub fn parse(text: &[u8], time_ns: u64, loads: [Option<f64>; 3], table: &mut Table) {
    let mut values = [None; 5];
    for line in lines(text) {
        // As many lines as there are CPUs, recognized by their first two bytes.
        if line.starts_with(b"cp") {
            continue;
        }
        let Some((key, mut numbers)) = key_value(line) else {
            continue;
        };
        let place = match key {
            b"ctxt" => 0,
            // The first number is the sum; one for each line follows.
            b"intr" => 1,
            b"processes" => 2,
            b"procs_running" => 3,
            b"procs_blocked" => 4,
            _ => continue,
        };
        values[place] = numbers.number();
    }
    let mut row = table.row(time_ns);
    row.values(&values);
    for load in loads {
        row.float(load);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::rows;

    #[test]
    fn counts_and_loads() {
        let text = b"cpu  1 2\ncpu0 1 2\nintr 5 0 0\nctxt 538398\nbtime 1\nprocesses 9718\n\
            procs_running 2\nprocs_blocked 0\nsoftirq 1 2\n";
        let loads = loads(b"1.87 0.81 0.33 1/91 9718\n");
        let rows = rows(COLUMNS, |table| parse(text, 1, loads, table));
        assert_eq!(rows, ["1 538398 5 9718 2 0 1.87 0.81 0.33"]);
    }

    #[test]
    fn what_the_kernel_does_not_print_is_null() {
        let rows = rows(COLUMNS, |table| parse(b"ctxt 1\n", 1, [None; 3], table));
        assert_eq!(rows, ["1 1 - - - - - - -"]);
    }
}
