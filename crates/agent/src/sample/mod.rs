//! Samples of tasks and of the machine: what happened in one window.
//!
//! In: the tasks, their control groups, events, telemetry and /proc. Out: `task_samples` and `machine_samples` rows.
//!
//! Invariants: each row's window is that between its own two readings; what only one of them has is missing; a task
//! that ended or was started anew within the window has no row.

pub mod counting;
mod group;
mod locality;
pub mod machine;
pub mod prometheus;
mod telemetry;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use steelyard_kernel::Tree;
use steelyard_probe::numa::CpuWatch;

use self::counting::{Counted, Counting};
use self::group::GroupReading;
use self::locality::Locality;
use self::machine::{MachineReading, Machines};
use self::telemetry::{Operations, Telemetry};
use crate::config::TelemetryConfig;
use crate::identity::first_pid;
use crate::rows::{
    CPI_OF_CORE_CYCLES, CPI_OF_COUNTERS, CPI_OF_OPERATIONS, MachineSample, Task, TaskSample,
};
use steelyard_kernel::cgroup::Hierarchies;

/// Below this much CPU time in a window, CPI is noise (one tick of most clocks).
const LEAST_CPU_S: f64 = 0.001;

/// Takes samples.
pub struct Sampler {
    tree: Tree,
    hierarchies: Hierarchies,
    counting: Counting,
    telemetry: Telemetry,
    machines: Machines,
    locality: Locality,
    clock: fn() -> u64,
}

/// A window that has begun.
pub struct Window {
    start_unix_s: i64,
    tasks: Vec<Begun>,
    machine: MachineReading,
}

struct Begun {
    task: Arc<Task>,
    group: GroupReading,
    operations: Operations,
    network: Option<Network>,
    cpu: Option<CpuWatch>,
}

/// A task's own network, which it shares with no other.
struct Network {
    pid: u32,
    bytes: u64,
}

/// The rows of a window.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples {
    /// A row for each task.
    pub tasks: Vec<TaskSample>,
    /// The machine's; None where it could not be read.
    pub machine: Option<MachineSample>,
}

impl Sampler {
    /// A sampler of `tree`, with the monotonic clock that readings are timed by.
    pub fn new(
        tree: &Tree,
        hierarchies: Hierarchies,
        counters: bool,
        telemetry: Vec<TelemetryConfig>,
        clock: fn() -> u64,
    ) -> Self {
        Self {
            tree: tree.clone(),
            hierarchies,
            counting: Counting::new(tree, counters),
            telemetry: Telemetry::new(telemetry),
            machines: Machines::new(tree),
            locality: Locality::new(tree),
            clock,
        }
    }

    /// Begins a window for `tasks`.
    pub fn begin(&mut self, tasks: &[Arc<Task>], start_unix_s: i64) -> Window {
        let paths: Vec<&str> = tasks.iter().map(|task| task.cgroup.as_str()).collect();
        self.counting.begin(&paths);
        let mut networks = self.networks(tasks);
        let mut begun = Vec::with_capacity(tasks.len());
        for task in tasks {
            begun.push(Begun {
                operations: self.telemetry.read(task, &self.clock),
                network: networks.remove(task.cgroup.as_str()),
                cpu: self.locality.begin(&task.cgroup),
                group: group::read(&self.tree, &self.hierarchies, &task.cgroup, &self.clock),
                task: Arc::clone(task),
            });
        }
        Window {
            start_unix_s,
            tasks: begun,
            machine: self.machines.read(&self.clock),
        }
    }

    /// Ends it.
    pub fn end(&mut self, window: Window) -> Samples {
        let machine = self.machines.read(&self.clock);
        let mut tasks = Vec::with_capacity(window.tasks.len());
        let mut ended = Vec::with_capacity(window.tasks.len());
        for begun in window.tasks {
            let group = group::read(
                &self.tree,
                &self.hierarchies,
                &begun.task.cgroup,
                &self.clock,
            );
            ended.push((begun, group));
        }
        let counted = self.counting.end();
        let whole = counted.get("").copied().unwrap_or_default();
        let machine_sample =
            self.machines
                .sample(&window.machine, &machine, window.start_unix_s, &whole);
        let machine_cpu_ratio = machine_sample
            .as_ref()
            .map(|sample| sample.cpu_s / (sample.window_s * sample.threads as f64))
            .filter(|ratio| ratio.is_finite())
            .map(|ratio| ratio.clamp(0.0, 1.0));
        for (mut begun, group) in ended {
            let operations = self.telemetry.read(&begun.task, &self.clock);
            let counted = counted.get(&begun.task.cgroup).copied().unwrap_or_default();
            let network = begun.network.as_ref().and_then(|network| {
                let text = self
                    .tree
                    .text(format!("proc/{}/net/dev", network.pid))
                    .ok()?;
                group::network_bytes(&text)?.checked_sub(network.bytes)
            });
            let sample = self.row(
                &mut begun,
                &group,
                &operations,
                counted,
                window.start_unix_s,
            );
            tasks.extend(sample.map(|sample| TaskSample {
                network_bytes: network.map(|bytes| bytes as f64),
                machine_cpu_ratio,
                ..sample
            }));
        }
        Samples {
            tasks,
            machine: machine_sample,
        }
    }

