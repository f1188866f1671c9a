//! Zones of RAPL's energy counters below `/sys/class/powercap`.
//!
//! In: a tree. Out: zones with their place. What a machine's processors use is the sum of its packages
//! (`Zone::is_package`): cores, uncore and graphics are parts of a package, memory (`dram`) is a part of the list and beside
//! the package on servers, and `psys` is the whole board, packages included.
//!
//! Invariants: each package is there once. `intel-rapl-mmio` reads the package counters again by another way; its zones
//! stand in only where no other zone has their name.
//!
//! Not here: reading counters, wraps.
//! Source: Linux, Documentation/power/powercap/powercap.rst and drivers/powercap/intel_rapl_common.c (names of zones).

use std::path::{Path, PathBuf};

use crate::Tree;

const POWERCAP: &str = "sys/class/powercap";
const MMIO: &str = "intel-rapl-mmio";

/// One zone that counts energy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// `package-0`, or `package-0/dram` for a part of a package.
    pub name: String,
    /// Its folder below the root.
    pub directory: PathBuf,
}

impl Zone {
    /// Whether this is a processor package or a die of one, whole.
    #[must_use]
    pub fn is_package(&self) -> bool {
        self.name.starts_with("package-") && !self.name.contains('/')
    }
}

/// The zones of a tree, in the order of their folders.
#[must_use]
pub fn zones(tree: &Tree) -> Vec<Zone> {
    let named: Vec<(bool, Zone)> = tree
        .names(POWERCAP)
        .into_iter()
        .filter(|entry| entry.contains(':'))
        .map(|entry| {
            let name = full_name(tree, &entry);
            let directory = Path::new(POWERCAP).join(&entry);
            (entry.starts_with(MMIO), Zone { name, directory })
        })
        .collect();
    named
        .iter()
        .filter(|(again, zone)| {
            !*again
                || named
                    .iter()
                    .all(|(other, first)| *other || first.name != zone.name)
        })
        .map(|(_, zone)| zone.clone())
        .collect()
}

/// The zone's own name, behind that of the zone which it is a part of: `intel-rapl:0:1` belongs to `intel-rapl:0`.
fn full_name(tree: &Tree, entry: &str) -> String {
    let own = |entry: &str| {
        let text = tree
            .text(Path::new(POWERCAP).join(entry).join("name"))
            .ok()?;
        let name = String::from_utf8_lossy(text.trim_ascii()).into_owned();
        (!name.is_empty()).then_some(name)
    };
    let name = own(entry).unwrap_or_else(|| entry.to_owned());
    entry
        .rsplit_once(':')
        .filter(|(parent, _)| parent.contains(':'))
        .and_then(|(parent, _)| own(parent))
        .map_or(name.clone(), |parent| format!("{parent}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    fn packages(named: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
        let files: Vec<(String, String)> = named
            .iter()
            .map(|(entry, name)| (format!("{POWERCAP}/{entry}/name"), format!("{name}\n")))
            .collect();
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        let (_folder, root) = tree(&files);
        let found = zones(&root);
        let whole = found.iter().filter(|zone| zone.is_package());
        (
            whole.map(|zone| zone.name.clone()).collect(),
            found.iter().map(|zone| zone.name.clone()).collect(),
        )
    }

    #[test]
    fn packages_of_two_sockets_without_their_parts_and_the_board() {
        let (whole, all) = packages(&[
            ("intel-rapl:0", "package-0"),
            ("intel-rapl:0:0", "core"),
            ("intel-rapl:0:1", "dram"),
            ("intel-rapl:1", "package-1"),
            ("intel-rapl:1:0", "dram"),
            ("intel-rapl:2", "psys"),
            ("intel-rapl-mmio:0", "package-0"),
            ("intel-rapl-mmio:0:0", "dram"),
            ("dtpm:0", "cpu"),
        ]);
        assert_eq!(whole, ["package-0", "package-1"]);
        assert_eq!(
            all,
            [
                "cpu",
                "package-0",
                "package-0/core",
                "package-0/dram",
                "package-1",
                "package-1/dram",
                "psys",
            ]
        );
    }

    #[test]
    fn dies_of_one_package_and_amd_are_packages() {
        let dies = packages(&[
            ("intel-rapl:0", "package-0-die-0"),
            ("intel-rapl:1", "package-0-die-1"),
        ]);
        assert_eq!(dies.0, ["package-0-die-0", "package-0-die-1"]);
        // AMD's counters come by the same driver.
        let amd = packages(&[("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "core")]);
        assert_eq!(amd.0, ["package-0"]);
    }

    #[test]
    fn registers_in_memory_stand_in_where_nothing_else_counts() {
        let (whole, _) = packages(&[("intel-rapl-mmio:0", "package-0")]);
        assert_eq!(whole, ["package-0"]);
        assert_eq!(packages(&[("intel-rapl:0", "psys")]).0, [""; 0]);
    }
}
