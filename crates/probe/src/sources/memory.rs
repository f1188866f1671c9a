//! Memory use, from /proc/meminfo. Source: proc_meminfo(5).

use std::io;

use steelyard_kernel::meminfo::bytes;
use steelyard_kernel::{TextFile, Tree};

use super::keyed::Places;
use crate::source::{Definition, Source, Tick, Unavailable};
use crate::table::{Column, Table};

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
        "available without swapping (MemAvailable)",
    ),
    Column::gauge("buffers_bytes", "bytes", "block device buffers (Buffers)"),
    Column::gauge(
        "cached_bytes",
        "bytes",
        "page cache and shared memory (Cached)",
    ),
    Column::gauge("dirty_bytes", "bytes", "waiting to be written (Dirty)"),
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
    places: Places,
}

fn open(tree: &Tree) -> Result<Box<dyn Source>, Unavailable> {
    let meminfo = tree
        .file("proc/meminfo")
        .map_err(|error| Unavailable::cannot_read(&tree.path("proc/meminfo"), &error))?;
    Ok(Box::new(MemorySource {
        meminfo: TextFile::new(meminfo),
        places: Places::default(),
    }))
}

impl Source for MemorySource {
    fn columns(&self) -> Vec<Column> {
        COLUMNS.to_vec()
    }

    fn read(&mut self, tick: &Tick<'_>, table: &mut Table) -> io::Result<()> {
        let time_ns = tick.now_ns();
        parse(self.meminfo.read()?, time_ns, &mut self.places, table);
        Ok(())
    }
}

pub fn parse(text: &[u8], time_ns: u64, places: &mut Places, table: &mut Table) {
    let mut values = [None; KEYS.len()];
    places.read(text, &KEYS, &mut values, bytes);
    table.row(time_ns).values(&values);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::rows;

    #[test]
    fn kilobytes_become_bytes_and_what_is_absent_is_null() {
        let text = b"MemTotal:       24684092 kB\nMemFree: 5 kB\nMystery: 7 kB\n\
            HugePages_Total:       3\nDirty: x kB\n";
        let rows = rows(COLUMNS, |table| {
            parse(text, 1, &mut Places::default(), table)
        });
        assert_eq!(rows, ["1 25276510208 5120 - - - - - - - - - - - - - 3 -"]);
    }
}
