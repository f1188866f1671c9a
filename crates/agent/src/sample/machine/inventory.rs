//! What a machine is: CPU, topology, memory, network.

use std::collections::{BTreeMap, BTreeSet};

use steelyard_kernel::numa::{Distances, Node};
use steelyard_kernel::scan::number;
use steelyard_kernel::topology::{place, present_cpus};
use steelyard_kernel::{Tree, meminfo};

use crate::config::MachineLimits;
use crate::identity::rules::clean;
use crate::rows::{Labels, Machine};

/// Which logical CPU is on which core, socket and node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Topology {
    /// Online CPUs with socket, die and core; empty where the kernel does not report it.
    places: BTreeMap<u32, (u32, u32, u32)>,
    nodes: Option<usize>,
    distances: Option<Vec<f64>>,
}

impl Topology {
    /// The topology of `tree`.
    pub fn of(tree: &Tree) -> Self {
        let cpus = present_cpus(tree).into_iter().map(|cpu| place(tree, cpu));
        let places =
            cpus.filter_map(|cpu| Some((cpu.id, (cpu.package?, cpu.die.unwrap_or(0), cpu.core?))));
        let nodes: Vec<u32> = Node::all(tree).iter().map(|node| node.id).collect();
        let distances = Distances::slit(tree, &nodes).ok();
        Self {
            places: places.collect(),
            nodes: (!nodes.is_empty()).then_some(nodes.len()),
            distances: distances.map(|distances| distances.rows().to_vec()),
        }
    }

    /// Cores online.
    pub fn cores(&self) -> Option<usize> {
        let cores: BTreeSet<_> = self.places.values().collect();
        (!cores.is_empty()).then_some(cores.len())
    }

    fn sockets(&self) -> Option<usize> {
        let sockets: BTreeSet<u32> = self.places.values().map(|place| place.0).collect();
        (!sockets.is_empty()).then_some(sockets.len())
    }

    /// The first logical CPU of each core.
    pub fn first_threads(&self) -> impl Iterator<Item = u32> {
        let mut seen = BTreeSet::new();
        self.places
            .iter()
            .filter_map(move |(cpu, place)| seen.insert(place).then_some(*cpu))
    }
}

/// The values of /proc/cpuinfo's first processor.
fn cpu_info(tree: &Tree) -> BTreeMap<String, String> {
    let text = tree.text("proc/cpuinfo").unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let first = text.lines().take_while(|line| !line.trim().is_empty());
    let pairs = first.filter_map(|line| line.split_once(':'));
    pairs
        .map(|(key, value)| {
            (
                key.trim().to_owned(),
                value.split_whitespace().collect::<Vec<_>>().join(" "),
            )
        })
        .collect()
}

/// The kind of CPU where the configuration names none: the model's name, or implementer and part.
pub fn platform_of(tree: &Tree) -> String {
    let info = cpu_info(tree);
    let named = info
        .get("model name")
        .or_else(|| info.get("cpu model"))
        .or_else(|| info.get("cpu"));
    if let Some(name) = named.filter(|name| !name.is_empty()) {
        return clean(name);
    }
    match (info.get("CPU implementer"), info.get("CPU part")) {
        (Some(implementer), Some(part)) => clean(&format!("implementer {implementer} part {part}")),
        _ => "unknown".to_owned(),
    }
}

/// The row of `machines`, as of `seen_unix_s`.
pub fn inventory(
    tree: &Tree,
    topology: &Topology,
    limits: &MachineLimits,
    labels: &Labels,
    seen_unix_s: i64,
) -> Machine {
    let info = cpu_info(tree);
    let small = |path: &str| tree.text(path).ok().and_then(|text| number(&text));
    let hz = |path: &str| small(path).map(|khz| khz as f64 * 1e3);
    let cpufreq = "sys/devices/system/cpu/cpu0/cpufreq";
    let model = info.get("model name").map(|name| clean(name));
    let nominal =
        hz(&format!("{cpufreq}/base_frequency")).or_else(|| model.as_deref().and_then(nominal_hz));
    let threads = topology.places.len();
    let cores = topology.cores();
    let kernel = tree.text("proc/sys/kernel/osrelease").ok();
    let memory = tree
        .text("proc/meminfo")
        .ok()
        .and_then(|text| i64::try_from(meminfo::value(&text, "MemTotal")?).ok());
    Machine {
        seen_unix_s,
        vendor: info
            .get("vendor_id")
            .or_else(|| info.get("CPU implementer"))
            .map(|name| clean(name)),
        cpu_model: model,
        sockets: topology.sockets().map(|count| count as i64),
        cores: cores.map(|count| count as i64),
        threads: (threads > 0).then_some(threads as i64),
        numa_nodes: topology.nodes.map(|count| count as i64),
        smt_on: cores.map(|cores| threads > cores),
        memory_bytes: memory,
        nominal_frequency_hz: nominal,
        max_frequency_hz: hz(&format!("{cpufreq}/cpuinfo_max_freq")),
        memory_bandwidth_limit_bytes_per_s: limits.memory_bandwidth_bytes_per_s,
        disk_limit_bytes_per_s: limits.disk_bytes_per_s,
        network_limit_bytes_per_s: limits.network_bytes_per_s.or_else(|| network_limit(tree)),
        node_distances: topology.distances.clone(),
        kernel: kernel
            .map(|text| clean(&String::from_utf8_lossy(&text)))
            .filter(|text| !text.is_empty()),
        labels: labels.clone(),
    }
}

/// The frequency in a model's name: `... @ 2.10GHz`.
fn nominal_hz(model: &str) -> Option<f64> {
    let (_, text) = model.rsplit_once('@')?;
    let ghz: f64 = text.trim().strip_suffix("GHz")?.trim().parse().ok()?;
    (ghz > 0.0 && ghz < 100.0).then_some((ghz * 1e9).round())
}

/// The speeds of the interfaces that are hardware and up, bytes/s.
fn network_limit(tree: &Tree) -> Option<f64> {
    let interfaces = tree.names("sys/class/net");
    let hardware = interfaces
        .iter()
        .filter(|name| tree.path(format!("sys/class/net/{name}/device")).exists());
    // A speed that is not known is -1, or cannot be read.
    let speeds = hardware.filter_map(|name| {
        tree.text(format!("sys/class/net/{name}/speed"))
            .ok()
            .and_then(|text| number(&text))
    });
    let sum: u64 = speeds.filter(|speed| *speed < 10_000_000).sum();
    (sum > 0).then_some(sum as f64 * 1e6 / 8.0)
}
