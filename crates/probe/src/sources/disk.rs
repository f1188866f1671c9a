//! Block devices, from /proc/diskstats. Source: Linux, Documentation/admin-guide/iostats.rst.
//!
//! Devices that have done nothing since the machine started (loop0 and its like) are left out until they do.

use std::io;

use crate::source::{Definition, Source, Tick, Unavailable};
use crate::table::{Column, Table};
use steelyard_kernel::scan::{lines, words};
use steelyard_kernel::{TextFile, Tree};

pub const DEFINITION: Definition = Definition {
    name: "disk",
    about: "operations, bytes and times of each block device and partition that was ever used, from /proc/diskstats",
    columns: COLUMNS,
    open,
};

const COLUMNS: &[Column] = &[
    Column::TIME,
    Column::label("device", "name of the device or partition"),
    Column::counter("reads", "1", "reads completed"),
    Column::counter("reads_merged", "1", "reads merged with a neighbour"),
    Column::counter("read_bytes", "bytes", "bytes read"),
    Column::counter("read_time_ns", "ns", "time of all reads, summed"),
    Column::counter("writes", "1", "writes completed"),
    Column::counter("writes_merged", "1", "writes merged with a neighbour"),
    Column::counter("written_bytes", "bytes", "bytes written"),
    Column::counter("write_time_ns", "ns", "time of all writes, summed"),
    Column::gauge("in_flight", "1", "operations under way"),
    Column::counter("busy_ns", "ns", "time with any operation under way"),
    Column::counter(
        "weighted_ns",
        "ns",
        "time multiplied by operations under way",
    ),
    Column::counter(
        "discards",
        "1",
        "discards completed (null before Linux 4.18)",
    ),
    Column::counter(
        "discarded_bytes",
        "bytes",
        "bytes discarded (null before Linux 4.18)",
    ),
    Column::counter("flushes", "1", "flushes completed (null before Linux 5.5)"),
];

/// /proc/diskstats counts in these whatever the device's own sector is.
const SECTOR_BYTES: u64 = 512;
const MS_NS: u64 = 1_000_000;

struct DiskSource {
    diskstats: TextFile,
}

fn open(tree: &Tree) -> Result<Box<dyn Source>, Unavailable> {
    let diskstats = tree
        .file("proc/diskstats")
        .map_err(|error| Unavailable::cannot_read(&tree.path("proc/diskstats"), &error))?;
    Ok(Box::new(DiskSource {
        diskstats: TextFile::new(diskstats),
    }))
}

impl Source for DiskSource {
    fn columns(&self) -> Vec<Column> {
        COLUMNS.to_vec()
    }

    fn read(&mut self, tick: &Tick<'_>, table: &mut Table) -> io::Result<()> {
        let time_ns = tick.now_ns();
        parse(self.diskstats.read()?, time_ns, table);
        Ok(())
    }
}

pub fn parse(text: &[u8], time_ns: u64, table: &mut Table) {
    for line in lines(text) {
        let mut fields = words(line);
        fields.pass(2);
        let Some(device) = fields.next() else {
            continue;
        };
        // An unused device prints zeros only; most machines have a dozen of them.
        if !fields.rest().iter().any(|byte| matches!(byte, b'1'..=b'9')) {
            continue;
        }
        let mut number = |factor: u64| fields.number().and_then(|value| value.checked_mul(factor));
        let mut row = table.row(time_ns);
        row.text(device);
        // reads, merged, sectors, ms; then the same for writes.
        for _ in 0..2 {
            row.value(number(1)).value(number(1));
            row.value(number(SECTOR_BYTES)).value(number(MS_NS));
        }
        row.value(number(1))
            .value(number(MS_NS))
            .value(number(MS_NS));
        // Discards, their merges (not kept), sectors, ms (not kept), flushes.
        row.value(number(1));
        number(1);
        row.value(number(SECTOR_BYTES));
        number(1);
        row.value(number(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::rows;

    #[test]
    fn used_devices_with_their_units() {
        let text = b"   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n \
            254       0 vda 99053 28353 6522410 26151 16690 67607 6114168 13736 2 8852 40279 4685 21 591720 357 1165 34\n";
        let rows = rows(COLUMNS, |table| parse(text, 1, table));
        assert_eq!(
            rows,
            [
                "1 vda 99053 28353 3339473920 26151000000 16690 67607 3130454016 13736000000 2 \
              8852000000 40279000000 4685 302960640 1165"
            ]
        );
    }

    #[test]
    fn a_kernel_without_discards_and_flushes_leaves_them_null() {
        let rows = rows(COLUMNS, |table| {
            parse(b"8 0 sda 1 1 1 1 1 1 1 1 1 1 1\n", 1, table);
        });
        assert_eq!(
            rows,
            ["1 sda 1 1 512 1000000 1 1 512 1000000 1 1000000 1000000 - - -"]
        );
    }
}
