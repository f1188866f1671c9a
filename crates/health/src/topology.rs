//! CPUs, caches and NUMA nodes as far as the check needs them, read below an injectable root.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::notation::{format_list, meminfo, parse_list, parse_mask, parse_size};
use steelyard_record::{
    FILE_BYTES_MAX, HealthCache, HealthCpu, HealthMachine, HealthNode, read_file,
};

const CPU: &str = "sys/devices/system/cpu";
const NODE: &str = "sys/devices/system/node";

/// One NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Number.
    pub id: u32,
    /// Usable CPUs of the node, in order.
    pub cpus: Vec<usize>,
    /// Memory, none when the kernel does not tell it.
    pub memory_bytes: Option<u64>,
    /// Free memory, none when the kernel does not tell it.
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
    /// Whether the kernel told the nodes; else the one node stands for the whole machine.
    pub has_nodes: bool,
    /// Data and unified caches of the first usable CPU, smallest level first.
    pub caches: Vec<HealthCache>,
    /// What may be allocated: `MemAvailable`, less where a control group allows less.
    pub memory_available_bytes: Option<u64>,
    /// Setting of transparent huge pages.
    pub transparent_huge_pages: Option<String>,
}

struct Tree(PathBuf);

impl Tree {
    fn text(&self, name: &str) -> Option<String> {
        let text = read_file(&self.0.join(name), FILE_BYTES_MAX).ok()?;
        let text = String::from_utf8_lossy(&text);
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// The CPUs of a list file, else of a mask file.
    fn members(&self, base: &str, lists: &[&str], masks: &[&str]) -> Option<Vec<usize>> {
        for list in lists {
            if let Some(text) = self.text(&format!("{base}/{list}")) {
                return Some(parse_list(&text));
            }
        }
        masks
            .iter()
            .find_map(|mask| Some(parse_mask(&self.text(&format!("{base}/{mask}"))?)))
    }

    /// Names below `folder` that are `prefix` and a number, by number.
    fn numbered(&self, folder: &str, prefix: &str) -> Vec<usize> {
        let found: BTreeSet<usize> = fs::read_dir(self.0.join(folder))
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let name = entry.ok()?.file_name();
                name.to_str()?.strip_prefix(prefix)?.parse().ok()
            })
            .collect();
        found.into_iter().collect()
    }
}

impl Topology {
    /// Reads the tree below `root`; `usable` restricts the CPUs (those that this process may use).
    pub fn read(root: &Path, usable: Option<&[usize]>) -> Self {
        let tree = Tree(root.to_owned());
        let mut online = tree
            .text(&format!("{CPU}/online"))
            .map(|text| parse_list(&text))
            .unwrap_or_else(|| tree.numbered(CPU, "cpu"));
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

fn nodes(tree: &Tree, online: &[usize]) -> Vec<Node> {
    tree.numbered(NODE, "node")
        .into_iter()
        .map(|id| {
            let base = format!("{NODE}/node{id}");
            let mut cpus = tree
                .members(&base, &["cpulist"], &["cpumap"])
                .unwrap_or_default();
            cpus.retain(|cpu| online.contains(cpu));
            let memory = tree.text(&format!("{base}/meminfo")).unwrap_or_default();
            let distances = tree.text(&format!("{base}/distance")).unwrap_or_default();
            Node {
                id: id as u32,
                cpus,
                memory_bytes: meminfo(&memory, "MemTotal:"),
                free_bytes: meminfo(&memory, "MemFree:"),
                distances: distances
                    .split_whitespace()
                    .filter_map(|word| word.parse().ok())
                    .collect(),
            }
        })
        .collect()
}

fn whole_machine(tree: &Tree, online: &[usize]) -> Node {
    let memory = tree.text("proc/meminfo").unwrap_or_default();
    Node {
        id: 0,
        cpus: online.to_vec(),
        memory_bytes: meminfo(&memory, "MemTotal:"),
        free_bytes: meminfo(&memory, "MemFree:"),
        distances: Vec::new(),
    }
}

fn place(tree: &Tree, cpu: usize, nodes: &[Node]) -> HealthCpu {
    let base = format!("{CPU}/cpu{cpu}");
    let topology = format!("{base}/topology");
    let lowest = |members: Option<Vec<usize>>| members?.first().map(|cpu| *cpu as u32);
    let core = lowest(tree.members(
        &topology,
        &["core_cpus_list", "thread_siblings_list"],
        &["core_cpus", "thread_siblings"],
    ));
    let last = cache_indices(tree, cpu).pop();
    let last_level_cache = last.and_then(|(_, index)| {
        let index = format!("{base}/cache/index{index}");
        lowest(tree.members(&index, &["shared_cpu_list"], &["shared_cpu_map"]))
    });
    HealthCpu {
        id: cpu as u32,
        core,
        last_level_cache,
        // Kernels of some guests answer -1 for "not known", which is no number here.
        socket: tree
            .number(&format!("{topology}/physical_package_id"))
            .map(|socket| socket as u32),
        node: nodes
            .iter()
            .find(|node| node.cpus.contains(&cpu))
            .map(|node| node.id),
    }
}

/// (level, index) of the data and unified caches of a CPU, lowest level first.
fn cache_indices(tree: &Tree, cpu: usize) -> Vec<(u64, usize)> {
    let base = format!("{CPU}/cpu{cpu}/cache");
    let mut found: Vec<(u64, usize)> = tree
        .numbered(&base, "index")
        .into_iter()
        .filter_map(|index| {
            let kind = tree.text(&format!("{base}/index{index}/type"))?;
            let level = tree.number(&format!("{base}/index{index}/level"))?;
            (kind != "Instruction").then_some((level, index))
        })
        .collect();
    found.sort_unstable();
    found
}

fn caches(tree: &Tree, cpu: usize) -> Vec<HealthCache> {
    cache_indices(tree, cpu)
        .into_iter()
        .filter_map(|(level, index)| {
            let base = format!("{CPU}/cpu{cpu}/cache/index{index}");
            Some(HealthCache {
                level: level as u32,
                size_bytes: parse_size(&tree.text(&format!("{base}/size"))?)?,
                line_bytes: tree.number(&format!("{base}/coherency_line_size")),
                cpus: tree
                    .members(&base, &["shared_cpu_list"], &["shared_cpu_map"])
                    .map(|cpus| format_list(&cpus)),
            })
        })
        .collect()
}

fn model(tree: &Tree) -> Option<String> {
    let text = tree.text("proc/cpuinfo")?;
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
    let text = tree.text("sys/kernel/mm/transparent_hugepage/enabled")?;
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// `MemAvailable`, or what the control group of this process still allows where that is less.
fn available(tree: &Tree) -> Option<u64> {
    let memory = tree.text("proc/meminfo")?;
    let machine = meminfo(&memory, "MemAvailable:").or_else(|| meminfo(&memory, "MemFree:"))?;
    let groups = tree.text("proc/self/cgroup").unwrap_or_default();
    let left = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let (base, limit, usage) = if controllers.is_empty() {
            ("sys/fs/cgroup", "memory.max", "memory.current")
        } else if controllers.split(',').any(|name| name == "memory") {
            (
                "sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
            )
        } else {
            return None;
        };
        let limit = tree.number(&format!("{base}{path}/{limit}"))?;
        let used = tree.number(&format!("{base}{path}/{usage}"))?;
        Some(limit.saturating_sub(used))
    });
    Some(left.fold(machine, u64::min))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
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
