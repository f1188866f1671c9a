//! Memory of a control group by node, and the folders where its files are, in either version.
//!
//! Version 1: `memory.numa_stat` counts pages (`hierarchical_total=9 N0=5 N1=4`, with the groups below), of LRU lists:
//! anonymous, file and unevictable ones. Version 2: it counts bytes by kind (`anon N0=4096 N1=0`, with the groups below);
//! anonymous and file pages are taken, kernel memory is not. Neither has pages of hugetlbfs, which
//! `hugetlb.SIZE.numa_stat` has bytes. Sources: Linux, Documentation/admin-guide/cgroup-v1/memory.rst (5.6),
//! cgroup-v2.rst (memory.numa_stat, hugetlb), mm/hugetlb_cgroup.c.

use std::path::{Path, PathBuf};

use steelyard_kernel::cgroup::Hierarchies;
use steelyard_kernel::numa::{Missing, Nodes, Pages, add, parse_numbers};
use steelyard_kernel::scan::{self, lines, words};
use steelyard_kernel::{Tree, page_bytes};

/// Where the files of one control group are, relative to the tree's root.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupFolders {
    /// Its folder with `memory.numa_stat`, and whether that is of version 2.
    pub(super) memory: Option<(PathBuf, bool)>,
    /// Its folder with `cpuacct.usage_percpu`.
    pub(super) cpuacct: Option<PathBuf>,
    /// Its folder with `hugetlb.SIZE.numa_stat`.
    pub(super) hugetlb: Option<PathBuf>,
    /// A folder of it with `cgroup.procs`.
    pub(super) members: Option<PathBuf>,
}

impl GroupFolders {
    /// The folders of the group at `path`: its path below the root of the hierarchies (`/system.slice/a.service`), or
    /// any of its folders (`/sys/fs/cgroup/memory/a`). An error where there is no such group.
    pub fn find(tree: &Tree, path: &str) -> Result<Self, Missing> {
        let mounts = Hierarchies::of(tree);
        let points: Vec<&PathBuf> = mounts.all().collect();
        let plain = path.trim_start_matches('/');
        // The longest mount point first: version 2 may be mounted below version 1's folder.
        let mut below = points.clone();
        below.sort_by_key(|point| std::cmp::Reverse(point.as_os_str().len()));
        let inside = below
            .iter()
            .find_map(|point| Path::new(plain).strip_prefix(point).ok())
            .unwrap_or(Path::new(plain));
        if inside
            .components()
            .any(|part| !matches!(part, std::path::Component::Normal(_)))
        {
            return Err(Missing::NO_GROUP);
        }
        let folder = |point: Option<&PathBuf>, file: &str| {
            let folder = point?.join(inside);
            tree.path(folder.join(file)).exists().then_some(folder)
        };
        let memory = folder(mounts.controller("memory"), "memory.numa_stat")
            .map(|folder| (folder, false))
            .or_else(|| Some((folder(mounts.unified(), "memory.numa_stat")?, true)));
        let found = Self {
            memory,
            cpuacct: folder(mounts.controller("cpuacct"), "cpuacct.usage_percpu"),
            hugetlb: [mounts.controller("hugetlb"), mounts.unified()]
                .into_iter()
                .flatten()
                .map(|point| point.join(inside))
                .find(|folder| huge_files(tree, folder).next().is_some()),
            members: points
                .iter()
                .find_map(|point| folder(Some(point), "cgroup.procs")),
        };
        if found == Self::default() {
            return Err(Missing::NO_GROUP);
        }
        Ok(found)
    }

