//! Energy and power: RAPL by powercap, and sensors by hwmon.
//!
//! RAPL's counters wrap to 0 after `energy_max_uj`, within minutes on a busy large machine; they are stored
//! as they are, with that value beside them, so that differences can be corrected for the wrap.
//! Sources: Linux, Documentation/power/powercap/powercap.rst and Documentation/hwmon/sysfs-interface.rst.

use std::io;
use std::path::Path;

use super::watched::{Reader, Watched, file, label, number};
use crate::source::{Definition, Source, Tick, Unavailable};
use crate::table::{Column, Table};
use steelyard_kernel::{Tree, TreeFile, rapl};

pub const DEFINITION: Definition = Definition {
    name: "power",
    about: "energy and power by domain, from RAPL (/sys/class/powercap) and sensors (/sys/class/hwmon)",
    columns: COLUMNS,
    open,
};

const COLUMNS: &[Column] = &[
    Column::TIME,
    Column::label(
        "domain",
        "RAPL domain as package-0/dram, or sensor as hwmon0:name/label",
    ),
    Column::counter(
        "energy_uj",
        "microjoule",
        "energy used; wraps after energy_max_uj",
    ),
    Column::gauge(
        "power_uw",
        "microwatt",
        "power now, where a sensor reports it",
    ),
    Column::gauge(
        "energy_max_uj",
        "microjoule",
        "largest value of energy_uj, null when unknown",
    ),
];

const HWMON: &str = "sys/class/hwmon";

struct Domain {
    name: String,
    energy: Option<TreeFile>,
    power: Option<TreeFile>,
    energy_max_uj: Option<u64>,
}

struct PowerSource {
    domains: Watched<Domain>,
    reader: Reader,
}

fn find(tree: &Tree) -> Vec<Domain> {
    let mut domains: Vec<Domain> = rapl::zones(tree)
        .into_iter()
        .filter_map(|zone| {
            Some(Domain {
                energy: Some(file(tree, &zone.directory, "energy_uj")?),
                power: None,
                energy_max_uj: number(tree, zone.directory.join("max_energy_range_uj")),
                name: zone.name,
            })
        })
        .collect();
    for (_, directory) in tree.numbered(HWMON, "hwmon") {
        domains.extend(hwmon_sensors(tree, &directory));
    }
    domains
}

/// Sensors `powerN_*` and `energyN_input` of one hwmon device.
fn hwmon_sensors(tree: &Tree, directory: &Path) -> Vec<Domain> {
    let device = directory
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let chip = label(tree, directory.join("name")).unwrap_or_default();
    tree.names(directory)
        .iter()
        .filter_map(|entry| {
            let (sensor, what) = entry.rsplit_once('_')?;
            let name = label(tree, directory.join(format!("{sensor}_label")))
                .unwrap_or_else(|| sensor.to_owned());
            let is_power = sensor.starts_with("power");
            // A sensor that tells both has its average passed over.
            let wanted = match what {
                "input" => is_power || sensor.starts_with("energy"),
                "average" => {
                    is_power
                        && tree
                            .text(directory.join(format!("{sensor}_input")))
                            .is_err()
                }
                _ => false,
            };
            if !wanted {
                return None;
            }
            let file = Some(file(tree, directory, entry)?);
            let (energy, power) = if is_power { (None, file) } else { (file, None) };
            Some(Domain {
                name: format!("{device}:{chip}/{name}"),
                energy,
                power,
                energy_max_uj: None,
            })
        })
        .collect()
}

fn open(tree: &Tree) -> Result<Box<dyn Source>, Unavailable> {
    let domains = Watched::new(tree, find);
    if !domains.is_empty() {
        return Ok(Box::new(PowerSource {
            domains,
            reader: Reader::default(),
        }));
    }
    for zone in rapl::zones(tree) {
        if let Err(error) = tree.text(zone.directory.join("energy_uj"))
            && error.kind() == io::ErrorKind::PermissionDenied
        {
            return Err(Unavailable::new(format!(
                "RAPL is there ({}), but its counters may be read by root only",
                zone.name
            ))
            .enable("run the probe as root, or `chmod o+r /sys/class/powercap/*/energy_uj`"));
        }
    }
    Err(
        Unavailable::new("neither /sys/class/powercap nor /sys/class/hwmon has a power domain, as in most virtual machines")
            .enable("on real hardware, `modprobe intel_rapl_common intel_rapl_msr` or a driver for the board's sensors"),
    )
}

