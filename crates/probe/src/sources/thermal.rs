//! Temperatures: thermal zones and hwmon sensors.
//!
//! Source: Linux, Documentation/driver-api/thermal/sysfs-api.rst; values are in thousandths of a degree.

use std::io;
use std::path::Path;

use super::watched::{Reader, Watched, file, label};
use crate::source::{Definition, Source, Tick, Unavailable};
use crate::table::{Column, Table, Type};
use steelyard_kernel::{Tree, TreeFile};

pub const DEFINITION: Definition = Definition {
    name: "thermal",
    about: "temperatures, from /sys/class/thermal and /sys/class/hwmon",
    columns: COLUMNS,
    open,
};

const COLUMNS: &[Column] = &[
    Column::TIME,
    Column::label(
        "zone",
        "thermal zone as thermal_zone0:type, or sensor as hwmon0:name/label",
    ),
    Column::gauge("temperature_mc", "millicelsius", "temperature now").of_type(Type::I64),
];

struct ThermalSource {
    zones: Watched<(String, Option<TreeFile>)>,
    reader: Reader,
}

fn find(tree: &Tree) -> Vec<(String, Option<TreeFile>)> {
    let mut zones = Vec::new();
    for (number, directory) in tree.numbered("sys/class/thermal", "thermal_zone") {
        if let Some(file) = file(tree, &directory, "temp") {
            let kind = label(tree, directory.join("type")).unwrap_or_default();
            zones.push((format!("thermal_zone{number}:{kind}"), Some(file)));
        }
    }
    for (number, directory) in tree.numbered("sys/class/hwmon", "hwmon") {
        let chip = label(tree, directory.join("name")).unwrap_or_default();
        zones.extend(
            temperatures(tree, &directory)
                .into_iter()
                .map(|(name, file)| (format!("hwmon{number}:{chip}/{name}"), Some(file))),
        );
    }
    zones
}

/// Sensors `tempN_input` of one hwmon device.
fn temperatures(tree: &Tree, directory: &Path) -> Vec<(String, TreeFile)> {
    tree.names(directory)
        .iter()
        .filter_map(|entry| {
            let sensor = entry.strip_suffix("_input")?;
            if !sensor.starts_with("temp") {
                return None;
            }
            let name = label(tree, directory.join(format!("{sensor}_label")))
                .unwrap_or_else(|| sensor.to_owned());
            Some((name, file(tree, directory, entry)?))
        })
        .collect()
}

fn open(tree: &Tree) -> Result<Box<dyn Source>, Unavailable> {
    let zones = Watched::new(tree, find);
    if zones.is_empty() {
        return Err(Unavailable::new(
            "neither /sys/class/thermal nor /sys/class/hwmon has a temperature, as in most virtual machines",
        )
        .enable("on real hardware, load a driver for the sensors, such as coretemp or k10temp"));
    }
    Ok(Box::new(ThermalSource {
        zones,
        reader: Reader::default(),
    }))
}

impl Source for ThermalSource {
    fn columns(&self) -> Vec<Column> {
        COLUMNS.to_vec()
    }

    fn read(&mut self, tick: &Tick<'_>, table: &mut Table) -> io::Result<()> {
        self.zones.for_each(tick.now_ns(), |(name, file)| {
            let time_ns = tick.now_ns();
            let Some(temperature) = self.reader.signed_number(file) else {
                return false;
            };
            table
                .row(time_ns)
                .text(name.as_bytes())
                .signed(Some(temperature));
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
    fn zones_and_sensors_below_zero_too() {
        let mut bench = Bench::new(&[
            ("sys/class/thermal/thermal_zone2/type", "x86_pkg_temp\n"),
            ("sys/class/thermal/thermal_zone2/temp", "45000\n"),
            ("sys/class/thermal/cooling_device0/type", "Processor\n"),
            ("sys/class/hwmon/hwmon0/name", "coretemp\n"),
            ("sys/class/hwmon/hwmon0/temp1_input", "-1500\n"),
            ("sys/class/hwmon/hwmon0/temp1_label", "Package id 0\n"),
            ("sys/class/hwmon/hwmon0/fan1_input", "900\n"),
        ]);
        bench.open(&DEFINITION).expect("there are two");
        assert_eq!(
            bench.tick(),
            [
                "thermal_zone2:x86_pkg_temp 45000",
                "hwmon0:coretemp/Package id 0 -1500"
            ]
        );
        bench.write("sys/class/thermal/thermal_zone2/temp", "broken\n");
        assert_eq!(bench.tick().len(), 1);
    }
}
