//! Pressure stall information: the time tasks stood still for want of a resource, from /proc/pressure.
//!
//! Source: Linux, Documentation/accounting/psi.rst. `total` is in microseconds.

use std::io;

use crate::source::{Definition, Source, Tick, Unavailable};
use crate::table::{Column, Table};
use steelyard_kernel::scan::{lines, words};
use steelyard_kernel::{TextFile, Tree};

pub const DEFINITION: Definition = Definition {
    name: "pressure",
    about: "time in which tasks waited for CPU, memory, disk or interrupts, from /proc/pressure",
    columns: COLUMNS,
    open,
};

const COLUMNS: &[Column] = &[
    Column::TIME,
    Column::label("resource", "cpu, memory, io or irq"),
    Column::counter("some_ns", "ns", "time in which at least one task waited"),
    Column::counter(
        "full_ns",
        "ns",
        "time in which all tasks that had work waited",
    ),
];

const RESOURCES: [&str; 4] = ["cpu", "memory", "io", "irq"];

struct PressureSource {
    files: Vec<(&'static str, TextFile)>,
}

fn open(tree: &Tree) -> Result<Box<dyn Source>, Unavailable> {
    let mut files = Vec::new();
    let mut refusal = None;
    for resource in RESOURCES {
        let name = format!("proc/pressure/{resource}");
        // Without `psi=1` the files may exist and fail when they are read.
        match tree.file(&name).and_then(|file| {
            let mut file = TextFile::new(file);
            file.read().map(drop).map(|()| file)
        }) {
            Ok(file) => files.push((resource, file)),
            Err(error) => {
                refusal.get_or_insert(Unavailable::cannot_read(&tree.path(&name), &error));
            }
        }
    }
    match refusal {
        Some(refusal) if files.is_empty() => Err(refusal
            .or_enable("use Linux 4.20 or later built with CONFIG_PSI, and start it with psi=1")),
        _ => Ok(Box::new(PressureSource { files })),
    }
}

impl Source for PressureSource {
    fn columns(&self) -> Vec<Column> {
        COLUMNS.to_vec()
    }

    fn read(&mut self, tick: &Tick<'_>, table: &mut Table) -> io::Result<()> {
        for (resource, file) in &mut self.files {
            let time_ns = tick.now_ns();
            parse(file.read()?, time_ns, resource, table);
        }
        Ok(())
    }
}

pub fn parse(text: &[u8], time_ns: u64, resource: &str, table: &mut Table) {
    let mut totals = [None; 2];
    for line in lines(text) {
        let mut fields = words(line);
        let place = match fields.next() {
            Some(b"some") => 0,
            Some(b"full") => 1,
            _ => continue,
        };
        totals[place] = fields
            .find_map(|field| field.strip_prefix(b"total="))
            .and_then(steelyard_kernel::scan::number)
            .and_then(|us| us.checked_mul(1000));
    }
    table.row(time_ns).text(resource.as_bytes()).values(&totals);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, rows};

    #[test]
    fn totals_in_ns_and_null_where_there_is_no_line() {
        let text = b"full avg10=0.00 avg60=0.13 avg300=0.24 total=5075687\n";
        assert_eq!(
            rows(COLUMNS, |table| parse(text, 1, "irq", table)),
            ["1 irq - 5075687000"]
        );
    }

    #[test]
    fn the_resources_that_the_kernel_has() {
        let mut bench = Bench::new(&[
            (
                "proc/pressure/cpu",
                "some avg10=0 total=1\nfull avg10=0 total=2\n",
            ),
            (
                "proc/pressure/io",
                "some avg10=0 total=3\nfull avg10=0 total=4\n",
            ),
        ]);
        bench.open(&DEFINITION).expect("two files are there");
        assert_eq!(bench.tick(), ["cpu 1000 2000", "io 3000 4000"]);
        bench.remove("proc/pressure/io");
        assert!(bench.try_tick().is_err());
        bench.write("proc/pressure/io", "some avg10=0 total=5\n");
        assert_eq!(bench.tick(), ["cpu 1000 2000", "io 5000 -"]);
    }

    #[test]
    fn a_kernel_without_it_is_reported() {
        assert_eq!(
            Bench::new(&[]).refusal(&DEFINITION),
            "/proc/pressure/cpu does not exist"
        );
    }
}
