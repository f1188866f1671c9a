//! Scores of many processes or groups, window after window.

use std::collections::{BTreeMap, HashSet};

use steelyard_kernel::numa::Nodes;
use steelyard_kernel::{Tree, cpu_list};
use steelyard_record::{Clock, Kind, NumaScore, NumaScoreNode, Tool};

use super::process::{Context, Keeper};
use super::subjects::{Group, Process};
use crate::descriptors::raise_descriptor_limit;

/// Whose scores are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subjects {
    /// Every process that is there when a window begins.
    All,
    /// These.
    Processes(Vec<u32>),
    /// Control groups, each with those below; see [`super::GroupFolders::find`].
    Cgroups(Vec<String>),
}

/// What is wanted of a survey.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Whose scores.
    pub subjects: Subjects,
    /// Whether what did not run in a window has a score by where its threads ran last.
    pub idle: bool,
    /// Resident size above which a process's memory is not looked through.
    pub largest_bytes: Option<u64>,
    /// Whether memory is read on a machine with one node too, where the score is 1 without.
    pub pages_on_one_node: bool,
    /// How long pages count as they were read while the process has no page faults, ns.
    pub pages_fresh_ns: u64,
}

impl Request {
    /// What is usually wanted of `subjects`.
    pub fn new(subjects: Subjects) -> Self {
        Self {
            subjects,
            idle: true,
            largest_bytes: None,
            pages_on_one_node: false,
            pages_fresh_ns: 600_000_000_000,
        }
    }
}

/// Scores of what was asked for, which is kept watched between windows.
pub struct Survey {
    tree: Tree,
    nodes: Nodes,
    request: Request,
    keeper: Keeper,
    buffer: Vec<u8>,
    processes: BTreeMap<u32, Process>,
    groups: Vec<Group>,
    begin_ns: u64,
    looks: u64,
}

impl Survey {
    /// Begins to watch.
    pub fn start(tree: &Tree, nodes: Nodes, request: Request) -> Self {
        let keeper = match (tree.is_live(), &request.subjects) {
            // Some are left for what is opened and closed again.
            (true, Subjects::All | Subjects::Processes(_)) => {
                Keeper::new(raise_descriptor_limit().saturating_sub(64))
            }
            (true, Subjects::Cgroups(_)) => Keeper::new(256),
            (false, _) => Keeper::new(0),
        };
        let groups = match &request.subjects {
            Subjects::Cgroups(paths) => paths
                .iter()
                .map(|path| Group::start(tree, &nodes, &keeper, path))
                .collect(),
            _ => Vec::new(),
        };
        Self {
            tree: tree.clone(),
            nodes,
            request,
            keeper,
            buffer: Vec::new(),
            processes: BTreeMap::new(),
            groups,
            begin_ns: 0,
            looks: 0,
        }
    }

    /// The nodes.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Begins a window; `now_ns` is the monotonic time.
    pub fn begin(&mut self, now_ns: u64) {
        let there: Vec<u32> = match &self.request.subjects {
            Subjects::All => self.tree.ids("proc"),
            Subjects::Processes(pids) => pids.clone(),
            Subjects::Cgroups(_) => Vec::new(),
        };
        self.begin_ns = now_ns;
        self.looks = 0;
        let mut context = Context {
            tree: &self.tree,
            nodes: &self.nodes,
            keeper: &self.keeper,
            buffer: &mut self.buffer,
        };
        for process in self.processes.values_mut() {
            process.begin(&mut context);
        }
        // An id may have been given to another process since.
        self.processes.retain(|_, process| !process.has_ended());
        let wanted: HashSet<u32> = there.iter().copied().collect();
        self.processes.retain(|pid, _| wanted.contains(pid));
        for pid in there {
            self.processes
                .entry(pid)
                .or_insert_with(|| Process::start(&mut context, pid));
        }
        for group in &mut self.groups {
            group.begin();
        }
    }

    /// Counts what ran since the look before: more looks give a better estimate.
    pub fn look(&mut self) {
        self.look_at(false);
    }

    fn look_at(&mut self, is_last: bool) {
        self.looks += 1;
        let mut context = Context {
            tree: &self.tree,
            nodes: &self.nodes,
            keeper: &self.keeper,
            buffer: &mut self.buffer,
        };
        for process in self.processes.values_mut() {
            process.look(&mut context);
        }
        for group in &mut self.groups {
            group.look(is_last);
        }
    }

    /// Looks once more and ends the window at `now_ns`.
    pub fn finish(&mut self, now_ns: u64) -> NumaScore {
        self.look_at(true);
        let mut context = Context {
            tree: &self.tree,
            nodes: &self.nodes,
            keeper: &self.keeper,
            buffer: &mut self.buffer,
        };
        let mut subjects = Vec::with_capacity(self.processes.len() + self.groups.len());
        for process in self.processes.values_mut() {
            subjects.push(process.row(&mut context, &self.request, now_ns));
        }
        for group in &mut self.groups {
            subjects.push(group.row(&self.tree, &self.nodes, &self.request));
        }
        NumaScore {
            kind: Kind::of::<NumaScore>(),
            tool: Tool {
                name: "steelyard-probe".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            clock: Clock::now(),
            begin_ns: self.begin_ns,
            end_ns: now_ns,
            looks: self.looks,
            nodes: node_rows(&self.nodes),
            distance_source: self.nodes.distances().source().name().to_owned(),
            subjects,
            cost_cpu_ns: None,
        }
    }
}

fn node_rows(nodes: &Nodes) -> Vec<NumaScoreNode> {
    let distances = nodes.distances();
    nodes
        .nodes()
        .iter()
        .enumerate()
        .map(|(i, node)| NumaScoreNode {
            id: node.id,
            cpus: cpu_list::format(&node.cpus),
            memory_bytes: node.memory_bytes,
            distances: (0..distances.len())
                .map(|j| distances.between(i, j))
                .collect(),
        })
        .collect()
}