impl Source for PowerSource {
    fn columns(&self) -> Vec<Column> {
        COLUMNS.to_vec()
    }

    fn missing(&self) -> Vec<(String, String)> {
        let lacks = |has: fn(&Domain) -> bool, column: &str, reason: &str| {
            (!self.domains.now().iter().any(has)).then(|| (column.to_owned(), reason.to_owned()))
        };
        [
            lacks(
                |domain| domain.energy.is_some(),
                "energy_uj",
                "no domain counts energy",
            ),
            lacks(
                |domain| domain.power.is_some(),
                "power_uw",
                "no sensor reports power",
            ),
            lacks(
                |domain| domain.energy_max_uj.is_some(),
                "energy_max_uj",
                "no domain has the value at which its counter wraps",
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn read(&mut self, tick: &Tick<'_>, table: &mut Table) -> io::Result<()> {
        self.domains.for_each(tick.now_ns(), |domain| {
            let time_ns = tick.now_ns();
            let energy = self.reader.number(&mut domain.energy);
            let power = self.reader.number(&mut domain.power);
            if energy.is_none() && power.is_none() {
                return false;
            }
            table.row(time_ns).text(domain.name.as_bytes()).values(&[
                energy,
                power,
                domain.energy_max_uj,
            ]);
            true
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn packages_parts_and_sensors() {
        let mut bench = Bench::new(&[
            ("sys/class/powercap/intel-rapl/enabled", "1\n"),
            ("sys/class/powercap/intel-rapl:0/name", "package-0\n"),
            (
                "sys/class/powercap/intel-rapl:0/energy_uj",
                "262143328850\n",
            ),
            (
                "sys/class/powercap/intel-rapl:0/max_energy_range_uj",
                "262143328850\n",
            ),
            ("sys/class/powercap/intel-rapl:0:0/name", "dram\n"),
            ("sys/class/powercap/intel-rapl:0:0/energy_uj", "7\n"),
            ("sys/class/powercap/intel-rapl-mmio:0/name", "package-0\n"),
            ("sys/class/powercap/intel-rapl-mmio:0/energy_uj", "7\n"),
            ("sys/class/hwmon/hwmon1/name", "power_meter\n"),
            ("sys/class/hwmon/hwmon1/power1_average", "150000000\n"),
            ("sys/class/hwmon/hwmon1/power1_cap", "1\n"),
            ("sys/class/hwmon/hwmon2/name", "amd_energy\n"),
            ("sys/class/hwmon/hwmon2/energy1_input", "9\n"),
            ("sys/class/hwmon/hwmon2/energy1_label", "Esocket0\n"),
        ]);
        bench.open(&DEFINITION).expect("there are domains");
        assert_eq!(
            bench.tick(),
            [
                "package-0 262143328850 - 262143328850",
                "package-0/dram 7 - -",
                "hwmon1:power_meter/power1 - 150000000 -",
                "hwmon2:amd_energy/Esocket0 9 - -",
            ]
        );
        // The counter wraps: it is stored as it is.
        bench.write("sys/class/powercap/intel-rapl:0/energy_uj", "5\n");
        assert_eq!(bench.tick()[0], "package-0 5 - 262143328850");
        // A sensor that vanishes loses its row only.
        bench.remove("sys/class/hwmon/hwmon1");
        assert_eq!(bench.tick().len(), 3);
    }

    #[test]
    fn nothing_to_read_is_reported() {
        assert!(
            Bench::new(&[])
                .refusal(&DEFINITION)
                .starts_with("neither /sys/class/powercap")
        );
    }
}
