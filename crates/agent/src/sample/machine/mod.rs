//! The machine: what it is, and what all of it did in a window.
//!
//! In: /proc and /sys below a root. Out: `machines` and `machine_samples` rows. What they lack is missing; so is
//! what two threads of a core did together, which no file has.
//!
//! Sources: proc(5), Linux's Documentation/ABI/testing/sysfs-devices-system-cpu, sysfs-class-powercap, iostats.rst.

mod inventory;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use steelyard_kernel::rapl::{self, Zone};
use steelyard_kernel::scan::{lines, number, words};
use steelyard_kernel::{Tree, cpu_times, meminfo, ns_per_clock_tick};

pub use self::inventory::{Topology, inventory, platform_of};
use super::counting::Counted;
use super::group::network_bytes_each;
use crate::rows::MachineSample;

/// Cumulative figures of the machine at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MachineReading {
    /// `CLOCK_MONOTONIC`, ns.
    pub time_ns: u64,
    threads: usize,
    busy_ns: Option<u64>,
    wait_ns: Option<u64>,
    steal_ns: Option<u64>,
    memory_used_bytes: Option<u64>,
    disks: Option<BTreeMap<String, [u64; 3]>>,
    networks: Option<[u64; 2]>,
    /// Energy of each package, with the value at which it begins anew, uJ.
    energy_uj: BTreeMap<PathBuf, (u64, u64)>,
    power_cap_w: Option<f64>,
    throttled_ms: Option<u64>,
}

/// Reads the machine.
pub struct Machines {
    tree: Tree,
    /// Which CPU is where.
    pub topology: Topology,
    /// Folders of the energy counters of whole packages.
    packages: Vec<PathBuf>,
}

impl Machines {
    /// The machine of `tree`.
    pub fn new(tree: &Tree) -> Self {
        let packages = rapl::zones(tree).into_iter().filter(Zone::is_package);
        Self {
            tree: tree.clone(),
            topology: Topology::of(tree),
            packages: packages.map(|zone| zone.directory).collect(),
        }
    }

    /// The current readings.
    pub fn read(&self, clock: &dyn Fn() -> u64) -> MachineReading {
        let mut reading = MachineReading {
            time_ns: clock(),
            ..MachineReading::default()
        };
        let text = |name: &str| self.tree.text(name).ok();
        let small = |path: &Path| self.tree.text(path).ok().and_then(|text| number(&text));
        if let Some(text) = text("proc/stat") {
            reading.read_stat(&text);
        }
        reading.memory_used_bytes = text("proc/meminfo").and_then(|text| memory_used_bytes(&text));
        reading.disks = text("proc/diskstats").map(|text| self.disks(&text));
        reading.networks = text("proc/net/dev").map(|text| self.networks(&text));
        let mut caps = Some(0.0);
        for package in &self.packages {
            let energy =
                small(&package.join("energy_uj")).zip(small(&package.join("max_energy_range_uj")));
            if let Some(energy) = energy {
                reading.energy_uj.insert(package.clone(), energy);
            }
            let cap = small(&package.join("constraint_0_power_limit_uw"));
            caps = caps.zip(cap).map(|(sum, uw)| sum + uw as f64 / 1e6);
        }
        // A sum without one of the packages is not the machine's.
        let is_whole = reading.energy_uj.len() == self.packages.len();
        if !is_whole {
            reading.energy_uj.clear();
        }
        reading.power_cap_w = caps.filter(|_| !self.packages.is_empty());
        for cpu in self.topology.first_threads() {
            let path = format!(
                "sys/devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_total_time_ms"
            );
            let Some(ms) = small(Path::new(&path)) else {
                break;
            };
            reading.throttled_ms = Some(reading.throttled_ms.unwrap_or(0) + ms);
        }
        reading
    }

    /// Sectors read, written, and time busy (ms) of whole disks.
    fn disks(&self, text: &[u8]) -> BTreeMap<String, [u64; 3]> {
        let mut disks = BTreeMap::new();
        for line in lines(text) {
            let mut fields = words(line);
            fields.pass(2);
            let Some(name) = fields
                .next()
                .and_then(|name| std::str::from_utf8(name).ok())
            else {
                continue;
            };
            let values: Vec<Option<u64>> = (0..10).map(|_| fields.number()).collect();
            if let [_, _, Some(read), _, _, _, Some(written), _, _, Some(busy)] = values[..]
                && self.is_disk(name)
            {
                disks.insert(name.to_owned(), [read, written, busy]);
            }
        }
        disks
    }

    /// Whether a device is a disk of its own: partitions have no folder in /sys/block, and what stands on other devices
    /// (dm, md, loop) has no device behind it.
    fn is_disk(&self, name: &str) -> bool {
        let name = name.replace('/', "!");
        self.tree.path(format!("sys/block/{name}/device")).exists()
    }

