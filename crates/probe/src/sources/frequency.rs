//! What clock the CPUs run at: cpufreq's word for it, and the counters APERF and MPERF.
//!
//! Sources: Linux, Documentation/admin-guide/pm/cpufreq.rst; Intel SDM volume 4 and AMD PPR for the
//! registers IA32_MPERF (0xE7) and IA32_APERF (0xE8): while the core is not halted, MPERF counts at the base
//! clock and APERF at the actual one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::watched::{Reader, Watched, cpu_directories, file, readable};
use crate::source::{Definition, Source, Tick, Unavailable};
use crate::table::{Column, Table};
use steelyard_kernel::{Tree, TreeFile};

pub const CPUFREQ: Definition = Definition {
    name: "cpufreq",
    about: "clock frequency of each core as reported by cpufreq, from /sys/devices/system/cpu/cpu*/cpufreq",
    columns: CPUFREQ_COLUMNS,
    open: open_cpufreq,
};

const CPUFREQ_COLUMNS: &[Column] = &[
    Column::TIME,
    Column::index("cpu", "number of the core"),
    Column::gauge("frequency_hz", "hz", "frequency now (scaling_cur_freq)"),
];

pub const APERFMPERF: Definition = Definition {
    name: "aperfmperf",
    about: "actual and base clock cycles of each core, from the registers APERF and MPERF by /dev/cpu/*/msr",
    columns: APERFMPERF_COLUMNS,
    open: open_aperfmperf,
};

const APERFMPERF_COLUMNS: &[Column] = &[
    Column::TIME,
    Column::index("cpu", "number of the core"),
    Column::counter("aperf", "1", "cycles at the actual clock while not halted"),
    Column::counter("mperf", "1", "cycles at the base clock while not halted"),
];

struct CpufreqSource {
    cpus: Watched<(u32, Option<TreeFile>)>,
    reader: Reader,
}

fn find_cpufreq(tree: &Tree) -> Vec<(u32, Option<TreeFile>)> {
    cpu_directories(tree)
        .into_iter()
        .filter_map(|(cpu, directory)| {
            let file = file(tree, &directory.join("cpufreq"), "scaling_cur_freq")?;
            Some((cpu, Some(file)))
        })
        .collect()
}

fn open_cpufreq(tree: &Tree) -> Result<Box<dyn Source>, Unavailable> {
    let cpus = Watched::new(tree, find_cpufreq);
    if cpus.is_empty() {
        return Err(Unavailable::new(
            "no CPU has cpufreq/scaling_cur_freq: the kernel scales no frequencies here, as in most virtual machines",
        )
        .enable("on real hardware, load a cpufreq driver and let the firmware hand over power management"));
    }
    Ok(Box::new(CpufreqSource {
        cpus,
        reader: Reader::default(),
    }))
}

impl Source for CpufreqSource {
    fn columns(&self) -> Vec<Column> {
        CPUFREQ_COLUMNS.to_vec()
    }

    fn read(&mut self, tick: &Tick<'_>, table: &mut Table) -> io::Result<()> {
        self.cpus.for_each(tick.now_ns(), |(cpu, file)| {
            let time_ns = tick.now_ns();
            // A core that is offline has no frequency and no row.
            let Some(khz) = self.reader.number(file) else {
                return false;
            };
            table
                .row(time_ns)
                .index(Some(*cpu as i32))
                .value(khz.checked_mul(1000));
            true
        });
        Ok(())
    }
}

const MPERF: u64 = 0xE7;
const APERF: u64 = 0xE8;

struct Registers {
    cpu: u32,
    file: File,
}

impl Registers {
    fn read(&self, register: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, register)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

struct AperfmperfSource {
    cpus: Watched<Registers>,
}

fn open_registers(path: &Path, cpu: u32) -> io::Result<Registers> {
    let registers = Registers {
        cpu,
        file: File::open(path)?,
    };
    registers.read(MPERF)?;
    registers.read(APERF)?;
    Ok(registers)
}

fn find_registers(tree: &Tree) -> Vec<Registers> {
    tree.numbered("dev/cpu", "")
        .into_iter()
        .filter_map(|(cpu, directory)| open_registers(&tree.path(directory.join("msr")), cpu).ok())
        .collect()
}

fn open_aperfmperf(tree: &Tree) -> Result<Box<dyn Source>, Unavailable> {
    let cpus = Watched::new(tree, find_registers);
    if !cpus.is_empty() {
        return Ok(Box::new(AperfmperfSource { cpus }));
    }
    let path = Path::new("dev/cpu/0/msr");
    let error = open_registers(&tree.path(path), 0).err();
    let error = error.unwrap_or_else(|| io::Error::from(io::ErrorKind::NotFound));
    Err(Unavailable::cannot_read(&tree.path(path), &error)
        .or_enable("on x86, `modprobe msr` and run the probe as root; virtual machines rarely have these registers"))
}

impl Source for AperfmperfSource {
    fn columns(&self) -> Vec<Column> {
        APERFMPERF_COLUMNS.to_vec()
    }

