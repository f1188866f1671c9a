//! CPU time by mode, from the first lines of /proc/stat. Source: proc_stat(5).

use crate::scan::{leading_number, lines, words};

/// One line: a CPU, or all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuTime {
    /// The CPU's number; None on the line of all CPUs.
    pub cpu: Option<u32>,
    /// Clock ticks in the order of the file: user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice. None
    /// for modes that an old kernel lacks and for what is no number.
    pub ticks: [Option<u64>; 10],
}

impl CpuTime {
    /// Ticks in user mode, in the kernel (interrupts included) and stolen; None where they are not known.
    pub fn user_system_steal(&self) -> Option<[u64; 3]> {
        let [user, nice, system, _, _, irq, softirq, steal, ..] = self.ticks;
        Some([
            user?.checked_add(nice?)?,
            system?.checked_add(irq?)?.checked_add(softirq?)?,
            steal.unwrap_or(0),
        ])
    }

    /// Ticks idle while a task waited for a disk.
    pub fn iowait(&self) -> Option<u64> {
        self.ticks[4]
    }
}

/// The lines of CPUs in the text of /proc/stat; a line whose number is none is skipped.
pub fn cpu_times(text: &[u8]) -> impl Iterator<Item = CpuTime> + '_ {
    // The lines of the CPUs stand first; what follows them is long.
    let cpus = lines(text).map_while(|line| line.strip_prefix(b"cpu"));
    cpus.filter_map(|rest| {
        let (number, used) = leading_number(rest);
        let cpu = match (number, used) {
            (None, 0) if rest.first() == Some(&b' ') => None,
            (number, _) => Some(u32::try_from(number?).ok()?),
        };
        let mut numbers = words(&rest[used..]);
        Some(CpuTime {
            cpu,
            ticks: std::array::from_fn(|_| numbers.number()),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cpus_and_each() {
        let text =
            b"cpu  10 1 20 900 5 1 2 3 0 0\ncpu0 1 0\ncpu99999999999 1\ncpu7 1 x\nintr 5\ncpu9 1\n";
        let found: Vec<CpuTime> = cpu_times(text).collect();
        let cpus: Vec<Option<u32>> = found.iter().map(|line| line.cpu).collect();
        assert_eq!(cpus, [None, Some(0), Some(7)]);
        assert_eq!(found[0].user_system_steal(), Some([11, 23, 3]));
        assert_eq!(found[0].iowait(), Some(5));
        assert_eq!(found[1].ticks[..3], [Some(1), Some(0), None]);
        assert_eq!(found[2].user_system_steal(), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_does_harm(text: Vec<u8>, like in "(cpu[0-9 ]{0,30}\n){0,3}") {
            cpu_times(&text).count();
            cpu_times(like.as_bytes()).count();
        }
    }
}
