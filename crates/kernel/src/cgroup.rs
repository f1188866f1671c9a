//! Where control groups are: the hierarchies that are mounted, a group's folder in each, and what a task's group is called.
//!
//! In: /proc/mounts and /proc/PID/cgroup. Out: paths relative to the root of the tree. Version 1 mounts a hierarchy for one
//! controller or several; version 2 has one hierarchy for all.
//!
//! Source: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/; cgroups(7).

use std::path::{Path, PathBuf};

use crate::Tree;
use crate::scan::{self, lines, words};

/// Controllers of version 1 that anything is read from, those first that account CPU time and memory.
const CONTROLLERS: [&str; 7] = [
    "cpuacct",
    "memory",
    "cpu",
    "blkio",
    "hugetlb",
    "perf_event",
    "cpuset",
];

/// Limits at least this large mean "unlimited" in version 1.
const UNLIMITED_BYTES: u64 = 1 << 60;

/// Mounted hierarchies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hierarchies {
    /// Where the hierarchy of each controller is mounted, in the order of [`CONTROLLERS`].
    controllers: [Option<PathBuf>; CONTROLLERS.len()],
    unified: Option<PathBuf>,
}

impl Hierarchies {
    /// The hierarchies of `tree`.
    pub fn of(tree: &Tree) -> Self {
        Self::parse(&tree.text("proc/mounts").unwrap_or_default())
    }

    /// The hierarchies in the text of /proc/mounts; of two mounts of one hierarchy, the first.
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
            } else if kind == b"cgroup" {
                for option in options.split(|byte| *byte == b',') {
                    let place = CONTROLLERS
                        .iter()
                        .position(|name| name.as_bytes() == option);
                    if let Some(place) = place {
                        found.controllers[place].get_or_insert_with(|| point.clone());
                    }
                }
            }
        }
        found
    }

    /// Where version 1 has `controller`.
    pub fn controller(&self, controller: &str) -> Option<&PathBuf> {
        let place = CONTROLLERS.iter().position(|name| *name == controller)?;
        self.controllers[place].as_ref()
    }

    /// Where version 2 is.
    pub fn unified(&self) -> Option<&PathBuf> {
        self.unified.as_ref()
    }

    /// All of them, those first that account CPU time and memory, version 2 last.
    pub fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.controllers.iter().chain([&self.unified]).flatten()
    }

    /// 1 or 2, by which accounts CPU time; None where neither is mounted.
    pub fn version(&self) -> Option<u8> {
        match self.controller("cpuacct") {
            Some(_) => Some(1),
            None => self.unified.as_ref().map(|_| 2),
        }
    }

    /// The hierarchy that names groups: the controller's name as /proc/PID/cgroup has it, empty for version 2; None where
    /// nothing is mounted. Where nothing accounts CPU time it is another controller's.
    pub fn cpu_hierarchy(&self) -> Option<&'static str> {
        let mut names = ["cpuacct", "cpu", "memory", "blkio"].into_iter();
        match self.version() {
            Some(2) => Some(""),
            _ => names.find(|name| self.controller(name).is_some()),
        }
    }

    /// Where the hierarchy that accounts CPU time is mounted.
    pub fn cpu_root(&self) -> Option<&PathBuf> {
        self.controller("cpuacct").or(self.unified.as_ref())
    }

    /// The folder of the group at `path` in the hierarchy that has `controller`. A group is expected at the same path in all
    /// hierarchies of version 1, as every orchestrator makes it.
    pub fn folder(&self, controller: &str, path: &str) -> Option<PathBuf> {
        let point = match self.version()? {
            1 => self.controller(controller),
            _ => self.unified.as_ref(),
        };
        Some(below(point?, path))
    }
}

/// The folder of the group at `path` in the hierarchy mounted at `point`.
pub fn below(point: &Path, path: &str) -> PathBuf {
    point.join(path.trim_start_matches('/'))
}

/// What a task's group is called in the hierarchy with `controller` (empty for version 2), by the text of /proc/PID/cgroup.
pub fn group_of<'t>(text: &'t [u8], controller: &str) -> Option<&'t str> {
    lines(text).find_map(|line| {
        let mut fields = line.splitn(3, |byte| *byte == b':');
        scan::number(fields.next()?)?;
        let controllers = fields.next()?;
        let path = std::str::from_utf8(fields.next()?).ok()?;
        let mut names = controllers.split(|byte| *byte == b',');
        names
            .any(|name| name == controller.as_bytes())
            .then_some(path)
    })
}

