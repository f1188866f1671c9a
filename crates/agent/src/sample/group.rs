//! What the files of one control group tell at one moment.
//!
//! In: hierarchies and a group's path. Out: cumulative counters and gauges, None for each that is not there.
//!
//! Sources: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst, cpuacct.rst, blkio-controller.rst.

use steelyard_probe::Tree;
use steelyard_probe::scan::{key_value, lines, number, words};

use crate::cgroups::Hierarchies;

/// A group at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupReading {
    /// Time just before the group was read, `CLOCK_MONOTONIC` ns.
    pub time_ns: u64,
    /// CPU time so far, ns.
    pub cpu_ns: Option<u64>,
    /// The same by logical CPU; only version 1 tells.
    pub cpu_ns_by_cpu: Option<Vec<u64>>,
    /// Page faults so far.
    pub page_faults: Option<u64>,
    /// Resident memory now, bytes.
    pub resident_bytes: Option<u64>,
    /// Bytes moved to and from block devices so far.
    pub storage_bytes: Option<u64>,
    /// Base pages by node now.
    pub pages_per_node: Option<Vec<i64>>,
}

/// Reads the group at `path`.
pub fn read(
    tree: &Tree,
    hierarchies: &Hierarchies,
    path: &str,
    clock: &dyn Fn() -> u64,
) -> GroupReading {
    let text = |controller: &str, name: &str| {
        let folder = hierarchies.folder(controller, path)?;
        tree.text(folder.join(name)).ok()
    };
    let is_one = hierarchies.version() == Some(1);
    let mut reading = GroupReading {
        time_ns: clock(),
        ..GroupReading::default()
    };
    if is_one {
        reading.cpu_ns = text("cpuacct", "cpuacct.usage").and_then(|text| number(&text));
        reading.cpu_ns_by_cpu = text("cpuacct", "cpuacct.usage_percpu")
            .map(|text| words(trim(&text)).map_while(number).collect());
        reading.storage_bytes = text("blkio", "blkio.throttle.io_service_bytes_recursive")
            .or_else(|| text("blkio", "blkio.throttle.io_service_bytes"))
            .and_then(|text| blkio_bytes(&text));
    } else {
        reading.cpu_ns = text("cpu", "cpu.stat")
            .and_then(|text| value(&text, b"usage_usec"))
            .and_then(|us| us.checked_mul(1000));
        reading.storage_bytes = text("io", "io.stat").and_then(|text| io_bytes(&text));
    }
    if let Some(text) = text("memory", "memory.stat") {
        reading.page_faults = value(&text, if is_one { b"total_pgfault" } else { b"pgfault" });
        reading.resident_bytes = resident_bytes(&text, is_one);
    }
    reading.pages_per_node = text("memory", "memory.numa_stat")
        .and_then(|text| pages_per_node(&text, is_one, steelyard_probe::page_bytes()));
    reading
}

fn trim(text: &[u8]) -> &[u8] {
    text.trim_ascii()
}

/// The number behind `key` in lines of a key and a number.
fn value(text: &[u8], key: &[u8]) -> Option<u64> {
    lines(text).find_map(|line| {
        let mut fields = words(line);
        (fields.next()? == key).then(|| fields.number()).flatten()
    })
}

/// Memory that is mapped: anonymous, and files as far as they are mapped. Version 1 counts neither shared memory that is
/// not mapped nor page cache into it, and this does neither for version 2.
fn resident_bytes(text: &[u8], is_one: bool) -> Option<u64> {
    let (anonymous, mapped): (&[u8], &[u8]) = match is_one {
        true => (b"total_rss", b"total_mapped_file"),
        false => (b"anon", b"file_mapped"),
    };
    value(text, anonymous)?.checked_add(value(text, mapped)?)
}

/// Bytes over all devices, from lines such as `254:0 Read 4096`; None where the group never moved any and no line says so.
fn blkio_bytes(text: &[u8]) -> Option<u64> {
    let mut sum = 0_u64;
    for line in lines(text) {
        let mut fields = words(line);
        let first = fields.next()?;
        if first == b"Total" {
            continue;
        }
        if matches!(fields.next(), Some(b"Read" | b"Write")) {
            sum = sum.checked_add(fields.number()?)?;
        }
    }
    Some(sum)
}

/// Bytes over all devices, from lines such as `254:0 rbytes=1 wbytes=2 rios=3`.
fn io_bytes(text: &[u8]) -> Option<u64> {
    let mut sum = 0_u64;
    for line in lines(text) {
        for field in words(line).skip(1) {
            let bytes = field
                .strip_prefix(b"rbytes=")
                .or_else(|| field.strip_prefix(b"wbytes="));
            if let Some(bytes) = bytes {
                sum = sum.checked_add(number(bytes)?)?;
            }
        }
    }
    Some(sum)
}

