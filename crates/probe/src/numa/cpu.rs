//! CPU time of tasks by node over a window.
//!
//! A control group of version 1 with the cpuacct controller has the kernel's own count of each CPU, which is exact.
//! Anything else is looked at a few times in the window: a thread's CPU time since the look before counts for the node
//! of the CPU that it ran on last. That is exact for a thread that stays on its node and errs by what a thread does
//! on other nodes between two looks; `docs/journal/0150` says by how much. A thread that ends between two looks takes what it ran
//! since the last one with it.

use std::collections::HashSet;

use steelyard_kernel::numa::{Missing, Nodes, add};
use steelyard_kernel::{Tree, TreeFile, cpu_list};

use super::groups::{self, GroupFolders};
use super::process::{Context, Keeper, ProcessCpu};

/// Adds up CPU time of CPUs, ns in the order of their numbers, as seconds by node.
pub fn cpu_seconds_per_node(
    ns_of_cpu: impl IntoIterator<Item = (u32, u64)>,
    nodes: &Nodes,
) -> Vec<f64> {
    let mut sums = vec![0u64; nodes.len()];
    for (cpu, ns) in ns_of_cpu {
        if let Some(position) = nodes.position_of_cpu(u64::from(cpu)) {
            add(&mut sums, position, ns);
        }
    }
    seconds(&sums)
}

fn seconds(ns: &[u64]) -> Vec<f64> {
    ns.iter().map(|ns| *ns as f64 / 1e9).collect()
}

/// The CPU time of a control group, or of processes, by node since it was opened or last asked.
pub struct CpuWatch {
    tree: Tree,
    nodes: Nodes,
    keeper: Keeper,
    buffer: Vec<u8>,
    how: How,
}

enum How {
    /// The kernel's count of each CPU.
    PerCpu {
        file: TreeFile,
        /// Numbers of the CPUs in the order of the counts.
        cpus: Vec<u32>,
        begin_ns: Vec<u64>,
        now_ns: Vec<u64>,
    },
    /// Looks at threads.
    Threads {
        /// Where members are found, None when processes were named.
        group: Option<GroupFolders>,
        processes: Vec<ProcessCpu>,
    },
}

impl CpuWatch {
    /// Watches the group at `path` and those below; see [`GroupFolders::find`].
    pub fn of_cgroup(tree: &Tree, nodes: &Nodes, path: &str) -> Result<Self, Missing> {
        let keeper = Keeper::new(KEPT_FILES);
        Self::of_folders(tree, nodes, GroupFolders::find(tree, path)?, &keeper)
    }

    /// Watches these processes.
    pub fn of_processes(tree: &Tree, nodes: &Nodes, pids: &[u32]) -> Self {
        let how = How::Threads {
            group: None,
            processes: Vec::new(),
        };
        let mut watch = Self::made(tree, nodes, &Keeper::new(KEPT_FILES), how);
        watch.meet(pids, false);
        watch
    }

    fn made(tree: &Tree, nodes: &Nodes, keeper: &Keeper, how: How) -> Self {
        Self {
            tree: tree.clone(),
            nodes: nodes.clone(),
            keeper: keeper.clone(),
            buffer: Vec::new(),
            how,
        }
    }

    pub(super) fn of_folders(
        tree: &Tree,
        nodes: &Nodes,
        folders: GroupFolders,
        keeper: &Keeper,
    ) -> Result<Self, Missing> {
        if let Some(folder) = &folders.cpuacct
            && let Ok(mut file) = tree.file(folder.join("cpuacct.usage_percpu"))
            && let Ok(text) = file.read(&mut Vec::new(), false)
        {
            let begin_ns = groups::parse_usage_percpu(text);
            let how = How::PerCpu {
                cpus: possible_cpus(tree, begin_ns.len()),
                file,
                now_ns: begin_ns.clone(),
                begin_ns,
            };
            return Ok(Self::made(tree, nodes, keeper, how));
        }
        if folders.members.is_none() {
            return Err(Missing::NO_GROUP);
        }
        let pids = folders.processes(tree);
        let how = How::Threads {
            group: Some(folders),
            processes: Vec::new(),
        };
        let mut watch = Self::made(tree, nodes, keeper, how);
        watch.meet(&pids, false);
        Ok(watch)
    }

    /// Whether looks within the window make it better.
    pub fn wants_looks(&self) -> bool {
        matches!(self.how, How::Threads { .. })
    }

