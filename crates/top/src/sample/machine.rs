//! The machine as a whole: CPU time, load and memory, for the first lines of the screen.

use steelyard_kernel::scan::{trim, words};
use steelyard_kernel::{TextFile, Tree, meminfo, ns_per_clock_tick, scan};

use super::reading::MachineReading;

/// Files of the machine, kept open.
#[derive(Debug)]
pub struct Machine {
    stat: Option<TextFile>,
    loadavg: Option<TextFile>,
    meminfo: Option<TextFile>,
    last_pid: Option<u64>,
}

impl Machine {
    /// The machine of `tree`.
    pub fn new(tree: &Tree) -> Self {
        let open = |name| tree.file(name).ok().map(TextFile::new);
        Self {
            stat: open("proc/stat"),
            loadavg: open("proc/loadavg"),
            meminfo: open("proc/meminfo"),
            last_pid: None,
        }
    }

    /// The current readings.
    pub fn read(&mut self, time_ns: u64) -> MachineReading {
        let mut reading = MachineReading {
            time_ns,
            ..MachineReading::default()
        };
        if let Some(text) = read(&mut self.stat) {
            (reading.cpus, reading.times_ns) = cpu_times(text);
        }
        if let Some(text) = read(&mut self.loadavg) {
            let mut fields = words(trim(text));
            reading.load_1m = fields.next().and_then(scan::decimal);
            self.last_pid = fields.nth(3).and_then(scan::number);
        }
        if let Some(text) = read(&mut self.meminfo) {
            reading.memory_bytes = memory(text);
        }
        reading
    }

    /// The process id that was handed out last, as of the last reading.
    pub fn last_pid(&self) -> Option<u64> {
        self.last_pid
    }
}

fn read(file: &mut Option<TextFile>) -> Option<&[u8]> {
    file.as_mut()?.read().ok()
}

/// The number of CPUs, and the time of all of them in user mode, in the kernel and stolen, ns.
pub fn cpu_times(text: &[u8]) -> (usize, Option<[u64; 3]>) {
    let mut cpus = 0;
    let mut times = None;
    for line in steelyard_kernel::cpu_times(text) {
        match line.cpu {
            Some(_) => cpus += 1,
            None => times = line.user_system_steal(),
        }
    }
    let ns = |ticks: u64| ticks.saturating_mul(ns_per_clock_tick());
    (cpus, times.map(|sums| sums.map(ns)))
}

/// Memory in all and memory available, bytes.
pub fn memory(text: &[u8]) -> Option<[u64; 2]> {
    Some([
        meminfo::value(text, "MemTotal")?,
        meminfo::value(text, "MemAvailable")?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_all_cpus_and_memory() {
        let tick = ns_per_clock_tick();
        let text = b"cpu  10 1 20 900 5 1 2 3 0 0\ncpu0 1 0\ncpu1 1 0\nintr 5\ncpu9 1\n";
        assert_eq!(cpu_times(text), (2, Some([11 * tick, 23 * tick, 3 * tick])));
        assert_eq!(cpu_times(b"cpu  1 2\n"), (0, None));
        let text = b"MemTotal: 8 kB\nMemFree: 1 kB\nMemAvailable: 4 kB\n";
        assert_eq!(memory(text), Some([8192, 4096]));
        assert_eq!(memory(b"MemTotal: 8 kB\n"), None);
    }
}
