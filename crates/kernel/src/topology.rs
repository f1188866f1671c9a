//! Which CPUs a machine has, and where each is: package, die, core; and its caches.
//!
//! In: /sys/devices/system/cpu. Out: [`Cpu`] and [`Cache`]. NUMA nodes are in [`crate::numa`]. What the kernel does not say is
//! None. Source: Linux, Documentation/ABI/stable/sysfs-devices-system-cpu and Documentation/admin-guide/cputopology.rst.

use crate::{Tree, cpu_list, scan};

const CPU: &str = "sys/devices/system/cpu";

/// A logical CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Its number.
    pub id: u32,
    /// Number of its package, the socket.
    pub package: Option<u32>,
    /// Number of its die in the package.
    pub die: Option<u32>,
    /// Number of its core, which is its own in a die only.
    pub core: Option<u32>,
    /// CPUs of its core, itself among them.
    pub siblings: Option<Vec<u32>>,
}

/// A data or unified cache as one CPU sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// Its level.
    pub level: u32,
    /// Its size.
    pub size_bytes: Option<u64>,
    /// Size of a line.
    pub line_bytes: Option<u64>,
    /// CPUs that share it.
    pub cpus: Option<Vec<u32>>,
}

/// The CPUs that are online, in order; where no list says so, those that have a folder.
pub fn online_cpus(tree: &Tree) -> Vec<u32> {
    let text = tree.text(format!("{CPU}/online")).ok();
    text.and_then(|text| cpu_list::parse(&text))
        .filter(|cpus| !cpus.is_empty())
        .unwrap_or_else(|| present_cpus(tree))
}

/// The CPUs that are online, at least CPU 0.
pub fn online_cpus_or_first(tree: &Tree) -> Vec<u32> {
    let mut cpus = online_cpus(tree);
    if cpus.is_empty() {
        cpus.push(0);
    }
    cpus
}

/// The CPUs that have a folder, online or not, in the order of their numbers.
pub fn present_cpus(tree: &Tree) -> Vec<u32> {
    let folders = tree.numbered(CPU, "cpu");
    folders.into_iter().map(|(cpu, _)| cpu).collect()
}

/// Where `cpu` is.
pub fn place(tree: &Tree, cpu: u32) -> Cpu {
    let base = format!("{CPU}/cpu{cpu}/topology");
    // Kernels of some guests answer -1 for "not known", which is no number here.
    let number = |name: &str| u32::try_from(number(tree, &format!("{base}/{name}"))?).ok();
    Cpu {
        id: cpu,
        package: number("physical_package_id"),
        die: number("die_id"),
        core: number("core_id"),
        // Kernels before 5.3 have the second name only.
        siblings: members(tree, &format!("{base}/core_cpus"), "_list", "")
            .or_else(|| members(tree, &format!("{base}/thread_siblings"), "_list", "")),
    }
}

/// Data and unified caches of `cpu`, the lowest level first.
pub fn caches(tree: &Tree, cpu: u32) -> Vec<Cache> {
    let folders = tree.numbered(format!("{CPU}/cpu{cpu}/cache"), "index");
    let mut found: Vec<Cache> = folders
        .into_iter()
        .filter_map(|(_, folder)| {
            let base = folder.display().to_string();
            let kind = tree.text(format!("{base}/type")).ok()?;
            let level = u32::try_from(number(tree, &format!("{base}/level"))?).ok()?;
            (scan::trim(&kind) != b"Instruction").then(|| Cache {
                level,
                size_bytes: tree
                    .text(format!("{base}/size"))
                    .ok()
                    .and_then(|text| size(&text)),
                line_bytes: number(tree, &format!("{base}/coherency_line_size")),
                cpus: members(tree, &format!("{base}/shared_cpu"), "_list", "_map"),
            })
        })
        .collect();
    found.sort_by_key(|cache| cache.level);
    found
}

/// The bytes of a size such as `32K`.
pub fn size(text: &[u8]) -> Option<u64> {
    let text = scan::trim(text);
    let (number, used) = scan::leading_number(text);
    let unit = match &text[used..] {
        b"" => 1,
        b"K" => 1 << 10,
        b"M" => 1 << 20,
        b"G" => 1 << 30,
        _ => return None,
    };
    number?.checked_mul(unit)
}

fn number(tree: &Tree, path: &str) -> Option<u64> {
    scan::number(&tree.text(path).ok()?)
}

/// The CPUs of a list file, else of the mask file beside it.
pub(crate) fn members(tree: &Tree, base: &str, list: &str, mask: &str) -> Option<Vec<u32>> {
    let text = |name: &str| {
        let text = tree.text(format!("{base}{name}")).ok()?;
        (!scan::trim(&text).is_empty()).then_some(text)
    };
    match text(list) {
        Some(text) => cpu_list::parse(&text),
        None => cpu_list::parse_mask(&text(mask)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn lists_masks_and_what_is_missing() {
        let cpu = |number: u32, name: &str| format!("{CPU}/cpu{number}/{name}");
        let (_folder, tree) = tree(&[
            (&format!("{CPU}/online"), "0-3\n"),
            (&cpu(0, "topology/thread_siblings_list"), "0,2"),
            (&cpu(2, "topology/core_cpus_list"), "0,2"),
            (&cpu(1, "topology/thread_siblings"), "0000000a"),
            (&cpu(1, "topology/physical_package_id"), "1"),
            (&cpu(1, "topology/die_id"), "0"),
            (&cpu(1, "topology/core_id"), "5"),
            (&cpu(3, "topology/physical_package_id"), "-1"),
            (&cpu(0, "cache/index0/type"), "Data\n"),
            (&cpu(0, "cache/index0/level"), "1"),
            (&cpu(0, "cache/index0/size"), "32K\n"),
            (&cpu(0, "cache/index1/type"), "Instruction\n"),
            (&cpu(0, "cache/index1/level"), "1"),
            (&cpu(0, "cache/index2/type"), "Unified"),
            (&cpu(0, "cache/index2/level"), "2"),
            (&cpu(0, "cache/index2/size"), "1M"),
            (&cpu(0, "cache/index2/coherency_line_size"), "64"),
            (&cpu(0, "cache/index2/shared_cpu_map"), "5"),
        ]);
        assert_eq!(online_cpus(&tree), [0, 1, 2, 3]);
        assert_eq!(present_cpus(&tree), [0, 1, 2, 3]);
        let places: Vec<Cpu> = (0..4).map(|cpu| place(&tree, cpu)).collect();
        assert_eq!(places[0].siblings, Some(vec![0, 2]));
        assert_eq!(places[0].siblings, places[2].siblings);
        let one = Cpu {
            id: 1,
            package: Some(1),
            die: Some(0),
            core: Some(5),
            siblings: Some(vec![1, 3]),
        };
        assert_eq!(places[1], one);
        assert_eq!(
            places[3],
            Cpu {
                id: 3,
                ..Cpu::default()
            }
        );
        let sizes: Vec<Option<u64>> = caches(&tree, 0)
            .iter()
            .map(|cache| cache.size_bytes)
            .collect();
        assert_eq!(sizes, [Some(32 << 10), Some(1 << 20)]);
        assert_eq!(caches(&tree, 0)[1].cpus, Some(vec![0, 2]));
    }

    proptest::proptest! {
        #[test]
        fn sizes_do_no_harm(text: Vec<u8>, number: u32) {
            size(&text);
            let kib = format!("{number}K\n");
            proptest::prop_assert_eq!(size(kib.as_bytes()), Some(u64::from(number) << 10));
        }
    }
}
