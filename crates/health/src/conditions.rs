//! What else ran on the machine while a part was measured.

use std::fs;

use steelyard_kernel::usage::Usage;
use steelyard_record::{HealthConditions, monotonic_ns};

/// The counters at the start of a part.
pub(crate) struct Conditions {
    begin_ns: u64,
    machine: Option<Ticks>,
    own_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    steal: u64,
    all: u64,
}

impl Conditions {
    /// Reads the counters.
    pub(crate) fn start() -> Self {
        Self {
            begin_ns: monotonic_ns(),
            machine: machine(),
            own_ns: own_cpu_ns(),
        }
    }

    /// What ran since the start.
    pub(crate) fn end(self) -> HealthConditions {
        let between = self.machine.zip(machine()).and_then(|(begin, end)| {
            let all = end.all.checked_sub(begin.all).filter(|all| *all > 0)?;
            // Counters of a guest may be set back by a tick or two.
            let since = |end: u64, begin: u64| end.saturating_sub(begin);
            Some((
                since(end.busy, begin.busy),
                since(end.steal, begin.steal),
                all,
            ))
        });
        // SAFETY: sysconf has no preconditions.
        let ticks_per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as f64;
        let own_ticks = own_cpu_ns().saturating_sub(self.own_ns) as f64 / 1e9 * ticks_per_s;
        HealthConditions {
            begin_ns: self.begin_ns,
            end_ns: monotonic_ns(),
            foreign_busy_ratio: between
                .map(|(busy, _, all)| ((busy as f64 - own_ticks) / all as f64).clamp(0.0, 1.0)),
            steal_ratio: between.map(|(_, steal, all)| steal as f64 / all as f64),
        }
    }
}

fn machine() -> Option<Ticks> {
    parse(&fs::read_to_string("/proc/stat").ok()?)
}

/// The first line of /proc/stat: user nice system idle iowait irq softirq steal ... (proc_stat(5)). Interrupts
/// are left out of `busy`, because those of our own I/O cannot be separated from others.
fn parse(stat: &str) -> Option<Ticks> {
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    let fields: Vec<u64> = line
        .split_whitespace()
        .skip(1)
        .take(8)
        .map(|word| word.parse().ok())
        .collect::<Option<_>>()?;
    Some(Ticks {
        busy: fields.get(..3)?.iter().sum(),
        steal: *fields.get(7)?,
        all: fields.iter().sum(),
    })
}

/// CPU time of this process and of its children that have ended.
fn own_cpu_ns() -> u64 {
    Usage::of_process().cpu_ns() + Usage::of_children().cpu_ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_read() {
        let found = parse("cpu  10 1 5 100 7 2 3 4 9 0\ncpu0 1 1 1 1\n").expect("a line");
        assert_eq!(
            found,
            Ticks {
                busy: 16,
                steal: 4,
                all: 132
            }
        );
        assert_eq!(parse("cpu  10 1 x 100"), None);
        assert_eq!(parse("cpu  10 1 5 100 7\n"), None, "too old to tell steal");
        assert_eq!(parse(""), None);
    }

    #[test]
    fn own_work_is_not_foreign() {
        let conditions = Conditions::start();
        let until = monotonic_ns() + 30_000_000;
        while monotonic_ns() < until {}
        let found = conditions.end();
        assert!(found.end_ns > found.begin_ns);
        assert!(
            found
                .foreign_busy_ratio
                .is_none_or(|ratio| (0.0..=1.0).contains(&ratio))
        );
    }
}
