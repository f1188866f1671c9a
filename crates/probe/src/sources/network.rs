//! Network interfaces, from /proc/net/dev. Source: proc_pid_net(5).
//!
//! /proc/net is the one of the probe's own network namespace.

use std::io;

use crate::source::{Definition, Source, Tick, Unavailable};
use crate::table::{Column, Table};
use steelyard_kernel::scan::{lines, trim, words};
use steelyard_kernel::{TextFile, Tree};

pub const DEFINITION: Definition = Definition {
    name: "network",
    about: "bytes, packets, errors and drops of each network interface, from /proc/net/dev",
    columns: COLUMNS,
    open,
};

const COLUMNS: &[Column] = &[
    Column::TIME,
    Column::label("interface", "name of the interface"),
    Column::counter("received_bytes", "bytes", "bytes received"),
    Column::counter("received_packets", "1", "packets received"),
    Column::counter("received_errors", "1", "packets received with an error"),
    Column::counter("received_drops", "1", "packets received and dropped"),
    Column::counter("sent_bytes", "bytes", "bytes sent"),
    Column::counter("sent_packets", "1", "packets sent"),
    Column::counter("sent_errors", "1", "errors in sending"),
    Column::counter("sent_drops", "1", "packets dropped before sending"),
];

struct NetworkSource {
    dev: TextFile,
}

fn open(tree: &Tree) -> Result<Box<dyn Source>, Unavailable> {
    let dev = tree
        .file("proc/net/dev")
        .map_err(|error| Unavailable::cannot_read(&tree.path("proc/net/dev"), &error))?;
    Ok(Box::new(NetworkSource {
        dev: TextFile::new(dev),
    }))
}

impl Source for NetworkSource {
    fn columns(&self) -> Vec<Column> {
        COLUMNS.to_vec()
    }

    fn read(&mut self, tick: &Tick<'_>, table: &mut Table) -> io::Result<()> {
        let time_ns = tick.now_ns();
        parse(self.dev.read()?, time_ns, table);
        Ok(())
    }
}

pub fn parse(text: &[u8], time_ns: u64, table: &mut Table) {
    // Two lines of heads, which have no colon.
    for line in lines(text) {
        // A name may hold a colon itself (an alias, as eth0:1); counters never do.
        let Some(colon) = memchr::memrchr(b':', line) else {
            continue;
        };
        let mut numbers = words(&line[colon + 1..]);
        let mut row = table.row(time_ns);
        row.text(trim(&line[..colon]));
        for direction in 0..2 {
            for _ in 0..4 {
                row.value(numbers.number());
            }
            if direction == 0 {
                // fifo, frame, compressed, multicast
                numbers.pass(4);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::rows;

    #[test]
    fn interfaces_with_and_without_a_blank_after_the_colon() {
        let text = b"Inter-|   Receive  |  Transmit\n face |bytes    packets|bytes\n    \
            lo:    3193      29    1    2    3     4          5         6     70      80    90    100    0     0       0          0\n\
            eth0:1:5 6 7 8 0 0 0 0 1 2 3 4 0 0 0 0\n";
        let rows = rows(COLUMNS, |table| parse(text, 1, table));
        assert_eq!(
            rows,
            ["1 lo 3193 29 1 2 70 80 90 100", "1 eth0:1 5 6 7 8 1 2 3 4"]
        );
    }
}
