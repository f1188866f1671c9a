//! CPU time, memory and scheduling of this process and its threads: getrusage(2), the CPU clocks of clock_gettime(2), statm.

use std::fs;

use steelyard_record::clock_ns;

use crate::{Stat, ns_per_clock_tick, page_bytes};

/// The resources that getrusage(2) counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user mode, ns.
    pub user_ns: u64,
    /// CPU time in the kernel, ns.
    pub system_ns: u64,
    /// Largest resident set size so far, bytes; of the whole process also for a thread.
    pub rss_max_bytes: Option<u64>,
    /// Page faults that needed no I/O.
    pub minor_faults: u64,
    /// Context switches that the scheduler forced.
    pub preemptions: u64,
}

impl Usage {
    /// Returns the usage of this process, all threads together.
    pub fn of_process() -> Self {
        Self::read(libc::RUSAGE_SELF)
    }

    /// Returns the usage of the calling thread.
    pub fn of_thread() -> Self {
        Self::read(libc::RUSAGE_THREAD)
    }

    /// Returns the usage of children that have ended and were waited for.
    pub fn of_children() -> Self {
        Self::read(libc::RUSAGE_CHILDREN)
    }

    fn read(who: libc::c_int) -> Self {
        // SAFETY: all-zero bytes are a valid rusage, which getrusage overwrites.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a writable rusage. The call cannot fail: every `who` above exists on Linux.
        unsafe { libc::getrusage(who, &mut usage) };
        let ns =
            |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
        Self {
            user_ns: ns(usage.ru_utime),
            system_ns: ns(usage.ru_stime),
            // In KiB on Linux.
            rss_max_bytes: u64::try_from(usage.ru_maxrss).ok().map(|kib| kib * 1024),
            minor_faults: usage.ru_minflt as u64,
            preemptions: usage.ru_nivcsw as u64,
        }
    }

    /// CPU time in user mode, and in the kernel, ns.
    pub fn times_ns(&self) -> (u64, u64) {
        (self.user_ns, self.system_ns)
    }

    /// CPU time in user mode and in the kernel together, ns.
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }
}

/// CPU time of this process, ns, at the clock's full resolution.
pub fn process_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of the calling thread, ns, at the clock's full resolution.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// User and system time of a thread of this process, ns, in steps of the clock tick; None when the thread has ended.
pub fn thread_times_ns(tid: i32) -> Option<(u64, u64)> {
    let text = fs::read(format!("/proc/self/task/{tid}/stat")).ok()?;
    let stat = Stat::parse(&text)?;
    let tick_ns = ns_per_clock_tick();
    Some((stat.user_ticks * tick_ns, stat.system_ticks * tick_ns))
}

/// Resident set size of this process, bytes.
pub fn rss_bytes() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * page_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_and_counts_agree() {
        let begin_ns = thread_cpu_ns();
        while thread_cpu_ns() < begin_ns + 5_000_000 {}
        let (thread, process) = (Usage::of_thread(), Usage::of_process());
        assert!(thread.cpu_ns() >= 5_000_000 - 1000, "{thread:?}");
        assert!(process.cpu_ns() <= process_cpu_ns() + 1000, "{process:?}");
        assert!(process.cpu_ns() + 1_000_000 >= thread.cpu_ns());
        let (peak, now) = (process.rss_max_bytes, rss_bytes());
        assert!(peak > Some(0) && now > Some(0), "{peak:?} {now:?}");
    }

    #[test]
    fn a_thread_that_is_not_of_this_process_has_no_times() {
        let tid = i32::try_from(std::process::id()).expect("process ids are i32");
        assert!(thread_times_ns(tid).is_some());
        assert_eq!(thread_times_ns(1 << 30), None);
    }
}