/// A limit on memory that holds for this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The limit.
    pub bytes: u64,
    /// What is used of it; None where the kernel does not say.
    pub used_bytes: Option<u64>,
    /// The file that says so.
    pub path: PathBuf,
}

/// The limits on memory of this process's groups and those above them, either version, where there are any.
pub fn memory_limits(tree: &Tree) -> Vec<MemoryLimit> {
    const ONE: [&str; 2] = ["memory.limit_in_bytes", "memory.usage_in_bytes"];
    const TWO: [&str; 2] = ["memory.max", "memory.current"];
    let groups = tree.text("proc/self/cgroup").unwrap_or_default();
    let hierarchies = [
        ("", "sys/fs/cgroup", TWO),
        ("", "sys/fs/cgroup/unified", TWO),
        ("memory", "sys/fs/cgroup/memory", ONE),
    ];
    let mut limits = Vec::new();
    for (controller, base, [limit, used]) in hierarchies {
        let Some(group) = group_of(&groups, controller) else {
            continue;
        };
        let base = tree.path(base);
        let folder = below(&base, group);
        // In a container the path may be the host's while the mount shows only the process's own group.
        let folder = if folder.is_dir() {
            folder
        } else {
            base.clone()
        };
        for folder in folder
            .ancestors()
            .take_while(|folder| folder.starts_with(&base))
        {
            let bytes = |name: &str| scan::number(&tree.text(folder.join(name)).ok()?);
            if let Some(bytes_max) = bytes(limit).filter(|bytes| *bytes < UNLIMITED_BYTES) {
                limits.push(MemoryLimit {
                    bytes: bytes_max,
                    used_bytes: bytes(used),
                    path: folder.join(limit),
                });
            }
        }
    }
    limits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::tree;

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
        assert_eq!(one.unified(), Some(&"sys/fs/cgroup/unified".into()));
        assert_eq!(one.all().count(), 4);
        let two = Hierarchies::parse(b"none /sys/fs/cgroup cgroup2 rw 0 0\n");
        assert_eq!(two.version(), Some(2));
        assert_eq!(two.folder("memory", "/"), Some("sys/fs/cgroup/".into()));
        assert_eq!(
            Hierarchies::parse(b"\n\nx\n\xff \xff cgroup2 x\n").version(),
            None
        );
    }

    #[test]
    fn the_group_of_either_version() {
        let text = b"4:memory:/m\n3:cpu,cpuacct:/a:b\n1:name=systemd:/x\n0::/u\nodd::/w\n";
        assert_eq!(group_of(text, "cpuacct"), Some("/a:b"));
        assert_eq!(group_of(text, ""), Some("/u"));
        assert_eq!(group_of(text, "blkio"), None);
        assert_eq!(group_of(b"0::/\xff\n", ""), None);
    }

    #[test]
    fn limits_of_the_group_and_those_above_it() {
        let (_folder, two) = tree(&[
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/memory.max", "1000\n"),
            ("sys/fs/cgroup/a/memory.current", "400\n"),
        ]);
        let limits = memory_limits(&two);
        assert_eq!(limits.len(), 1);
        assert_eq!((limits[0].bytes, limits[0].used_bytes), (1000, Some(400)));
        let (_folder, one) = tree(&[
            ("proc/self/cgroup", "5:cpu:/x\n4:memory:/c\n0::/\n"),
            (
                "sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            ("sys/fs/cgroup/memory/c/memory.limit_in_bytes", "2000\n"),
        ]);
        let limits = memory_limits(&one);
        assert_eq!(
            limits.iter().map(|limit| limit.bytes).collect::<Vec<_>>(),
            [2000]
        );
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_top() {
        let (_folder, tree) = tree(&[
            ("proc/self/cgroup", "0::/host/path\n"),
            ("sys/fs/cgroup/memory.max", "3000\n"),
        ]);
        assert_eq!(memory_limits(&tree)[0].bytes, 3000);
    }

    proptest! {
        #[test]
        fn no_text_does_harm(text: Vec<u8>, like in "([a-z]+ /[a-z] cgroup2? [a-z,]+\n|[0-9]:[a-z,]*:/[a-z]*\n){0,4}") {
            for text in [&text[..], like.as_bytes()] {
                Hierarchies::parse(text);
                group_of(text, "");
                group_of(text, "cpu");
            }
        }
    }
}