    /// Bytes received and sent by interfaces that are hardware; by all but loopback where none is.
    fn networks(&self, text: &[u8]) -> [u64; 2] {
        let all: Vec<(String, [u64; 2])> = network_bytes_each(text);
        let is_device = |name: &str| {
            self.tree
                .path(format!("sys/class/net/{name}/device"))
                .exists()
        };
        let any = all.iter().any(|(name, _)| is_device(name));
        let counted = all
            .iter()
            .filter(|(name, _)| if any { is_device(name) } else { name != "lo" });
        counted.fold([0, 0], |[received, sent], (_, more)| {
            [
                received.saturating_add(more[0]),
                sent.saturating_add(more[1]),
            ]
        })
    }

    /// What happened between two readings; None where not even CPU time is known.
    pub fn sample(
        &self,
        then: &MachineReading,
        now: &MachineReading,
        start_unix_s: i64,
        counted: &Counted,
    ) -> Option<MachineSample> {
        let more = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?);
        let seconds = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e9);
        let window_s = now.time_ns.checked_sub(then.time_ns)? as f64 / 1e9;
        let cpu_s = seconds(more(now.busy_ns, then.busy_ns))?;
        if window_s <= 0.0 || now.threads == 0 {
            return None;
        }
        let cores = self.topology.cores();
        let disk = |which: usize| {
            let (now, then) = (now.disks.as_ref()?, then.disks.as_ref()?);
            let moved = now
                .iter()
                .filter_map(|(name, values)| values[which].checked_sub(then.get(name)?[which]));
            Some(moved.fold(0_u64, u64::saturating_add))
        };
        // Sectors of these files are always of 512 bytes.
        let bytes = |sectors: Option<u64>| i64::try_from(sectors?.checked_mul(512)?).ok();
        let network = |which: usize| {
            i64::try_from(now.networks?[which].checked_sub(then.networks?[which])?).ok()
        };
        Some(MachineSample {
            window_start_unix_s: start_unix_s,
            window_s,
            threads: now.threads as i64,
            cores: cores.map(|cores| cores as i64),
            cpu_s,
            core_busy_s: (cores == Some(now.threads)).then_some(cpu_s),
            core_cycles: counted.core_cycles,
            reference_cycles: counted.reference_cycles,
            instructions: counted.instructions,
            frequency_hz: counted
                .core_cycles
                .filter(|_| cpu_s > 0.01)
                .map(|cycles| cycles as f64 / cpu_s),
            power_w: power_w(then, now, window_s),
            power_cap_w: now.power_cap_w,
            throttled_s: more(now.throttled_ms, then.throttled_ms).map(|ms| ms as f64 / 1e3),
            steal_s: seconds(more(now.steal_ns, then.steal_ns)),
            memory_used_bytes: now
                .memory_used_bytes
                .and_then(|bytes| i64::try_from(bytes).ok()),
            memory_bandwidth_bytes_per_s: None,
            disk_busy_s: disk(2).map(|ms| ms as f64 / 1e3),
            disk_read_bytes: bytes(disk(0)),
            disk_write_bytes: bytes(disk(1)),
            io_wait_s: seconds(more(now.wait_ns, then.wait_ns)),
            network_receive_bytes: network(0),
            network_send_bytes: network(1),
            labels: BTreeMap::new(),
        })
    }
}

fn power_w(then: &MachineReading, now: &MachineReading, window_s: f64) -> Option<f64> {
    if now.energy_uj.is_empty() {
        return None;
    }
    let mut sum = 0.0;
    for (zone, (energy, range)) in &now.energy_uj {
        let (before, _) = then.energy_uj.get(zone)?;
        // It begins anew at its range.
        let more = match energy.checked_sub(*before) {
            Some(more) => more,
            None => (range + energy).checked_sub(*before)?,
        };
        sum += more as f64 / 1e6;
    }
    Some(sum / window_s)
}

impl MachineReading {
    fn read_stat(&mut self, text: &[u8]) {
        let ns = |ticks: u64| ticks.saturating_mul(ns_per_clock_tick());
        for line in cpu_times(text) {
            if line.cpu.is_some() {
                self.threads += 1;
            } else if let Some([user, system, steal]) = line.user_system_steal() {
                self.busy_ns = Some(ns(user.saturating_add(system)));
                self.wait_ns = line.iowait().map(ns);
                self.steal_ns = Some(ns(steal));
            }
        }
    }
}

/// Memory that is not available for something new, bytes.
fn memory_used_bytes(text: &[u8]) -> Option<u64> {
    meminfo::value(text, "MemTotal")?.checked_sub(meminfo::value(text, "MemAvailable")?)
}

#[cfg(test)]
mod tests;
