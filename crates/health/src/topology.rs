//! CPUs, caches and NUMA nodes as far as the check needs them, read below an injectable root.

use std::collections::BTreeSet;
use std::path::Path;

use steelyard_kernel::cgroup::memory_limits;
use steelyard_kernel::numa::{self, Distances};
use steelyard_kernel::{Tree, cpu_list, meminfo, topology};
use steelyard_record::{HealthCache, HealthCpu, HealthMachine, HealthNode};

/// One NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Number.
    pub id: u32,
    /// Usable CPUs of the node, in order.
    pub cpus: Vec<usize>,
    /// Memory, none when the kernel does not report it.
    pub memory_bytes: Option<u64>,
    /// Free memory, none when the kernel does not report it.
    pub free_bytes: Option<u64>,
    /// ACPI distances to every node, in order.
    pub distances: Vec<u32>,
}

/// The machine as far as it decides what is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    /// Processor's name.
    pub cpu_model: Option<String>,
    /// Usable CPUs, in order.
    pub cpus: Vec<HealthCpu>,
    /// NUMA nodes; one without CPUs is memory only.
    pub nodes: Vec<Node>,
    /// Whether the kernel listed the nodes; else one node stands for the whole machine.
    pub has_nodes: bool,
    /// Data and unified caches of the first usable CPU, smallest level first.
    pub caches: Vec<HealthCache>,
    /// What may be allocated: `MemAvailable`, less where a control group allows less.
    pub memory_available_bytes: Option<u64>,
    /// Setting of transparent huge pages.
    pub transparent_huge_pages: Option<String>,
}

impl Topology {
    /// Reads the tree below `root`; `usable` restricts the CPUs (those that this process may use).
    pub fn read(root: &Path, usable: Option<&[usize]>) -> Self {
        let tree = Tree::new(root);
        let mut online = as_indices(&topology::online_cpus(&tree));
        if let Some(usable) = usable {
            online.retain(|cpu| usable.contains(cpu));
            // A kernel that hides /sys still has the CPUs on which this process runs.
            if online.is_empty() {
                online = usable.to_vec();
            }
        }
        let mut nodes = nodes(&tree, &online);
        let has_nodes = !nodes.is_empty();
        if !has_nodes {
            nodes.push(whole_machine(&tree, &online));
        }
        Self {
            cpu_model: model(&tree),
            cpus: online
                .iter()
                .map(|cpu| place(&tree, *cpu, &nodes))
                .collect(),
            caches: online
                .first()
                .map(|cpu| caches(&tree, *cpu))
                .unwrap_or_default(),
            has_nodes,
            nodes,
            memory_available_bytes: available(&tree),
            transparent_huge_pages: thp(&tree),
        }
    }

    /// Numbers of the usable CPUs.
    pub fn cpu_ids(&self) -> Vec<usize> {
        self.cpus.iter().map(|cpu| cpu.id as usize).collect()
    }

    /// Size of the last-level cache of the first usable CPU.
    pub fn last_level_cache_bytes(&self) -> Option<u64> {
        self.caches.last().map(|cache| cache.size_bytes)
    }

    /// Size of all last-level caches that the CPUs of `node` use.
    pub fn node_cache_bytes(&self, node: &Node) -> Option<u64> {
        let of_node = |cpu: &&HealthCpu| node.cpus.contains(&(cpu.id as usize));
        let instances: BTreeSet<Option<u32>> = self
            .cpus
            .iter()
            .filter(of_node)
            .map(|cpu| cpu.last_level_cache)
            .collect();
        Some(self.last_level_cache_bytes()? * instances.len().max(1) as u64)
    }

    /// The record of what was read.
    pub fn record(&self) -> HealthMachine {
        HealthMachine {
            cpu_model: self.cpu_model.clone(),
            usable_cpus: format_list(&self.cpu_ids()),
            cpus: self.cpus.clone(),
            nodes: self
                .nodes
                .iter()
                .map(|node| HealthNode {
                    id: node.id,
                    cpus: format_list(&node.cpus),
                    memory_bytes: node.memory_bytes,
                    memory_free_bytes: node.free_bytes,
                    distances: node.distances.clone(),
                })
                .collect(),
            caches: self.caches.clone(),
            memory_available_bytes: self.memory_available_bytes,
            transparent_huge_pages: self.transparent_huge_pages.clone(),
        }
    }
}

