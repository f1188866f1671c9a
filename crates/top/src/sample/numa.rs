//! On which NUMA nodes a process's memory lies, and which of it is local to where the process runs.
//!
//! /proc/PID/numa_maps makes the kernel walk all page tables of a process while it holds its memory map, so
//! that it is read seldom, for few processes, and not at all for very large ones.

use std::collections::HashMap;

use steelyard_kernel::{Tree, cpu_list};

use super::parse;
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
    nodes: usize,
    node_of_cpu: Vec<Option<u32>>,
    pages: HashMap<TaskId, Pages>,
}

#[derive(Debug)]
struct Pages {
    read_ns: u64,
    /// Bytes by node, or why they are not known.
    bytes: Result<Vec<u64>, Reason>,
}

impl Numa {
    /// The nodes of `tree`.
    pub fn new(tree: &Tree) -> Self {
        let nodes = tree.numbered("sys/devices/system/node", "node");
        let mut node_of_cpu = Vec::new();
        if nodes.len() > 1 {
            for (node, directory) in &nodes {
                let text = tree.text(directory.join("cpulist")).unwrap_or_default();
                for cpu in cpu_list::parse(&text).unwrap_or_default() {
                    let cpu = cpu as usize;
                    if node_of_cpu.len() <= cpu {
                        node_of_cpu.resize(cpu + 1, None);
                    }
                    node_of_cpu[cpu] = Some(*node);
                }
            }
        }
        Self {
            tree: tree.clone(),
            nodes: nodes.len(),
            node_of_cpu,
            pages: HashMap::new(),
        }
    }

    /// NUMA node of each CPU; empty where there is one node.
    pub fn node_of_cpu(&self) -> &[Option<u32>] {
        &self.node_of_cpu
    }

    /// Reads the pages of those of `wanted`, the most wanted first, that were not read lately.
    pub fn look<'r>(&mut self, wanted: impl Iterator<Item = &'r Reading>, now_ns: u64) {
        if self.nodes < 2 {
            return;
        }
        self.pages
            .retain(|_, pages| now_ns.saturating_sub(pages.read_ns) < 4 * FRESH_NS);
        let due = wanted.filter(|reading| {
            let known = self.pages.get(&reading.id);
            !reading.who.is_kernel
                && known.is_none_or(|pages| now_ns.saturating_sub(pages.read_ns) >= FRESH_NS)
        });
        for reading in due.take(MOST_A_TICK).collect::<Vec<_>>() {
            let pages = Pages {
                read_ns: now_ns,
                bytes: self.read(reading),
            };
            self.pages.insert(reading.id, pages);
        }
    }

    fn read(&self, reading: &Reading) -> Result<Vec<u64>, Reason> {
        if reading
            .rss_bytes
            .as_ref()
            .is_ok_and(|rss| *rss > LARGEST_BYTES)
        {
            return Err(Reason::Fixed(
                "more than 16 GiB: to look through so much memory would hold the process up",
            ));
        }
        let text = self
            .tree
            .text(format!("proc/{}/numa_maps", reading.id.pid))
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::PermissionDenied => Reason::not_permitted(),
                std::io::ErrorKind::NotFound => Reason::NOT_TOLD,
                _ => Reason::made(format!("numa_maps: {error}")),
            })?;
        let mut bytes = Vec::new();
        parse::numa_maps(&text, &mut bytes);
        Ok(bytes)
    }

    /// The share of a process's memory that lies on the nodes it runs on: the sum over nodes of its share of
    /// CPU time there times its share of memory there.
    pub fn locality(&self, reading: &Reading) -> Figure {
        match self.nodes {
            0 => return Err(Reason::Fixed("/sys/devices/system/node tells of no nodes")),
            1 => return Err(Reason::ONE_NODE),
            _ => {}
        }
        if reading.who.is_kernel {
            return Err(Reason::KERNEL_THREAD);
        }
        let Some(pages) = self.pages.get(&reading.id) else {
            return Err(Reason::Fixed(
                "not looked at yet: the memory of a few busy processes is looked at in turn",
            ));
        };
        let bytes = pages.bytes.as_ref().map_err(Clone::clone)?;
        local_ratio(&reading.nodes, bytes)
    }
}

/// Σ over nodes of the share of CPU time times the share of memory.
fn local_ratio(cpu: &[f64], bytes: &[u64]) -> Figure {
    let memory: f64 = bytes.iter().map(|bytes| *bytes as f64).sum();
    let time: f64 = cpu.iter().sum();
    if memory <= 0.0 {
        return Err(Reason::Fixed("it has no memory on any node"));
    }
    if time <= 0.0 {
        return Err(Reason::DID_NOT_RUN);
    }
    let local: f64 = cpu
        .iter()
        .zip(bytes)
        .map(|(cpu, bytes)| cpu / time * (*bytes as f64 / memory))
        .sum();
    Ok(local)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locality_is_where_time_and_memory_meet() {
        assert_eq!(local_ratio(&[1.0], &[4096, 4096]), Ok(0.5));
        assert_eq!(local_ratio(&[0.5, 0.5], &[4096, 0]), Ok(0.5));
        assert_eq!(local_ratio(&[0.0, 1.0], &[0, 4096]), Ok(1.0));
        assert_eq!(local_ratio(&[1.0], &[0, 4096]), Ok(0.0));
        assert!(local_ratio(&[1.0], &[0]).is_err());
        assert_eq!(local_ratio(&[], &[1]), Err(Reason::DID_NOT_RUN));
    }
}
