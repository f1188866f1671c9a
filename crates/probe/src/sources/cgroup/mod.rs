//! CPU, memory and disk use of control groups, versions 1 and 2.
//!
//! The groups nearest to the root come first, and at most [`GROUPS`] are recorded, since a machine may have
//! thousands. /proc/mounts says which hierarchy a value comes from. On a machine with both versions
//! the one that has the controllers is read. A group that goes away loses its rows; one that comes is seen
//! within seconds.
//!
//! Sources: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use steelyard_kernel::cgroup::{Hierarchies, below};
use steelyard_kernel::scan::{key_value, lines, number, words};
use steelyard_kernel::{Tree, TreeFile};

use super::keyed::{Places, plain};
use super::watched::{Reader, Watched, readable};
use crate::source::{Definition, Source, Tick, Unavailable};
use crate::table::{Column, Table};

pub const DEFINITION: Definition = Definition {
    name: "cgroup",
    about: "CPU, memory and disk use of at most 128 control groups, those nearest to the root, versions 1 and 2",
    columns: COLUMNS,
    open,
};

const COLUMNS: &[Column] = &[
    Column::TIME,
    Column::label("path", "path of the group below its hierarchy's root"),
    Column::counter("usage_ns", "ns", "CPU time of the group and those below"),
    Column::counter("user_ns", "ns", "CPU time in user mode"),
    Column::counter("system_ns", "ns", "CPU time in the kernel"),
    Column::counter("throttled_ns", "ns", "time throttled by its CPU quota"),
    Column::counter(
        "throttled_periods",
        "1",
        "periods in which it was throttled",
    ),
    Column::gauge("memory_bytes", "bytes", "memory charged to the group"),
    Column::gauge("memory_peak_bytes", "bytes", "most memory ever charged"),
    Column::counter("io_read_bytes", "bytes", "read from block devices"),
    Column::counter("io_written_bytes", "bytes", "written to block devices"),
];

/// Most groups recorded.
pub const GROUPS: usize = 128;

/// Values in the order of the columns after the path.
type Values = [Option<u64>; 9];

/// The hierarchies of version 1 that figures come from; none where version 2 accounts CPU time.
fn version_1(mounts: &Hierarchies) -> Vec<&PathBuf> {
    let figures = ["cpuacct", "cpu", "memory", "blkio"];
    let wanted = figures.iter().filter(|_| mounts.version() != Some(2));
    wanted.filter_map(|name| mounts.controller(name)).collect()
}

/// One group's files, in either version.
enum Files {
    One(Box<VersionOne>),
    Two(Box<VersionTwo>),
}

/// The counters of one control group, for a reader that names it.
pub struct GroupFiles {
    files: Files,
    reader: Reader,
}

/// Values of a control group's files; None for those they lack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupCounters {
    /// CPU time of the group and those below, ns.
    pub usage_ns: Option<u64>,
    /// CPU time in user mode, ns.
    pub user_ns: Option<u64>,
    /// CPU time in the kernel, ns.
    pub system_ns: Option<u64>,
    /// Time the group's CPU quota held it back, ns.
    pub throttled_ns: Option<u64>,
    /// Memory charged to the group, bytes.
    pub memory_bytes: Option<u64>,
    /// Read from block devices, bytes.
    pub read_bytes: Option<u64>,
    /// Written to block devices, bytes.
    pub written_bytes: Option<u64>,
}

impl GroupFiles {
    /// The files of the group at `path` below its hierarchy's root; None when none can be read.
    pub fn open(tree: &Tree, mounts: &Hierarchies, path: &str) -> Option<Self> {
        let files = if !version_1(mounts).is_empty() {
            Files::One(Box::new(VersionOne::open(tree, mounts, path)?))
        } else {
            let unified = mounts.unified()?;
            Files::Two(Box::new(VersionTwo::open(tree, &below(unified, path))?))
        };
        Some(Self {
            files,
            reader: Reader::default(),
        })
    }