    fn read(&mut self, tick: &Tick<'_>, table: &mut Table) -> io::Result<()> {
        self.cpus.for_each(tick.now_ns(), |registers| {
            let time_ns = tick.now_ns();
            let (Ok(aperf), Ok(mperf)) = (registers.read(APERF), registers.read(MPERF)) else {
                return false;
            };
            table
                .row(time_ns)
                .index(Some(registers.cpu as i32))
                .values(&[Some(aperf), Some(mperf)]);
            true
        });
        Ok(())
    }
}

/// Heat that made the hardware slow down.
pub const THROTTLE: Definition = Definition {
    name: "throttle",
    about: "thermal throttling of each core and its package, from /sys/devices/system/cpu/cpu*/thermal_throttle",
    columns: THROTTLE_COLUMNS,
    open: open_throttle,
};

const THROTTLE_COLUMNS: &[Column] = &[
    Column::TIME,
    Column::index("cpu", "number of the core"),
    Column::counter("core_throttles", "1", "times the core was slowed"),
    Column::counter("package_throttles", "1", "times its package was slowed"),
    Column::counter(
        "core_throttle_ns",
        "ns",
        "time the core was slowed (null before Linux 5.5)",
    ),
    Column::counter(
        "package_throttle_ns",
        "ns",
        "time its package was slowed (null before Linux 5.5)",
    ),
];

struct Throttle {
    cpu: u32,
    /// Two counts and two times in ms.
    files: [Option<TreeFile>; 4],
}

struct ThrottleSource {
    cpus: Watched<Throttle>,
    reader: Reader,
}

fn find_throttle(tree: &Tree) -> Vec<Throttle> {
    const NAMES: [&str; 4] = [
        "core_throttle_count",
        "package_throttle_count",
        "core_throttle_total_time_ms",
        "package_throttle_total_time_ms",
    ];
    cpu_directories(tree)
        .into_iter()
        .filter_map(|(cpu, directory)| {
            let directory = directory.join("thermal_throttle");
            let files = NAMES.map(|name| readable(tree, &directory.join(name)).ok());
            files
                .iter()
                .any(Option::is_some)
                .then_some(Throttle { cpu, files })
        })
        .collect()
}

fn open_throttle(tree: &Tree) -> Result<Box<dyn Source>, Unavailable> {
    let cpus = Watched::new(tree, find_throttle);
    if cpus.is_empty() {
        return Err(Unavailable::new(
            "no CPU has thermal_throttle: only Intel's do, and virtual machines hide it",
        ));
    }
    Ok(Box::new(ThrottleSource {
        cpus,
        reader: Reader::default(),
    }))
}

impl Source for ThrottleSource {
    fn columns(&self) -> Vec<Column> {
        THROTTLE_COLUMNS.to_vec()
    }

    fn read(&mut self, tick: &Tick<'_>, table: &mut Table) -> io::Result<()> {
        self.cpus.for_each(tick.now_ns(), |throttle| {
            let time_ns = tick.now_ns();
            let mut values = throttle
                .files
                .each_mut()
                .map(|file| self.reader.number(file));
            if values.iter().all(Option::is_none) {
                return false;
            }
            for ms in &mut values[2..] {
                *ms = ms.and_then(|ms| ms.checked_mul(1_000_000));
            }
            table
                .row(time_ns)
                .index(Some(throttle.cpu as i32))
                .values(&values);
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
    fn a_core_that_goes_offline_loses_its_row_and_gets_it_back() {
        let path = |cpu: u32| format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
        let mut bench = Bench::new(&[(&path(0), "2400000\n"), (&path(10), "800000\n")]);
        bench.open(&CPUFREQ).expect("two cores have a frequency");
        assert_eq!(bench.tick(), ["0 2400000000", "10 800000000"]);
        bench.remove("sys/devices/system/cpu/cpu10");
        assert_eq!(bench.tick(), ["0 2400000000"]);
        bench.write(&path(10), "900000\n");
        // The failure of the tick before has the cores looked up again, and so does time.
        assert_eq!(bench.tick(), ["0 2400000000", "10 900000000"]);
        bench.write(&path(2), "1\n");
        assert_eq!(bench.tick().len(), 2);
        bench.pass_seconds(11);
        assert_eq!(bench.tick(), ["0 2400000000", "2 1000", "10 900000000"]);
    }

    #[test]
    fn registers_are_read_at_their_own_offsets() {
        let mut bench = Bench::new(&[]);
        let mut text = vec![b'\0'; 0xE7];
        // Eight bytes at 0xE7 and eight at 0xE8 overlap in a plain file, unlike in the device.
        text.extend([1, 2, 0, 0, 0, 0, 0, 0, 0]);
        bench.write(
            "dev/cpu/3/msr",
            std::str::from_utf8(&text).expect("it is ASCII"),
        );
        bench.open(&APERFMPERF).expect("one core has registers");
        assert_eq!(bench.tick(), ["3 2 513"]);
        bench.remove("dev/cpu/3");
        assert_eq!(
            Bench::new(&[]).refusal(&APERFMPERF),
            "/dev/cpu/0/msr does not exist"
        );
    }

    #[test]
    fn throttle_times_become_ns_and_may_be_missing() {
        let mut bench = Bench::new(&[
            (
                "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count",
                "3\n",
            ),
            (
                "sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count",
                "4\n",
            ),
            (
                "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_total_time_ms",
                "5\n",
            ),
        ]);
        bench.open(&THROTTLE).expect("one core has counts");
        assert_eq!(bench.tick(), ["0 3 4 5000000 -"]);
        assert!(Bench::new(&[]).open(&THROTTLE).is_err());
    }
}
