//! Control groups that have processes, and those above them, with the counters of their controllers.

use std::collections::{BTreeSet, HashMap};

use steelyard_kernel::Tree;
use steelyard_kernel::cgroup::Hierarchies;
use steelyard_probe::GroupFiles;

use super::reading::GroupReading;

/// Most groups that are read.
const MOST: usize = 4096;

/// The hierarchy that CPU time is accounted in, and files of its groups.
pub struct Groups {
    tree: Tree,
    mounts: Hierarchies,
    /// None for a group whose files cannot be read.
    files: HashMap<String, Option<GroupFiles>>,
}

impl Groups {
    /// The groups of `tree`.
    pub fn new(tree: &Tree) -> Self {
        Self {
            mounts: Hierarchies::of(tree),
            tree: tree.clone(),
            files: HashMap::new(),
        }
    }

    /// The controller whose hierarchy names groups; empty for version 2, None where there are no groups.
    pub fn controller(&self) -> Option<&'static str> {
        self.mounts.cpu_hierarchy()
    }

    /// The counters of the groups at `paths` and of those above them, in the order of their paths.
    pub fn read<'p>(
        &mut self,
        paths: impl Iterator<Item = &'p str>,
        clock: &dyn Fn() -> u64,
    ) -> Vec<GroupReading> {
        let mut wanted = BTreeSet::new();
        for path in paths {
            for above in ancestors(path) {
                if wanted.len() >= MOST || !wanted.insert(above) {
                    break;
                }
            }
        }
        self.files.retain(|path, _| wanted.contains(path.as_str()));
        wanted
            .into_iter()
            .map(|path| {
                let files = self
                    .files
                    .entry(path.to_owned())
                    .or_insert_with(|| GroupFiles::open(&self.tree, &self.mounts, path));
                let time_ns = clock();
                GroupReading {
                    path: path.to_owned(),
                    time_ns,
                    counters: files.as_mut().map(GroupFiles::read).unwrap_or_default(),
                }
            })
            .collect()
    }
}

/// A group's path and the paths above it, up to `/`, the nearest first.
pub fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let mut next = Some(if path.is_empty() { "/" } else { path });
    std::iter::from_fn(move || {
        let path = next?;
        next = match path.rfind('/') {
            _ if path == "/" => None,
            None | Some(0) => Some("/"),
            Some(at) => Some(&path[..at]),
        };
        Some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_above() {
        let all: Vec<&str> = ancestors("/a/b/c").collect();
        assert_eq!(all, ["/a/b/c", "/a/b", "/a", "/"]);
        assert_eq!(ancestors("/").collect::<Vec<_>>(), ["/"]);
        assert_eq!(ancestors("").collect::<Vec<_>>(), ["/"]);
        assert_eq!(ancestors("odd").collect::<Vec<_>>(), ["odd", "/"]);
    }
}
