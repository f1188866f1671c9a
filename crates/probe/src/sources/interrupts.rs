//! Interrupts and soft interrupts per CPU, from /proc/interrupts and /proc/softirqs.
//!
//! A large machine has a thousand interrupts on hundreds of CPUs, nearly all of which stand still. So a pair
//! of interrupt and CPU gets a row only when its count changed since its last row; a pair that never had a
//! row has counted nothing. Differences between consecutive rows of a pair are right as they are.
//!
//! Source: proc_interrupts(5), proc_softirqs(5) in Linux, Documentation/filesystems/proc.rst.

use std::io;

use crate::source::{Definition, Source, Tick, Unavailable};
use crate::table::{Column, Table};
use steelyard_kernel::scan::{lines, trim, words};
use steelyard_kernel::{TextFile, Tree};

pub const INTERRUPTS: Definition = Definition {
    name: "interrupts",
    about: "interrupts by line and CPU, from /proc/interrupts: a row only when the count changed",
    columns: INTERRUPT_COLUMNS,
    open: |tree| open(tree, "proc/interrupts", true),
};

pub const SOFTIRQS: Definition = Definition {
    name: "softirqs",
    about: "soft interrupts by kind and CPU, from /proc/softirqs: a row only when the count changed",
    columns: SOFTIRQ_COLUMNS,
    open: |tree| open(tree, "proc/softirqs", false),
};

const INTERRUPT_COLUMNS: &[Column] = &[
    Column::TIME,
    Column::label("irq", "number or short name of the interrupt"),
    Column::label("name", "chip, kind and devices, as named by the kernel"),
    Column::index("cpu", "number of the core, null for a count over all"),
    Column::counter("count", "1", "interrupts taken"),
];

const SOFTIRQ_COLUMNS: &[Column] = &[
    Column::TIME,
    Column::label("kind", "kind of soft interrupt, such as NET_RX"),
    Column::index("cpu", "number of the core"),
    Column::counter("count", "1", "soft interrupts run"),
];

struct InterruptSource {
    file: TextFile,
    state: Counts,
}

fn open(tree: &Tree, name: &str, named: bool) -> Result<Box<dyn Source>, Unavailable> {
    let file = tree
        .file(name)
        .map_err(|error| Unavailable::cannot_read(&tree.path(name), &error))?;
    Ok(Box::new(InterruptSource {
        file: TextFile::with_long_records(file),
        state: Counts::new(named),
    }))
}

impl Source for InterruptSource {
    fn columns(&self) -> Vec<Column> {
        if self.state.named {
            INTERRUPT_COLUMNS.to_vec()
        } else {
            SOFTIRQ_COLUMNS.to_vec()
        }
    }

    fn read(&mut self, tick: &Tick<'_>, table: &mut Table) -> io::Result<()> {
        let time_ns = tick.now_ns();
        self.state.parse(self.file.read()?, time_ns, table);
        Ok(())
    }
}

/// More CPUs than Linux supports (NR_CPUS is at most 8192): a broken header must not fill memory.
const CPUS: usize = 16_384;

/// The counts of the rows written last.
#[derive(Debug)]
pub struct Counts {
    /// Whether the rows have a name.
    named: bool,
    /// The header seen last, and the CPU of each of its columns.
    header: Vec<u8>,
    cpus: Vec<usize>,
    lines: Vec<Line>,
}

/// One line of the file.
#[derive(Debug, Default)]
struct Line {
    label: Vec<u8>,
    /// The text behind the counts as it stands in the file, and as it is stored.
    tail: Vec<u8>,
    name: Vec<u8>,
    /// By CPU; what has no row yet counts 0.
    counts: Vec<u64>,
    /// The count of a line that has one for all CPUs.
    total: u64,
}