    fn row(
        &self,
        begun: &mut Begun,
        now: &GroupReading,
        operations: &Operations,
        counted: Counted,
        start: i64,
    ) -> Option<TaskSample> {
        let then = &begun.group;
        let window_s = now.time_ns.checked_sub(then.time_ns)? as f64 / 1e9;
        // A counter that went backwards is that of another group of the same name.
        let cpu_s = now.cpu_ns?.checked_sub(then.cpu_ns?)? as f64 / 1e9;
        if window_s <= 0.0 {
            return None;
        }
        let more = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?);
        let local = self
            .locality
            .end(begun.cpu.as_mut(), &begun.task.cgroup, cpu_s);
        let between = operations.since(&begun.operations, window_s);
        let (cpi, cpi_source) = cpi(cpu_s, &counted, between.operations);
        let mean = |now: Option<u64>, then: Option<u64>| Some((now? as f64 + then? as f64) / 2.0);
        Some(TaskSample {
            task: Arc::clone(&begun.task),
            window_start_unix_s: start,
            window_s,
            cpu_s,
            reference_cycles: counted.reference_cycles,
            instructions: counted.instructions,
            cpi,
            cpi_source: cpi_source.map(str::to_owned),
            llc_misses: counted.llc_misses,
            context_switches: counted.context_switches,
            page_faults: more(now.page_faults, then.page_faults)
                .and_then(|count| i64::try_from(count).ok()),
            memory_bytes: mean(now.resident_bytes, then.resident_bytes),
            storage_bytes: more(now.storage_bytes, then.storage_bytes).map(|bytes| bytes as f64),
            network_bytes: None,
            cpu_s_per_node: local.cpu_s_per_node,
            pages_per_node: local.pages_per_node,
            numa_score: local.score,
            operations: between.operations,
            latency_mean_s: between.latency_mean_s,
            latency_p99_s: between.latency_p99_s,
            machine_cpu_ratio: None,
        })
    }

    /// The networks of those tasks that have one of their own, by group. A namespace that two tasks share (containers of
    /// a pod), or that is the agent's, is counted for neither.
    fn networks<'t>(&self, tasks: &'t [Arc<Task>]) -> HashMap<&'t str, Network> {
        let Some(root) = self.hierarchies.cpu_root() else {
            return HashMap::new();
        };
        let namespace =
            |pid: &str| std::fs::read_link(self.tree.path(format!("proc/{pid}/ns/net"))).ok();
        let own = namespace("self");
        let mut by_namespace: BTreeMap<std::path::PathBuf, Vec<(&str, u32)>> = BTreeMap::new();
        for task in tasks {
            let folder = root.join(task.cgroup.trim_start_matches('/'));
            let Some(pid) = first_pid(&self.tree, &folder, 8) else {
                continue;
            };
            if let Some(found) =
                namespace(&pid.to_string()).filter(|found| Some(found) != own.as_ref())
            {
                by_namespace
                    .entry(found)
                    .or_default()
                    .push((&task.cgroup, pid));
            }
        }
        let alone = by_namespace
            .into_values()
            .filter(|users| users.len() == 1 && own.is_some());
        let networks = alone.filter_map(|users| {
            let (cgroup, pid) = users[0];
            let text = self.tree.text(format!("proc/{pid}/net/dev")).ok()?;
            let bytes = group::network_bytes(&text)?;
            Some((cgroup, Network { pid, bytes }))
        });
        networks.collect()
    }

    /// Why events are not counted, by event.
    pub fn missing(&self) -> &BTreeMap<String, String> {
        &self.counting.missing
    }

    /// Why there are no figures by NUMA node.
    pub fn missing_nodes(&self) -> Option<&str> {
        self.locality.missing()
    }

    /// Pages of telemetry that could not be read so far.
    pub fn telemetry_failures(&self) -> u64 {
        self.telemetry.failures
    }

    /// What the machine is.
    pub fn machines(&self) -> &Machines {
        &self.machines
    }
}

/// Cycles per instruction; where they are not counted, CPU time per operation; else nothing.
fn cpi(
    cpu_s: f64,
    counted: &Counted,
    operations: Option<f64>,
) -> (Option<f64>, Option<&'static str>) {
    if cpu_s < LEAST_CPU_S {
        return (None, None);
    }
    for (cycles, source) in [
        (counted.reference_cycles, CPI_OF_COUNTERS),
        (counted.core_cycles, CPI_OF_CORE_CYCLES),
    ] {
        if let (Some(cycles @ 1..), Some(instructions @ 1..)) = (cycles, counted.instructions) {
            return (Some(cycles as f64 / instructions as f64), Some(source));
        }
    }
    match operations {
        Some(operations) if operations > 0.0 => (Some(cpu_s / operations), Some(CPI_OF_OPERATIONS)),
        _ => (None, None),
    }
}

#[cfg(test)]
mod tests;
