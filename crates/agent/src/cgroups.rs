//! Where control groups are: the hierarchies that are mounted, and a group's folder in each.
//!
//! In: /proc/mounts. Out: paths relative to the root of the tree.
//!
//! Version 1 mounts a hierarchy for each controller; a group is expected at the same path in all of them, as every
//! orchestrator makes it, and what is not there is missing.

use std::path::PathBuf;

use steelyard_kernel::Tree;
use steelyard_kernel::scan::{lines, words};

/// Mounted hierarchies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hierarchies {
    controllers: Vec<(String, PathBuf)>,
    unified: Option<PathBuf>,
}

/// Controllers that the agent reads from.
const WANTED: [&str; 6] = ["cpuacct", "cpu", "memory", "blkio", "perf_event", "cpuset"];

impl Hierarchies {
    /// The hierarchies of `tree`.
    pub fn of(tree: &Tree) -> Self {
        Self::parse(&tree.text("proc/mounts").unwrap_or_default())
    }

    /// The hierarchies in the text of /proc/mounts.
    pub fn parse(text: &[u8]) -> Self {
        let mut found = Self::default();
        for line in lines(text) {
            let mut fields = words(line);
            fields.pass(1);
            let (Some(point), Some(kind), Some(options)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let Ok(point) = std::str::from_utf8(point) else {
                continue;
            };
            let point = PathBuf::from(point.trim_start_matches('/'));
            if kind == b"cgroup2" {
                found.unified.get_or_insert(point);
                continue;
            }
            let options = options
                .split(|byte| *byte == b',')
                .filter(|_| kind == b"cgroup");
            for option in options.filter_map(|option| std::str::from_utf8(option).ok()) {
                if WANTED.contains(&option) && found.point(option).is_none() {
                    found.controllers.push((option.to_owned(), point.clone()));
                }
            }
        }
        found
    }

    fn point(&self, controller: &str) -> Option<&PathBuf> {
        let found = self.controllers.iter().find(|(name, _)| name == controller);
        found.map(|(_, point)| point)
    }

    /// 1 or 2, by which accounts CPU time; None where neither is mounted.
    pub fn version(&self) -> Option<u8> {
        if self.point("cpuacct").is_some() {
            return Some(1);
        }
        self.unified.as_ref().map(|_| 2)
    }

    /// Where the hierarchy that accounts CPU time is mounted.
    pub fn cpu_root(&self) -> Option<&PathBuf> {
        self.point("cpuacct").or(self.unified.as_ref())
    }

    /// The folder of the group at `path` in the hierarchy that has `controller`.
    pub fn folder(&self, controller: &str, path: &str) -> Option<PathBuf> {
        let point = match self.version()? {
            1 => self.point(controller),
            _ => self.unified.as_ref(),
        };
        Some(point?.join(path.trim_start_matches('/')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_for_each_controller() {
        let one = Hierarchies::parse(
            b"cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
              cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
              cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\xff \xff cgroup x\n",
        );
        assert_eq!(one.version(), Some(1));
        let folder = |name| one.folder(name, "/a/b");
        assert_eq!(folder("cpu"), Some("sys/fs/cgroup/cpu,cpuacct/a/b".into()));
        assert_eq!(folder("memory"), Some("sys/fs/cgroup/memory/a/b".into()));
        assert_eq!(folder("blkio"), None);
        let two = Hierarchies::parse(b"none /sys/fs/cgroup cgroup2 rw 0 0\n");
        assert_eq!(two.version(), Some(2));
        assert_eq!(two.folder("memory", "/"), Some("sys/fs/cgroup/".into()));
        assert_eq!(Hierarchies::parse(b"").version(), None);
    }
}