/// CPUs as the kernel lists them.
pub(crate) fn format_list(cpus: &[usize]) -> String {
    let cpus: Vec<u32> = cpus.iter().map(|cpu| *cpu as u32).collect();
    cpu_list::format(&cpus)
}

fn as_indices(cpus: &[u32]) -> Vec<usize> {
    cpus.iter().map(|cpu| *cpu as usize).collect()
}

fn nodes(tree: &Tree, online: &[usize]) -> Vec<Node> {
    let known = numa::Node::all(tree).into_iter();
    known
        .map(|node| {
            let mut cpus = as_indices(&node.cpus);
            cpus.retain(|cpu| online.contains(cpu));
            let distances = Distances::row(tree, node.id);
            Node {
                id: node.id,
                cpus,
                memory_bytes: node.memory_bytes,
                free_bytes: node.free_bytes,
                distances: distances.iter().map(|distance| *distance as u32).collect(),
            }
        })
        .collect()
}

fn whole_machine(tree: &Tree, online: &[usize]) -> Node {
    let memory = tree.text("proc/meminfo").unwrap_or_default();
    Node {
        id: 0,
        cpus: online.to_vec(),
        memory_bytes: meminfo::value(&memory, "MemTotal"),
        free_bytes: meminfo::value(&memory, "MemFree"),
        distances: Vec::new(),
    }
}

fn place(tree: &Tree, cpu: usize, nodes: &[Node]) -> HealthCpu {
    let place = topology::place(tree, cpu as u32);
    let lowest = |members: Option<Vec<u32>>| members?.into_iter().min();
    HealthCpu {
        id: place.id,
        core: lowest(place.siblings),
        last_level_cache: lowest(
            topology::caches(tree, place.id)
                .pop()
                .and_then(|cache| cache.cpus),
        ),
        socket: place.package,
        node: nodes
            .iter()
            .find(|node| node.cpus.contains(&cpu))
            .map(|node| node.id),
    }
}

fn caches(tree: &Tree, cpu: usize) -> Vec<HealthCache> {
    topology::caches(tree, cpu as u32)
        .into_iter()
        .filter_map(|cache| {
            Some(HealthCache {
                level: cache.level,
                size_bytes: cache.size_bytes?,
                line_bytes: cache.line_bytes,
                cpus: cache.cpus.map(|cpus| cpu_list::format(&cpus)),
            })
        })
        .collect()
}

/// A small file as text.
fn text(tree: &Tree, name: &str) -> Option<String> {
    Some(String::from_utf8_lossy(&tree.text(name).ok()?).into_owned())
}