impl Counts {
    /// No counts yet.
    pub fn new(named: bool) -> Self {
        Self {
            named,
            header: Vec::new(),
            cpus: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// Appends the rows of what changed.
    pub fn parse(&mut self, text: &[u8], time_ns: u64, table: &mut Table) {
        let mut rest = lines(text);
        let Some(header) = rest.next() else {
            return;
        };
        self.read_header(header);
        for (number, line) in rest.enumerate() {
            let Some(colon) = memchr::memchr(b':', line) else {
                continue;
            };
            let label = trim(&line[..colon]);
            let line_number = self.line(number, label);
            self.read_counts(line_number, &line[colon + 1..], time_ns, table);
        }
    }

    fn read_header(&mut self, header: &[u8]) {
        if header == self.header {
            return;
        }
        self.header = header.to_vec();
        self.cpus = words(header)
            .map_while(|word| {
                let number = steelyard_kernel::scan::number(word.strip_prefix(b"CPU")?)?;
                usize::try_from(number).ok().filter(|cpu| *cpu < CPUS)
            })
            .collect();
    }

    /// The place of the line called `label`, which was at `number` before or is new there.
    fn line(&mut self, number: usize, label: &[u8]) -> usize {
        if self
            .lines
            .get(number)
            .is_some_and(|line| line.label == label)
        {
            return number;
        }
        // Lines come and go with drivers; the counts of the others must not be lost by it.
        if let Some(place) = self.lines.iter().position(|line| line.label == label) {
            return place;
        }
        let place = number.min(self.lines.len());
        self.lines.insert(
            place,
            Line {
                label: label.to_vec(),
                ..Line::default()
            },
        );
        place
    }

    fn read_counts(&mut self, place: usize, text: &[u8], time_ns: u64, table: &mut Table) {
        let line = &mut self.lines[place];
        let mut numbers = words(text);
        let behind = {
            let mut behind = numbers.clone();
            behind.pass(self.cpus.len());
            behind
        };
        // These have one count for all CPUs, whatever the header says: arch_show_interrupts in Linux.
        let per_cpu = ![&b"ERR"[..], b"MIS", b"Err"].contains(&&*line.label);
        if self.named {
            line.set_tail(if per_cpu { behind.rest() } else { b"" });
        }
        if !per_cpu {
            if let Some(count) = numbers.number()
                && count != line.total
            {
                line.total = count;
                line.row(self.named, time_ns, table)
                    .index(None)
                    .value(Some(count));
            }
            return;
        }
        for &cpu in &self.cpus {
            let Some(count) = numbers.number() else {
                break;
            };
            if line.counts.len() <= cpu {
                line.counts.resize(cpu + 1, 0);
            }
            if line.counts[cpu] != count {
                line.counts[cpu] = count;
                line.row(self.named, time_ns, table)
                    .index(Some(cpu as i32))
                    .value(Some(count));
            }
        }
    }
}

impl Line {
    fn set_tail(&mut self, tail: &[u8]) {
        let tail = trim(tail);
        if tail == self.tail {
            return;
        }
        self.tail = tail.to_vec();
        self.name = words(tail).collect::<Vec<_>>().join(&b' ');
    }

    fn row<'t>(&self, named: bool, time_ns: u64, table: &'t mut Table) -> crate::table::Row<'t> {
        let mut row = table.row(time_ns);
        row.text(&self.label);
        if named {
            row.text(&self.name);
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::rows;

    fn read(counts: &mut Counts, text: &str) -> Vec<String> {
        let columns = if counts.named {
            INTERRUPT_COLUMNS
        } else {
            SOFTIRQ_COLUMNS
        };
        rows(columns, |table| counts.parse(text.as_bytes(), 1, table))
    }

    #[test]
    fn only_what_changed_gets_a_row() {
        let mut counts = Counts::new(true);
        let first = " CPU0 CPU1\n 24:  1  0  IO-APIC   5-edge   gpio\nLOC: 5 6 Local timer interrupts\nERR: 0\n";
        assert_eq!(
            read(&mut counts, first),
            [
                "1 24 IO-APIC 5-edge gpio 0 1",
                "1 LOC Local timer interrupts 0 5",
                "1 LOC Local timer interrupts 1 6"
            ]
        );
        assert_eq!(read(&mut counts, first), [] as [&str; 0]);
        let second = first.replace("5 6", "5 7").replace("ERR: 0", "ERR: 3");
        assert_eq!(
            read(&mut counts, &second),
            ["1 LOC Local timer interrupts 1 7", "1 ERR  - 3"]
        );
    }

    #[test]
    fn a_cpu_that_goes_offline_and_a_line_that_comes_disturb_no_other() {
        let mut counts = Counts::new(true);
        read(&mut counts, "CPU0 CPU1\n1: 5 6 a\n2: 7 8 b\n");
        assert_eq!(read(&mut counts, "CPU0\n1: 5 a\n2: 9 b\n"), ["1 2 b 0 9"]);
        assert_eq!(
            read(&mut counts, "CPU0 CPU1\n1: 5 6 a\n3: 0 1 c\n2: 9 8 b\n"),
            ["1 3 c 1 1"]
        );
        assert_eq!(read(&mut counts, "CPU0 CPU1\n2: 9 9 b\n"), ["1 2 b 1 9"]);
    }

    #[test]
    fn a_counter_that_starts_again_is_stored_as_it_is() {
        let mut counts = Counts::new(false);
        read(&mut counts, "CPU0\nHI: 4294967295\n");
        assert_eq!(read(&mut counts, "CPU0\nHI: 2\n"), ["1 HI 0 2"]);
    }

    proptest! {
        #[test]
        fn arbitrary_texts_in_a_row_do_no_harm(texts in proptest::collection::vec("([ 0-9:a-zCPU]{0,20}\n?){0,8}", 0..5), bytes: Vec<u8>) {
            let mut counts = Counts::new(true);
            for text in &texts {
                read(&mut counts, text);
            }
            rows(INTERRUPT_COLUMNS, |table| counts.parse(&bytes, 1, table));
        }
    }
}
