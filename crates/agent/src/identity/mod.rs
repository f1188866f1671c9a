//! Who is a task: control groups, by rules.
//!
//! In: a root with `proc` and `sys`, and rules. Out: the tasks there are now.
//!
//! Invariants: no group is in two tasks, since what is below a task is not looked at; no two tasks have the same
//! name; a group is asked about once while it lives, and not before it has a process. Names are not trusted: they are
//! kept short and printable, and never reach a shell.
//!
//! Groups are those of the hierarchy that accounts CPU time: version 1's cpuacct, or version 2's only one.

pub mod rules;

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use steelyard_kernel::Tree;

use self::rules::{Answer, Process, Rules};
use crate::rows::Task;
use steelyard_kernel::cgroup::Hierarchies;

/// Groups that are looked at, at most.
const MOST_GROUPS: usize = 65_536;
/// How far below the root groups are looked for.
const DEEPEST: usize = 32;
/// Bytes of a process's environment that are read.
const ENVIRONMENT_BYTES: usize = 256 * 1024;

/// What is known of a group that was asked about.
struct Known {
    /// A group of the same path made anew has another.
    inode: u64,
    answer: Option<Answer>,
    task: Option<Arc<Task>>,
}

/// Finds tasks.
pub struct Finder {
    tree: Tree,
    hierarchies: Hierarchies,
    rules: Rules,
    most_tasks: usize,
    known: HashMap<String, Known>,
}

/// The tasks of one scan of the control groups.
#[derive(Debug, Default)]
pub struct TaskScan {
    /// The tasks, in the order of their groups' paths.
    pub tasks: Vec<Arc<Task>>,
    /// The rule that made each a task.
    pub rules: Vec<String>,
    /// Groups that would be tasks, but are more than allowed.
    pub too_many: usize,
    /// Groups that were looked at.
    pub groups: usize,
}

/// A group that was looked at.
struct Look {
    path: String,
    depth: usize,
}

impl Finder {
    /// A finder of at most `most_tasks` tasks in `tree`.
    pub fn new(tree: &Tree, hierarchies: Hierarchies, rules: Rules, most_tasks: usize) -> Self {
        Self {
            tree: tree.clone(),
            hierarchies,
            rules,
            most_tasks,
            known: HashMap::new(),
        }
    }

    /// The tasks now.
    pub fn look(&mut self) -> TaskScan {
        let mut found = TaskScan::default();
        let mut names = HashSet::new();
        let mut seen = HashSet::new();
        let Some(root) = self.hierarchies.cpu_root().cloned() else {
            return found;
        };
        let mut waiting = vec![Look {
            path: "/".to_owned(),
            depth: 0,
        }];
        while let Some(look) = waiting.pop() {
            if found.groups >= MOST_GROUPS {
                break;
            }
            found.groups += 1;
            let folder = root.join(look.path.trim_start_matches('/'));
            self.ask(&look.path, &folder);
            let known = self.known.get(&look.path);
            match known.and_then(|known| known.answer.as_ref()) {
                Some(Answer::Task { rule, .. }) => {
                    let task = known.and_then(|known| known.task.clone());
                    if let Some(task) = task {
                        let rule = rule.clone();
                        self.add(&mut found, &mut names, task, rule);
                    }
                }
                Some(Answer::Ignore) => {}
                Some(Answer::Descend) | None => {
                    if look.depth < DEEPEST {
                        let mut children = self.tree.directories(&folder);
                        // The last is taken first.
                        children.sort_by(|one, other| other.cmp(one));
                        let parent = look.path.trim_end_matches('/').to_owned();
                        waiting.extend(children.iter().map(|child| Look {
                            path: format!("{parent}/{child}"),
                            depth: look.depth + 1,
                        }));
                    }
                }
            }
            seen.insert(look.path);
        }
        self.known.retain(|path, _| seen.contains(path));
        found
    }