fn model(tree: &Tree) -> Option<String> {
    let text = text(tree, "proc/cpuinfo")?;
    let field = |name: &str| {
        text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    field("model name").or_else(|| field("cpu")).or_else(|| {
        Some(format!(
            "implementer {} part {}",
            field("CPU implementer")?,
            field("CPU part")?
        ))
    })
}

fn thp(tree: &Tree) -> Option<String> {
    let text = text(tree, "sys/kernel/mm/transparent_hugepage/enabled")?;
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// `MemAvailable`, or what the control groups of this process still allow where that is less.
fn available(tree: &Tree) -> Option<u64> {
    let memory = tree.text("proc/meminfo").ok()?;
    let machine =
        meminfo::value(&memory, "MemAvailable").or_else(|| meminfo::value(&memory, "MemFree"))?;
    let limits = memory_limits(tree).into_iter();
    let left = limits.filter_map(|limit| Some(limit.bytes.saturating_sub(limit.used_bytes?)));
    Some(left.fold(machine, u64::min))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        folder
    }

    #[test]
    fn two_nodes_with_threads_and_masks_are_read() {
        let root = tree(&[
            ("sys/devices/system/cpu/online", "0-3\n"),
            (
                "sys/devices/system/cpu/cpu0/topology/thread_siblings_list",
                "0,2",
            ),
            ("sys/devices/system/cpu/cpu2/topology/core_cpus_list", "0,2"),
            (
                "sys/devices/system/cpu/cpu1/topology/thread_siblings",
                "0000000a",
            ),
            (
                "sys/devices/system/cpu/cpu1/topology/physical_package_id",
                "1",
            ),
            (
                "sys/devices/system/cpu/cpu3/topology/physical_package_id",
                "-1",
            ),
            ("sys/devices/system/cpu/cpu0/cache/index0/type", "Data"),
            ("sys/devices/system/cpu/cpu0/cache/index0/level", "1"),
            ("sys/devices/system/cpu/cpu0/cache/index0/size", "32K"),
            (
                "sys/devices/system/cpu/cpu0/cache/index1/type",
                "Instruction",
            ),
            ("sys/devices/system/cpu/cpu0/cache/index1/level", "1"),
            ("sys/devices/system/cpu/cpu0/cache/index2/type", "Unified"),
            ("sys/devices/system/cpu/cpu0/cache/index2/level", "2"),
            ("sys/devices/system/cpu/cpu0/cache/index2/size", "1M"),
            (
                "sys/devices/system/cpu/cpu0/cache/index2/coherency_line_size",
                "64",
            ),
            (
                "sys/devices/system/cpu/cpu0/cache/index2/shared_cpu_map",
                "5",
            ),
            ("sys/devices/system/node/node0/cpulist", "0,2"),
            (
                "sys/devices/system/node/node0/meminfo",
                "Node 0 MemTotal: 8 kB\nNode 0 MemFree: 4 kB",
            ),
            ("sys/devices/system/node/node0/distance", "10 21"),
            ("sys/devices/system/node/node1/cpumap", "0000000a"),
            ("sys/devices/system/node/node10/cpulist", ""),
            ("proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 64 kB\n"),
            ("proc/self/cgroup", "0::/a\n"),
            ("sys/fs/cgroup/a/memory.max", "9000"),
            ("sys/fs/cgroup/a/memory.current", "1000"),
            (
                "sys/kernel/mm/transparent_hugepage/enabled",
                "always [madvise] never",
            ),
            ("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU\n"),
        ]);
        let found = Topology::read(root.path(), None);
        assert_eq!(found.cpu_ids(), [0, 1, 2, 3]);
        assert_eq!(found.cpus[0].core, found.cpus[2].core);
        assert_eq!(
            (found.cpus[1].core, found.cpus[1].socket),
            (Some(1), Some(1))
        );
        assert_eq!((found.cpus[3].socket, found.cpus[3].core), (None, None));
        assert_eq!(found.cpus[0].last_level_cache, Some(0));
        let nodes: Vec<(u32, &[usize])> = found
            .nodes
            .iter()
            .map(|node| (node.id, node.cpus.as_slice()))
            .collect();
        assert_eq!(nodes, [(0, &[0usize, 2][..]), (1, &[1, 3]), (10, &[])]);
        assert_eq!(found.nodes[0].memory_bytes, Some(8192));
        assert_eq!(found.nodes[0].distances, [10, 21]);
        assert_eq!(found.nodes[1].memory_bytes, None);
        let sizes: Vec<u64> = found.caches.iter().map(|cache| cache.size_bytes).collect();
        assert_eq!(sizes, [32 << 10, 1 << 20]);
        assert_eq!(found.caches[1].cpus.as_deref(), Some("0,2"));
        assert_eq!(
            found.memory_available_bytes,
            Some(8000),
            "the control group allows less"
        );
        assert_eq!(found.transparent_huge_pages.as_deref(), Some("madvise"));
        assert_eq!(found.cpu_model.as_deref(), Some("Some CPU"));
        assert_eq!(found.record().usable_cpus, "0-3");
        let confined = Topology::read(root.path(), Some(&[1, 3]));
        assert_eq!(confined.cpu_ids(), [1, 3]);
        assert!(
            confined.nodes[0].cpus.is_empty(),
            "its CPUs may not be used"
        );
    }

    #[test]
    fn an_empty_tree_gives_one_node_of_the_usable_cpus() {
        let root = tree(&[]);
        let found = Topology::read(root.path(), Some(&[4, 5]));
        assert!(!found.has_nodes);
        assert_eq!(found.nodes[0].cpus, [4, 5]);
        assert_eq!(
            (found.last_level_cache_bytes(), found.memory_available_bytes),
            (None, None)
        );
    }
}
