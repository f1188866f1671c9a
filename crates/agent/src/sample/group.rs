//! The contents of the files of one control group at one moment.
//!
//! In: hierarchies and a group's path. Out: cumulative counters and gauges, None for each that is not there.
//!
//! Sources: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst, cpuacct.rst, blkio-controller.rst.

use steelyard_kernel::Tree;
use steelyard_kernel::scan::{key_value, lines, number, words};

use steelyard_kernel::cgroup::Hierarchies;

/// A group at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupReading {
    /// Time just before the group was read, `CLOCK_MONOTONIC` ns.
    pub time_ns: u64,
    /// CPU time so far, ns.
    pub cpu_ns: Option<u64>,
    /// Page faults so far.
    pub page_faults: Option<u64>,
    /// Resident memory now, bytes.
    pub resident_bytes: Option<u64>,
    /// Bytes moved to and from block devices so far.
    pub storage_bytes: Option<u64>,
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
    reading
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
    use super::*;
    use crate::testing::tree;

    #[test]
    fn version_1() {
        let (_folder, tree) = tree(&[
            (
                "proc/mounts",
                "c /c/acct cgroup rw,cpuacct 0 0\nc /c/mem cgroup rw,memory 0 0\nc /c/blk cgroup rw,blkio 0 0\n",
            ),
            ("c/acct/a/cpuacct.usage", "5000000000\n"),
            (
                "c/mem/a/memory.stat",
                "rss 1\ntotal_rss 4096\ntotal_mapped_file 8192\ntotal_pgfault 77\n",
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
            page_faults: Some(77),
            resident_bytes: Some(12_288),
            storage_bytes: Some(30),
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
        }
    }
}