    /// Ids of the processes of the group and the groups below, in order.
    pub(super) fn processes(&self, tree: &Tree) -> Vec<u32> {
        let mut found = Vec::new();
        let mut folders: Vec<PathBuf> = self.members.clone().into_iter().collect();
        while let Some(folder) = folders.pop() {
            // Not readable in a threaded group: its processes are listed above it.
            let text = tree.text(folder.join("cgroup.procs")).unwrap_or_default();
            found.extend(lines(&text).filter_map(|line| u32::try_from(scan::number(line)?).ok()));
            folders.extend(
                tree.directories(&folder)
                    .iter()
                    .map(|name| folder.join(name)),
            );
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

fn huge_files<'t>(tree: &'t Tree, folder: &'t Path) -> impl Iterator<Item = PathBuf> + use<'t> {
    tree.names(folder)
        .into_iter()
        .filter(|name| name.starts_with("hugetlb.") && name.ends_with(".numa_stat"))
        .map(|name| folder.join(name))
}

/// The memory that is charged to the group at `path` (see [`GroupFolders::find`]) and those below, by node.
///
/// A page that several groups use is charged to the one that used it first.
pub fn read_pages_of_cgroup(tree: &Tree, nodes: &Nodes, path: &str) -> Result<Pages, Missing> {
    read(tree, nodes, &GroupFolders::find(tree, path)?)
}

/// The same where the folders are known.
pub(super) fn read(tree: &Tree, nodes: &Nodes, folders: &GroupFolders) -> Result<Pages, Missing> {
    let (folder, is_version_2) = folders
        .memory
        .as_ref()
        .ok_or(Missing::NO_MEMORY_CONTROLLER)?;
    let text = tree
        .text(folder.join("memory.numa_stat"))
        .map_err(|error| Missing::new(format!("memory.numa_stat: {error}")))?;
    let mut pages = if *is_version_2 {
        parse_version_2(&text, nodes)
    } else {
        parse_version_1(&text, nodes, page_bytes())
    };
    if let Some(folder) = &folders.hugetlb {
        for file in huge_files(tree, folder) {
            let huge = parse_huge(&tree.text(file).unwrap_or_default(), nodes);
            for (position, bytes) in huge.iter().enumerate() {
                add(&mut pages.bytes_per_node, position, *bytes);
                add(&mut pages.huge_bytes_per_node, position, *bytes);
            }
            // Pages of hugetlbfs are of files or anonymous; the group does not tell which.
        }
    }
    Ok(pages)
}

/// `N0=5 N1=4` as amounts by position; the second is what lies elsewhere.
fn per_node(fields: scan::Words<'_>, nodes: &Nodes) -> (Vec<u64>, u64) {
    let mut amounts = vec![0; nodes.len()];
    let mut elsewhere = 0u64;
    for field in fields {
        let Some(field) = field.strip_prefix(b"N") else {
            continue;
        };
        let (node, used) = scan::leading_number(field);
        let amount = field
            .get(used..)
            .and_then(|rest| scan::number(rest.strip_prefix(b"=")?));
        if let (Some(node), Some(amount)) = (node, amount) {
            match nodes.position_of_id(node) {
                Some(position) => add(&mut amounts, position, amount),
                None => elsewhere = elsewhere.saturating_add(amount),
            }
        }
    }
    (amounts, elsewhere)
}

fn sum(amounts: &[u64]) -> u64 {
    amounts
        .iter()
        .fold(0, |sum: u64, amount| sum.saturating_add(*amount))
}

/// Version 1's memory.numa_stat: pages, with the groups below where the kernel includes them.
pub(super) fn parse_version_1(text: &[u8], nodes: &Nodes, page_bytes: u64) -> Pages {
    let mut pages = Pages::new(nodes.len());
    let has_hierarchy = lines(text).any(|line| line.starts_with(b"hierarchical_total="));
    for line in lines(text) {
        let line = match (has_hierarchy, line.strip_prefix(b"hierarchical_")) {
            (true, Some(line)) => line,
            (false, None) => line,
            _ => continue,
        };
        let mut fields = words(line);
        let Some(head) = fields.next() else {
            continue;
        };
        let (mut amounts, elsewhere) = per_node(fields, nodes);
        for amount in &mut amounts {
            *amount = amount.saturating_mul(page_bytes);
        }
        if head.starts_with(b"total=") {
            pages.bytes_per_node = amounts;
            pages.elsewhere_bytes = elsewhere.saturating_mul(page_bytes);
        } else if head.starts_with(b"anon=") {
            pages.anon_bytes = Some(sum(&amounts));
        } else if head.starts_with(b"file=") {
            pages.file_bytes = Some(sum(&amounts));
        }
    }
    pages
}

/// Version 2's memory.numa_stat: bytes of anonymous memory and files.
pub(super) fn parse_version_2(text: &[u8], nodes: &Nodes) -> Pages {
    let mut pages = Pages::new(nodes.len());
    for line in lines(text) {
        let mut fields = words(line);
        let kind = fields.next();
        let whole = match kind {
            Some(b"anon") => &mut pages.anon_bytes,
            Some(b"file") => &mut pages.file_bytes,
            _ => continue,
        };
        let (amounts, elsewhere) = per_node(fields, nodes);
        *whole = Some(sum(&amounts));
        pages.elsewhere_bytes = pages.elsewhere_bytes.saturating_add(elsewhere);
        for (position, bytes) in amounts.iter().enumerate() {
            add(&mut pages.bytes_per_node, position, *bytes);
        }
    }
    pages
}

/// A hugetlb.SIZE.numa_stat: bytes, with the groups below where the kernel includes them.
pub(super) fn parse_huge(text: &[u8], nodes: &Nodes) -> Vec<u64> {
    let line = lines(text)
        .find(|line| line.starts_with(b"hierarchical_total="))
        .or_else(|| lines(text).find(|line| line.starts_with(b"total=")));
    line.map(|line| per_node(words(line), nodes).0)
        .unwrap_or_else(|| vec![0; nodes.len()])
}

/// cpuacct.usage_percpu: CPU time, ns, of each possible CPU in order.
pub(super) fn parse_usage_percpu(text: &[u8]) -> Vec<u64> {
    parse_numbers(text)
}