    /// Its counters now.
    pub fn read(&mut self) -> GroupCounters {
        let values = match &mut self.files {
            Files::One(files) => files.read(&mut self.reader),
            Files::Two(files) => files.read(&mut self.reader),
        };
        let [
            usage_ns,
            user_ns,
            system_ns,
            throttled_ns,
            _,
            memory_bytes,
            _,
            read_bytes,
            written_bytes,
        ] = values;
        GroupCounters {
            usage_ns,
            user_ns,
            system_ns,
            throttled_ns,
            memory_bytes,
            read_bytes,
            written_bytes,
        }
    }
}

struct Group {
    path: String,
    files: Files,
}

struct CgroupSource {
    groups: Watched<Group>,
    reader: Reader,
}

fn open(tree: &Tree) -> Result<Box<dyn Source>, Unavailable> {
    let groups = Watched::new(tree, find);
    if groups.is_empty() {
        return Err(Unavailable::new(
            "no cgroup hierarchy with a CPU, memory or blkio controller is mounted",
        )
        .enable("mount -t cgroup2 none /sys/fs/cgroup"));
    }
    Ok(Box::new(CgroupSource {
        groups,
        reader: Reader::default(),
    }))
}

fn find(tree: &Tree) -> Vec<Group> {
    let mounts = Hierarchies::of(tree);
    let version_1 = version_1(&mounts);
    if !version_1.is_empty() {
        return group_paths(tree, version_1)
            .into_iter()
            .filter_map(|path| {
                let files = VersionOne::open(tree, &mounts, &path)?;
                Some(Group {
                    files: Files::One(Box::new(files)),
                    path,
                })
            })
            .collect();
    }
    let Some(unified) = mounts.unified() else {
        return Vec::new();
    };
    group_paths(tree, vec![unified])
        .into_iter()
        .filter_map(|path| {
            let files = VersionTwo::open(tree, &below(unified, &path))?;
            Some(Group {
                files: Files::Two(Box::new(files)),
                path,
            })
        })
        .collect()
}

/// Paths of groups that are in any of the hierarchies, breadth first, at most [`GROUPS`].
fn group_paths(tree: &Tree, mut points: Vec<&PathBuf>) -> Vec<String> {
    points.sort();
    points.dedup();
    let mut paths: Vec<String> = Vec::new();
    let mut waiting = VecDeque::from(["/".to_owned()]);
    while let Some(path) = waiting.pop_front() {
        if paths.len() == GROUPS {
            tracing::warn!("only the {GROUPS} control groups nearest to the root are recorded");
            break;
        }
        let mut children: Vec<String> = points
            .iter()
            .flat_map(|point| tree.directories(below(point, &path)))
            .collect();
        children.sort();
        children.dedup();
        let parent = path.trim_end_matches('/');
        waiting.extend(children.iter().map(|child| format!("{parent}/{child}")));
        paths.push(path);
    }
    paths
}

/// A group's files in the hierarchies of version 1.
struct VersionOne {
    usage: Option<TreeFile>,
    user: Option<TreeFile>,
    system: Option<TreeFile>,
    throttling: Option<TreeFile>,
    memory: Option<TreeFile>,
    memory_peak: Option<TreeFile>,
    io: Option<TreeFile>,
    places: Places,
}

impl VersionOne {
    fn open(tree: &Tree, mounts: &Hierarchies, path: &str) -> Option<Self> {
        let file = |controller: &str, name: &str| {
            readable(
                tree,
                &below(mounts.controller(controller)?, path).join(name),
            )
            .ok()
        };
        let files = Self {
            usage: file("cpuacct", "cpuacct.usage"),
            user: file("cpuacct", "cpuacct.usage_user"),
            system: file("cpuacct", "cpuacct.usage_sys"),
            throttling: file("cpu", "cpu.stat"),
            memory: file("memory", "memory.usage_in_bytes"),
            memory_peak: file("memory", "memory.max_usage_in_bytes"),
            io: file("blkio", "blkio.throttle.io_service_bytes_recursive")
                .or_else(|| file("blkio", "blkio.throttle.io_service_bytes")),
            places: Places::default(),
        };
        let any = files.usage.is_some()
            || files.throttling.is_some()
            || files.memory.is_some()
            || files.io.is_some();
        any.then_some(files)
    }