    fn add(
        &self,
        found: &mut TaskScan,
        names: &mut HashSet<String>,
        task: Arc<Task>,
        rule: String,
    ) {
        if !self.is_populated(&task.cgroup) {
            return;
        }
        if found.tasks.len() >= self.most_tasks {
            found.too_many += 1;
            return;
        }
        // Two groups of one name: the second is distinguished by its path.
        let task = if names.insert(task.task.clone()) {
            task
        } else {
            let name = rules::clean(&format!("{}@{}", task.task, task.cgroup));
            names.insert(name.clone());
            Arc::new(Task {
                task: name,
                ..(*task).clone()
            })
        };
        found.tasks.push(task);
        found.rules.push(rule);
    }

    /// Asks the rules about a group that is new, or was without a process so far.
    fn ask(&mut self, path: &str, folder: &PathBuf) {
        let inode = std::fs::metadata(self.tree.path(folder)).map_or(0, |metadata| metadata.ino());
        if self
            .known
            .get(path)
            .is_some_and(|known| known.inode == inode)
        {
            return;
        }
        let mut process = First {
            tree: &self.tree,
            folder,
            pid: None,
            environment: None,
        };
        let answer = self.rules.ask(path, &mut process);
        let task = match &answer {
            Some(Answer::Task {
                job,
                task,
                job_class,
                labels,
                ..
            }) => {
                if process.pid().is_none() {
                    // The group has no process yet, and its name comes from its first process.
                    self.known.remove(path);
                    return;
                }
                Some(Arc::new(Task {
                    job: job.clone(),
                    task: task.clone(),
                    job_class: *job_class,
                    labels: labels.clone(),
                    cgroup: path.to_owned(),
                }))
            }
            _ => None,
        };
        let known = Known {
            inode,
            answer,
            task,
        };
        self.known.insert(path.to_owned(), known);
    }

    fn is_populated(&self, path: &str) -> bool {
        self.hierarchies.cpu_root().is_some_and(|root| {
            first_pid(
                &self.tree,
                &root.join(path.trim_start_matches('/')),
                DEEPEST,
            )
            .is_some()
        })
    }
}

/// The first process of a group, or of one below it.
pub fn first_pid(tree: &Tree, folder: &PathBuf, depth: usize) -> Option<u32> {
    let text = tree.text(folder.join("cgroup.procs")).ok()?;
    let text = String::from_utf8_lossy(&text);
    // A process of another PID namespace is listed as 0.
    let own = text
        .lines()
        .find_map(|line| line.parse().ok().filter(|pid| *pid != 0));
    own.or_else(|| {
        let mut children = tree.directories(folder);
        children.sort();
        let depth = depth.checked_sub(1)?;
        children
            .iter()
            .find_map(|child| first_pid(tree, &folder.join(child), depth))
    })
}

/// The first process of a group, looked up when a rule wants it.
struct First<'a> {
    tree: &'a Tree,
    folder: &'a PathBuf,
    pid: Option<Option<u32>>,
    environment: Option<Vec<u8>>,
}

impl First<'_> {
    fn pid(&mut self) -> Option<u32> {
        let (tree, folder) = (self.tree, self.folder);
        *self
            .pid
            .get_or_insert_with(|| first_pid(tree, folder, DEEPEST))
    }
}

impl Process for First<'_> {
    fn command(&mut self) -> Option<String> {
        let pid = self.pid()?;
        let name = self.tree.text(format!("proc/{pid}/comm")).ok()?;
        Some(
            String::from_utf8_lossy(&name)
                .trim_end_matches('\n')
                .to_owned(),
        )
    }

    fn variable(&mut self, name: &str) -> Option<String> {
        let pid = self.pid()?;
        let tree = self.tree;
        let environment = self.environment.get_or_insert_with(|| {
            let mut text = tree.text(format!("proc/{pid}/environ")).unwrap_or_default();
            text.truncate(ENVIRONMENT_BYTES);
            text
        });
        environment.split(|byte| *byte == 0).find_map(|entry| {
            let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(String::from_utf8_lossy(value).into_owned())
        })
    }
}

#[cfg(test)]
mod tests;