/// Base pages by node. Version 1: `hierarchical_total=5 N0=3 N1=2`, in pages; version 2: `anon N0=4096 N1=0` and `file ...`, in
/// bytes.
fn pages_per_node(text: &[u8], is_one: bool, page_bytes: u64) -> Option<Vec<i64>> {
    let mut pages: Vec<i64> = Vec::new();
    let mut is_found = false;
    for line in lines(text) {
        let mut fields = words(line);
        let key = fields.next()?;
        let counts = match is_one {
            true => key.starts_with(b"hierarchical_total="),
            false => key == b"anon" || key == b"file",
        };
        if !counts {
            continue;
        }
        is_found = true;
        for field in fields {
            let at = field.iter().position(|byte| *byte == b'=')?;
            let node = number(field.get(1..at)?)? as usize;
            let amount = number(&field[at + 1..])?;
            if node >= 1024 {
                return None;
            }
            if pages.len() <= node {
                pages.resize(node + 1, 0);
            }
            let amount = if is_one { amount } else { amount / page_bytes };
            pages[node] = pages[node].checked_add(i64::try_from(amount).ok()?)?;
        }
    }
    is_found.then_some(pages)
}

/// Bytes received and sent by interface, of /proc/net/dev.
pub fn network_bytes_each(text: &[u8]) -> Vec<(String, [u64; 2])> {
    let each = lines(text).filter_map(|line| {
        let (name, mut values) = key_value(line)?;
        let received = values.number()?;
        values.pass(7);
        Some((
            String::from_utf8_lossy(name.trim_ascii()).into_owned(),
            [received, values.number()?],
        ))
    });
    each.collect()
}

/// Bytes received and sent over all interfaces but loopback, of /proc/PID/net/dev; None where there is no other.
pub fn network_bytes(text: &[u8]) -> Option<u64> {
    let all = network_bytes_each(text);
    let others = all.iter().filter(|(name, _)| name != "lo");
    others
        .map(|(_, [received, sent])| received.saturating_add(*sent))
        .reduce(u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let tree = Tree::new(folder.path());
        (folder, tree)
    }

    #[test]
    fn version_1() {
        let (_folder, tree) = tree(&[
            (
                "proc/mounts",
                "c /c/acct cgroup rw,cpuacct 0 0\nc /c/mem cgroup rw,memory 0 0\nc /c/blk cgroup rw,blkio 0 0\n",
            ),
            ("c/acct/a/cpuacct.usage", "5000000000\n"),
            ("c/acct/a/cpuacct.usage_percpu", "3000000000 2000000000 \n"),
            (
                "c/mem/a/memory.stat",
                "rss 1\ntotal_rss 4096\ntotal_mapped_file 8192\ntotal_pgfault 77\n",
            ),
            (
                "c/mem/a/memory.numa_stat",
                "total=1 N0=1\nhierarchical_total=12 N0=5 N1=7\nhierarchical_file=1 N0=1 N1=0\n",
            ),
            (
                "c/blk/a/blkio.throttle.io_service_bytes",
                "254:0 Read 10\n254:0 Write 20\n254:0 Total 30\nTotal 30\n",
            ),
        ]);
        let reading = read(&tree, &Hierarchies::of(&tree), "/a", &|| 9);
        let wanted = GroupReading {
            time_ns: 9,
            cpu_ns: Some(5_000_000_000),
            cpu_ns_by_cpu: Some(vec![3_000_000_000, 2_000_000_000]),
            page_faults: Some(77),
            resident_bytes: Some(12_288),
            storage_bytes: Some(30),
            pages_per_node: Some(vec![5, 7]),
        };
        assert_eq!(reading, wanted);
    }

    #[test]
    fn version_2_and_what_is_missing() {
        let (_folder, tree) = tree(&[
            ("proc/mounts", "c /c cgroup2 rw 0 0\n"),
            ("c/a/cpu.stat", "usage_usec 1500\nuser_usec 1\n"),
            (
                "c/a/io.stat",
                "254:0 rbytes=1 wbytes=2 rios=3\n254:16 rbytes=4 wbytes=0\n",
            ),
            (
                "c/a/memory.stat",
                "anon 4096\nfile 9\nfile_mapped 0\npgfault 5\n",
            ),
            (
                "c/a/memory.numa_stat",
                "anon N0=8192 N1=0\nfile N0=4096 N1=4096\nslab N0=5 N1=5\n",
            ),
        ]);
        let hierarchies = Hierarchies::of(&tree);
        let reading = read(&tree, &hierarchies, "/a", &|| 1);
        assert_eq!(reading.cpu_ns, Some(1_500_000));
        assert_eq!(
            (
                reading.storage_bytes,
                reading.page_faults,
                reading.resident_bytes
            ),
            (Some(7), Some(5), Some(4096))
        );
        let pages = 8192 / steelyard_probe::page_bytes() as i64
            + 4096 / steelyard_probe::page_bytes() as i64;
        assert_eq!(
            reading.pages_per_node,
            Some(vec![pages, 4096 / steelyard_probe::page_bytes() as i64])
        );
        let nothing = read(&tree, &hierarchies, "/gone", &|| 1);
        assert_eq!(
            nothing,
            GroupReading {
                time_ns: 1,
                ..GroupReading::default()
            }
        );
    }

    #[test]
    fn interfaces_but_loopback() {
        let text = b"Inter-| Receive\n face |bytes\n    lo: 9 0 0 0 0 0 0 0 9 0\n  eth0: 100 1 0 0 0 0 0 0 20 1 0\n";
        assert_eq!(network_bytes(text), Some(120));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text: Vec<u8>) {
            let _ = (value(&text, b"a"), blkio_bytes(&text), io_bytes(&text), network_bytes(&text));
            let _ = (pages_per_node(&text, true, 4096), pages_per_node(&text, false, 4096));
        }
    }
}