    fn read(&mut self, reader: &mut Reader) -> Values {
        const THROTTLING: [&str; 2] = ["throttled_time", "nr_throttled"];
        let mut throttling = [None; 2];
        if let Some(text) = reader.text(&mut self.throttling) {
            self.places.read(text, &THROTTLING, &mut throttling, plain);
        }
        let [read, written] = reader
            .text(&mut self.io)
            .map(blkio_bytes)
            .unwrap_or_default();
        [
            reader.number(&mut self.usage),
            reader.number(&mut self.user),
            reader.number(&mut self.system),
            throttling[0],
            throttling[1],
            reader.number(&mut self.memory),
            reader.number(&mut self.memory_peak),
            read,
            written,
        ]
    }
}

/// Bytes read and written over all devices, from lines such as `254:0 Read 4096`.
pub fn blkio_bytes(text: &[u8]) -> [Option<u64>; 2] {
    let mut sums = [Some(0u64); 2];
    for line in lines(text) {
        let mut fields = words(line);
        fields.pass(1);
        let place = match fields.next() {
            Some(b"Read") => 0,
            Some(b"Write") => 1,
            _ => continue,
        };
        sums[place] = add(sums[place], fields.number());
    }
    sums
}

fn add(sum: Option<u64>, value: Option<u64>) -> Option<u64> {
    sum?.checked_add(value?)
}

/// A group's files in the one hierarchy of version 2.
struct VersionTwo {
    cpu: Option<TreeFile>,
    memory: Option<TreeFile>,
    memory_peak: Option<TreeFile>,
    io: Option<TreeFile>,
    places: Places,
}

impl VersionTwo {
    fn open(tree: &Tree, directory: &Path) -> Option<Self> {
        let file = |name: &str| readable(tree, &directory.join(name)).ok();
        let files = Self {
            cpu: file("cpu.stat"),
            memory: file("memory.current"),
            memory_peak: file("memory.peak"),
            io: file("io.stat"),
            places: Places::default(),
        };
        (files.cpu.is_some() || files.memory.is_some() || files.io.is_some()).then_some(files)
    }

    fn read(&mut self, reader: &mut Reader) -> Values {
        const CPU: [&str; 5] = [
            "usage_usec",
            "user_usec",
            "system_usec",
            "throttled_usec",
            "nr_throttled",
        ];
        let mut cpu = [None; 5];
        if let Some(text) = reader.text(&mut self.cpu) {
            self.places.read(text, &CPU, &mut cpu, plain);
        }
        let ns = |us: Option<u64>| us.and_then(|us| us.checked_mul(1000));
        let [read, written] = reader.text(&mut self.io).map(io_bytes).unwrap_or_default();
        [
            ns(cpu[0]),
            ns(cpu[1]),
            ns(cpu[2]),
            ns(cpu[3]),
            cpu[4],
            reader.number(&mut self.memory),
            reader.number(&mut self.memory_peak),
            read,
            written,
        ]
    }
}

/// Bytes read and written over all devices, from lines such as `254:0 rbytes=1 wbytes=2 rios=3`.
pub fn io_bytes(text: &[u8]) -> [Option<u64>; 2] {
    let mut sums = [Some(0u64); 2];
    for (_, fields) in lines(text).filter_map(key_value) {
        for field in fields {
            if let Some(bytes) = field.strip_prefix(b"rbytes=") {
                sums[0] = add(sums[0], number(bytes));
            } else if let Some(bytes) = field.strip_prefix(b"wbytes=") {
                sums[1] = add(sums[1], number(bytes));
            }
        }
    }
    sums
}

impl Source for CgroupSource {
    fn columns(&self) -> Vec<Column> {
        COLUMNS.to_vec()
    }

    fn read(&mut self, tick: &Tick<'_>, table: &mut Table) -> io::Result<()> {
        self.groups.for_each(tick.now_ns(), |group| {
            let time_ns = tick.now_ns();
            let values = match &mut group.files {
                Files::One(files) => files.read(&mut self.reader),
                Files::Two(files) => files.read(&mut self.reader),
            };
            if values.iter().all(Option::is_none) {
                return false;
            }
            table
                .row(time_ns)
                .text(group.path.as_bytes())
                .values(&values);
            true
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
