//! How near a process's memory is to where the process runs: the NUMA score of `steelyard_probe::numa`.
//!
//! /proc/PID/numa_maps makes the kernel walk all page tables of a process while it holds its memory map, so
//! that it is read seldom, for few processes, and not at all for very large ones.

use std::collections::HashMap;

use steelyard_kernel::Tree;
use steelyard_kernel::numa::{DistanceChoice, Missing, Nodes, Pages, read_pages_of_process};
use steelyard_probe::numa::Placement;

use super::reading::{Reading, TaskId};
use crate::{Figure, Reason};

/// How long pages count as they were read, ns.
const FRESH_NS: u64 = 10_000_000_000;
/// Processes whose pages are read at one tick.
const MOST_A_TICK: usize = 4;
/// Resident memory above which a walk would hold the process up, bytes.
const LARGEST_BYTES: u64 = 16 << 30;

/// NUMA nodes of the machine, and pages of processes.
#[derive(Debug)]
pub struct Numa {
    tree: Tree,
    nodes: Result<Nodes, Reason>,
    pages: HashMap<TaskId, Known>,
}

#[derive(Debug)]
struct Known {
    read_ns: u64,
    pages: Result<Pages, Reason>,
}

impl Numa {
    /// The nodes of `tree`.
    pub fn new(tree: &Tree) -> Self {
        Self {
            tree: tree.clone(),
            nodes: Nodes::read(tree, &DistanceChoice::Slit).map_err(reason),
            pages: HashMap::new(),
        }
    }

    /// The nodes, where there are several.
    pub fn nodes(&self) -> Option<&Nodes> {
        self.nodes.as_ref().ok().filter(|nodes| nodes.len() > 1)
    }

    /// Reads the pages of those of `wanted`, the most wanted first, that were not read lately.
    pub fn look<'r>(&mut self, wanted: impl Iterator<Item = &'r Reading>, now_ns: u64) {
        if self.nodes().is_none() {
            return;
        }
        self.pages
            .retain(|_, known| now_ns.saturating_sub(known.read_ns) < 4 * FRESH_NS);
        let due = wanted.filter(|reading| {
            let known = self.pages.get(&reading.id);
            !reading.who.is_kernel
                && known.is_none_or(|known| now_ns.saturating_sub(known.read_ns) >= FRESH_NS)
        });
        for reading in due.take(MOST_A_TICK).collect::<Vec<_>>() {
            let known = Known {
                read_ns: now_ns,
                pages: self.read(reading),
            };
            self.pages.insert(reading.id, known);
        }
    }

    fn read(&self, reading: &Reading) -> Result<Pages, Reason> {
        let nodes = self.nodes.as_ref().map_err(Clone::clone)?;
        if reading
            .rss_bytes
            .as_ref()
            .is_ok_and(|rss| *rss > LARGEST_BYTES)
        {
            return Err(Reason::Fixed(
                "more than 16 GiB: reading its nodes would delay the process",
            ));
        }
        read_pages_of_process(&self.tree, nodes, reading.id.pid).map_err(reason)
    }

    /// The score of a process; a reason on a machine with one node, where it is always 1.
    pub fn score(&self, reading: &Reading) -> Figure {
        let nodes = self.nodes.as_ref().map_err(Clone::clone)?;
        if nodes.len() == 1 {
            return Err(Reason::ONE_NODE);
        }
        if reading.who.is_kernel {
            return Err(Reason::KERNEL_THREAD);
        }
        let Some(known) = self.pages.get(&reading.id) else {
            return Err(Reason::Fixed(
                "not read yet: the memory of a few busy processes is read in turn",
            ));
        };
        let placement = Placement {
            cpu_seconds_per_node: reading.nodes.clone(),
            pages: known.pages.clone()?,
        };
        placement.score(nodes.distances()).map_err(reason)
    }
}

fn reason(missing: Missing) -> Reason {
    Reason::made(missing.to_string())
}
