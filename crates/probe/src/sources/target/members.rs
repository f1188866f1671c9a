//! Which processes belong to the program that is watched.
//!
//! In: ids of processes, whose descendants belong to it too, or folders of control groups. Out: ids, at each
//! search.
//!
//! The kernel's lists of children would need a read for each thread; instead each process is asked for its
//! parent once, when it is new. A process whose parent has ended is its reaper's child, which `steelyard-exec`
//! is for what it starts.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use super::thread::ThreadStat;
use steelyard_kernel::Tree;
use steelyard_kernel::scan;

/// What is watched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// Processes with their descendants.
    pub pids: Vec<u32>,
    /// Processes of which only the descendants are watched, such as the supervisor of a command.
    pub below: Vec<u32>,
    /// Folders of control groups, whose members and those of groups below are watched.
    pub cgroups: Vec<PathBuf>,
}

impl Target {
    /// What was named and is not there, in words; a supervisor may have ended with what it started.
    pub fn absent(&self, tree: &Tree) -> Option<String> {
        let pids = self.pids.iter().map(|pid| tree.path(format!("proc/{pid}")));
        let groups = self.cgroups.iter().map(|folder| {
            let below = folder.strip_prefix("/").unwrap_or(folder);
            tree.path(below.join("cgroup.procs"))
        });
        let absent = pids.chain(groups).find(|path| !path.exists())?;
        Some(format!(
            "{} does not exist: nothing to watch",
            absent.display()
        ))
    }
}

/// The members of a target.
#[derive(Debug)]
pub struct Members {
    tree: Tree,
    target: Target,
    /// Processes seen at the search before: whether they belong to the program.
    known: HashMap<u32, bool>,
    in_cgroups: usize,
}

impl Members {
    /// The members of `target`; nothing is read yet.
    pub fn new(tree: &Tree, target: &Target) -> Self {
        Self {
            tree: tree.clone(),
            target: target.clone(),
            known: HashMap::new(),
            in_cgroups: 0,
        }
    }

    /// The ids of all members now, in order.
    pub fn search(&mut self) -> Vec<u32> {
        let mut found = self.of_cgroups();
        self.in_cgroups = found.len();
        found.extend(self.of_processes());
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Forgets a process that has ended: its id may be given to another.
    pub fn forget(&mut self, pid: u32) {
        self.known.remove(&pid);
    }

    /// Whether anything that was named still lives: a process, or a member of a group at the search before.
    pub fn any_alive(&self) -> bool {
        let named = self.target.pids.iter().chain(&self.target.below);
        self.in_cgroups > 0 || named.into_iter().any(|pid| self.stat(*pid).is_some())
    }

    /// Contents of /proc/PID/stat; None for a process that has ended, and for a zombie.
    fn stat(&self, pid: u32) -> Option<ThreadStat> {
        let text = self.tree.text(format!("proc/{pid}/stat")).ok()?;
        ThreadStat::parse(&text).filter(|stat| !stat.has_ended())
    }

    fn of_cgroups(&self) -> Vec<u32> {
        let mut found = Vec::new();
        let mut folders: Vec<PathBuf> = self.target.cgroups.clone();
        while let Some(folder) = folders.pop() {
            // A folder is named from the root of the machine; in a recorded tree that is the tree's.
            let below = folder.strip_prefix("/").unwrap_or(&folder).to_owned();
            let members = self
                .tree
                .text(below.join("cgroup.procs"))
                .unwrap_or_default();
            found.extend(scan::lines(&members).filter_map(pid_of));
            folders.extend(
                self.tree
                    .directories(&below)
                    .iter()
                    .map(|name| below.join(name)),
            );
        }
        found
    }

    fn of_processes(&mut self) -> Vec<u32> {
        if self.target.pids.is_empty() && self.target.below.is_empty() {
            return Vec::new();
        }
        let there: HashSet<u32> = self.tree.ids("proc").into_iter().collect();
        self.known.retain(|pid, _| there.contains(pid));
        let roots = self.target.pids.iter().map(|pid| (*pid, true));
        let above = self.target.below.iter().map(|pid| (*pid, false));
        let named: HashMap<u32, bool> = roots.chain(above).collect();
        let parents: HashMap<u32, u32> = there
            .iter()
            .filter(|pid| !self.known.contains_key(pid) && !named.contains_key(pid))
            .filter_map(|pid| Some((*pid, self.stat(*pid)?.parent)))
            .collect();
        for pid in parents.keys() {
            let ours = self.descends(*pid, &parents, &named);
            self.known.insert(*pid, ours);
        }
        let roots = self.target.pids.iter().filter(|pid| there.contains(pid));
        let descendants = self.known.iter().filter(|(_, ours)| **ours);
        roots
            .copied()
            .chain(descendants.map(|(pid, _)| *pid))
            .collect()
    }

    /// Whether `pid` descends from a process that was named or is known to belong to the program.
    fn descends(&self, pid: u32, parents: &HashMap<u32, u32>, named: &HashMap<u32, bool>) -> bool {
        let mut pid = pid;
        // Parents that were read at different moments may name one another in a circle.
        for _ in 0..=parents.len() {
            match parents.get(&pid) {
                Some(parent) if named.contains_key(parent) => return true,
                Some(parent) => pid = *parent,
                None => return self.known.get(&pid).copied().unwrap_or(false),
            }
        }
        false
    }
}

fn pid_of(line: &[u8]) -> Option<u32> {
    scan::number(line).and_then(|pid| u32::try_from(pid).ok())
}