    /// Where the CPU time comes from, in words.
    pub fn source(&self) -> &'static str {
        match self.how {
            How::PerCpu { .. } => "cpuacct.usage_percpu",
            How::Threads { .. } => "last CPU of each thread at each look",
        }
    }

    /// Begins a window.
    pub fn begin(&mut self) {
        self.look();
        match &mut self.how {
            How::PerCpu {
                begin_ns, now_ns, ..
            } => begin_ns.clone_from(now_ns),
            How::Threads { processes, .. } => {
                processes.retain(|process| !process.has_ended);
                for process in processes {
                    process.reset();
                }
            }
        }
    }

    /// Counts what ran since the look before.
    pub fn look(&mut self) {
        let members = match &mut self.how {
            How::PerCpu { file, now_ns, .. } => {
                // Not readable any more: the group has gone, and what was read before stands.
                if let Ok(text) = file.read(&mut self.buffer, false) {
                    *now_ns = groups::parse_usage_percpu(text);
                }
                return;
            }
            How::Threads { group, processes } => {
                let mut context = Context {
                    tree: &self.tree,
                    nodes: &self.nodes,
                    keeper: &self.keeper,
                    buffer: &mut self.buffer,
                };
                for process in processes.iter_mut() {
                    process.look(&mut context);
                }
                group.as_ref().map(|group| group.processes(&self.tree))
            }
        };
        if let Some(members) = members {
            self.meet(&members, true);
        }
    }

    /// Watches those of `pids` that are new; with `count`, what they ran so far counts: they were born meanwhile.
    fn meet(&mut self, pids: &[u32], count: bool) {
        let How::Threads { processes, .. } = &mut self.how else {
            return;
        };
        let mut context = Context {
            tree: &self.tree,
            nodes: &self.nodes,
            keeper: &self.keeper,
            buffer: &mut self.buffer,
        };
        let known: HashSet<u32> = processes
            .iter()
            .filter(|process| !process.has_ended)
            .map(ProcessCpu::pid)
            .collect();
        for pid in pids.iter().filter(|pid| !known.contains(pid)) {
            // One that has ended, or may not be looked at, has no time to add.
            if let Ok(mut process) = ProcessCpu::start(&mut context, *pid) {
                if count {
                    process.count_lifetime(&mut context);
                }
                processes.push(process);
            }
        }
    }

    /// CPU time by node since the group was made, or since its threads began, as if each had always run where it ran
    /// last; seconds.
    pub(super) fn lifetime_seconds_per_node(&mut self) -> Vec<f64> {
        match &mut self.how {
            How::PerCpu { cpus, now_ns, .. } => {
                let spent = cpus.iter().zip(now_ns.iter());
                cpu_seconds_per_node(spent.map(|(cpu, ns)| (*cpu, *ns)), &self.nodes)
            }
            How::Threads { processes, .. } => {
                let mut context = Context {
                    tree: &self.tree,
                    nodes: &self.nodes,
                    keeper: &self.keeper,
                    buffer: &mut self.buffer,
                };
                let mut sums = vec![0u64; self.nodes.len()];
                for process in processes {
                    for (position, ns) in process.lifetime_ns(&mut context).iter().enumerate() {
                        add(&mut sums, position, *ns);
                    }
                }
                seconds(&sums)
            }
        }
    }

    /// CPU time by node since the window began, as of the look before, seconds, in the order of the machine's nodes.
    pub fn cpu_seconds_per_node(&self) -> Vec<f64> {
        match &self.how {
            How::PerCpu {
                cpus,
                begin_ns,
                now_ns,
                ..
            } => {
                let spent = cpus.iter().zip(now_ns.iter().zip(begin_ns));
                cpu_seconds_per_node(
                    spent.map(|(cpu, (now, begin))| (*cpu, now.saturating_sub(*begin))),
                    &self.nodes,
                )
            }
            How::Threads { processes, .. } => {
                let mut sums = vec![0u64; self.nodes.len()];
                for process in processes {
                    for (position, ns) in process.window_ns().iter().enumerate() {
                        add(&mut sums, position, *ns);
                    }
                }
                seconds(&sums)
            }
        }
    }
}

/// Files that a watch of one group keeps open.
const KEPT_FILES: usize = 256;

/// The counts of a group are of possible CPUs, which may have gaps on machines with room for more.
fn possible_cpus(tree: &Tree, count: usize) -> Vec<u32> {
    let listed = tree
        .text("sys/devices/system/cpu/possible")
        .ok()
        .and_then(|text| cpu_list::parse(&text))
        .unwrap_or_default();
    if listed.len() == count {
        listed
    } else {
        (0..count as u32).collect()
    }
}
