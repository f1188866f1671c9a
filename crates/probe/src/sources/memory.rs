//! Memory use, from /proc/meminfo. Source: proc_meminfo(5).

use std::io;

use crate::scan::{key_value, lines};
use crate::source::{Definition, Source, Tick, Unavailable};
use crate::table::{Column, Table};
use crate::tree::{TextFile, Tree};

pub const DEFINITION: Definition = Definition {
    name: "memory",
    about: "memory use of the whole machine, from /proc/meminfo",
    columns: COLUMNS,
    open,
};

const COLUMNS: &[Column] = &[
    Column::TIME,
    Column::gauge("total_bytes", "bytes", "usable memory (MemTotal)"),
    Column::gauge("free_bytes", "bytes", "unused (MemFree)"),
    Column::gauge(
        "available_bytes",
        "bytes",
        "could be had without swapping (MemAvailable)",
    ),
    Column::gauge("buffers_bytes", "bytes", "block device buffers (Buffers)"),
    Column::gauge(
        "cached_bytes",
        "bytes",
        "page cache and shared memory (Cached)",
    ),
    Column::gauge("dirty_bytes", "bytes", "waits to be written (Dirty)"),
    Column::gauge("writeback_bytes", "bytes", "being written (Writeback)"),
    Column::gauge(
        "anonymous_bytes",
        "bytes",
        "mapped anonymous pages (AnonPages)",
    ),
    Column::gauge("mapped_bytes", "bytes", "mapped files (Mapped)"),
    Column::gauge("shmem_bytes", "bytes", "shared memory and tmpfs (Shmem)"),
    Column::gauge("slab_bytes", "bytes", "kernel objects (Slab)"),
    Column::gauge("page_tables_bytes", "bytes", "page tables (PageTables)"),
    Column::gauge("swap_total_bytes", "bytes", "swap space (SwapTotal)"),
    Column::gauge("swap_free_bytes", "bytes", "unused swap space (SwapFree)"),
    Column::gauge(
        "anonymous_huge_bytes",
        "bytes",
        "transparent huge pages (AnonHugePages)",
    ),
    Column::gauge(
        "huge_pages_total",
        "1",
        "reserved huge pages (HugePages_Total)",
    ),
    Column::gauge(
        "huge_pages_free",
        "1",
        "unused reserved huge pages (HugePages_Free)",
    ),
];

/// The keys of the columns after the time, in the order of the columns.
const KEYS: [&[u8]; 17] = [
    b"MemTotal",
    b"MemFree",
    b"MemAvailable",
    b"Buffers",
    b"Cached",
    b"Dirty",
    b"Writeback",
    b"AnonPages",
    b"Mapped",
    b"Shmem",
    b"Slab",
    b"PageTables",
    b"SwapTotal",
    b"SwapFree",
    b"AnonHugePages",
    b"HugePages_Total",
    b"HugePages_Free",
];

struct MemorySource {
    meminfo: TextFile,
    /// Which column each line of the file goes to: the kernel's order never changes while it runs, so that
    /// the search for a key is needed once. The key is still compared at each read.
    places: Vec<Option<usize>>,
}

fn open(tree: &Tree) -> Result<Box<dyn Source>, Unavailable> {
    let meminfo = tree
        .file("proc/meminfo")
        .map_err(|error| Unavailable::cannot_read(&tree.path("proc/meminfo"), &error))?;
    Ok(Box::new(MemorySource {
        meminfo: TextFile::new(meminfo),
        places: Vec::new(),
    }))
}

impl Source for MemorySource {
    fn columns(&self) -> Vec<Column> {
        COLUMNS.to_vec()
    }

    fn read(&mut self, tick: &Tick<'_>, table: &mut Table) -> io::Result<()> {
        let time_ns = tick.now_ns();
        let text = self.meminfo.read()?;
        parse(text, time_ns, &mut self.places, table);
        Ok(())
    }
}

fn parse(text: &[u8], time_ns: u64, places: &mut Vec<Option<usize>>, table: &mut Table) {
    let mut values = [None; KEYS.len()];
    for (number, line) in lines(text).enumerate() {
        if number == places.len() {
            let key = key_value(line).map(|(key, _)| key);
            places.push(KEYS.iter().position(|known| Some(*known) == key));
        }
        let Some(place) = places[number] else {
            continue;
        };
        let Some((key, mut words)) = key_value(line) else {
            continue;
        };
        if key != KEYS[place] {
            // Another order than last time: look again from here on.
            places.truncate(number);
            places.push(KEYS.iter().position(|known| *known == key));
            let Some(place) = places[number] else {
                continue;
            };
            values[place] = value(&mut words);
            continue;
        }
        values[place] = value(&mut words);
    }
    let mut row = table.row(time_ns);
    for value in values {
        row.value(value);
    }
}

fn value(words: &mut crate::scan::Words<'_>) -> Option<u64> {
    let number = words.number()?;
    match words.next() {
        Some(b"kB") => number.checked_mul(1024),
        _ => Some(number),
    }
}
