//! Memory and allocations by NUMA node, from /sys/devices/system/node.
//!
//! Source: Linux, Documentation/admin-guide/numastat.rst: counts are of pages.

use std::io;

use super::keyed::{Places, plain};
use super::watched::{Reader, Watched, file};
use crate::source::{Definition, Source, Tick, Unavailable};
use crate::table::{Column, Table};
use steelyard_kernel::{Tree, TreeFile, meminfo};

pub const DEFINITION: Definition = Definition {
    name: "numa",
    about: "memory and where it was allocated from, by NUMA node, from /sys/devices/system/node",
    columns: COLUMNS,
    open,
};

const COLUMNS: &[Column] = &[
    Column::TIME,
    Column::index("node", "number of the node"),
    Column::gauge("free_bytes", "bytes", "unused memory (MemFree)"),
    Column::gauge("used_bytes", "bytes", "used memory (MemUsed)"),
    Column::counter("numa_hit", "pages", "allocated here as intended"),
    Column::counter(
        "numa_miss",
        "pages",
        "allocated here though intended elsewhere",
    ),
    Column::counter(
        "numa_foreign",
        "pages",
        "intended here but allocated elsewhere",
    ),
    Column::counter(
        "interleave_hit",
        "pages",
        "interleaved and allocated here as intended",
    ),
    Column::counter(
        "local_node",
        "pages",
        "allocated here by a task running here",
    ),
    Column::counter(
        "other_node",
        "pages",
        "allocated here by a task running elsewhere",
    ),
];

const STAT_KEYS: [&str; 6] = [
    "numa_hit",
    "numa_miss",
    "numa_foreign",
    "interleave_hit",
    "local_node",
    "other_node",
];

struct Node {
    number: u32,
    meminfo: Option<TreeFile>,
    numastat: Option<TreeFile>,
    places: Places,
}

struct NumaSource {
    nodes: Watched<Node>,
    reader: Reader,
}

fn find(tree: &Tree) -> Vec<Node> {
    tree.numbered("sys/devices/system/node", "node")
        .into_iter()
        .map(|(number, directory)| Node {
            number,
            meminfo: file(tree, &directory, "meminfo"),
            numastat: file(tree, &directory, "numastat"),
            places: Places::default(),
        })
        .filter(|node| node.meminfo.is_some() || node.numastat.is_some())
        .collect()
}

fn open(tree: &Tree) -> Result<Box<dyn Source>, Unavailable> {
    let nodes = Watched::new(tree, find);
    if nodes.is_empty() {
        return Err(Unavailable::new("/sys/devices/system/node has no nodes")
            .enable("use a kernel built with CONFIG_NUMA"));
    }
    Ok(Box::new(NumaSource {
        nodes,
        reader: Reader::default(),
    }))
}

impl Source for NumaSource {
    fn columns(&self) -> Vec<Column> {
        COLUMNS.to_vec()
    }

    fn read(&mut self, tick: &Tick<'_>, table: &mut Table) -> io::Result<()> {
        self.nodes.for_each(tick.now_ns(), |node| {
            let time_ns = tick.now_ns();
            let meminfo = self.reader.text(&mut node.meminfo).map(memory_of);
            let mut counts = [None; STAT_KEYS.len()];
            let numastat = self.reader.text(&mut node.numastat).map(|text| {
                node.places.read(text, &STAT_KEYS, &mut counts, plain);
            });
            if meminfo.is_none() && numastat.is_none() {
                return false;
            }
            table
                .row(time_ns)
                .index(Some(node.number as i32))
                .values(&meminfo.unwrap_or_default())
                .values(&counts);
            true
        });
        Ok(())
    }
}

/// Free and used bytes from a node's meminfo.
pub fn memory_of(text: &[u8]) -> [Option<u64>; 2] {
    ["MemFree", "MemUsed"].map(|field| meminfo::value(text, field))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn nodes_in_the_order_of_their_numbers() {
        let meminfo = "\nNode 10 MemTotal: 9 kB\nNode 10 MemFree: 2 kB\nNode 10 MemUsed: 7 kB\n";
        let mut bench = Bench::new(&[
            ("sys/devices/system/node/node10/meminfo", meminfo),
            (
                "sys/devices/system/node/node2/numastat",
                "numa_hit 1\nnuma_miss 2\nnuma_foreign 3\ninterleave_hit 4\nlocal_node 5\nother_node 6\n",
            ),
            ("sys/devices/system/node/online", "2,10\n"),
        ]);
        bench.open(&DEFINITION).expect("two nodes");
        assert_eq!(
            bench.tick(),
            ["2 - - 1 2 3 4 5 6", "10 2048 7168 - - - - - -"]
        );
        bench.remove("sys/devices/system/node/node2");
        assert_eq!(bench.tick(), ["10 2048 7168 - - - - - -"]);
    }
}
