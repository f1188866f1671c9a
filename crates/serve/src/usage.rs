//! What the process and its threads have used, as the kernel counts it.

use std::fs;

/// User and system time of the process, ns.
pub fn process_cpu_ns() -> (u64, u64) {
    cpu_ns(libc::RUSAGE_SELF)
}

/// CPU time that the calling thread has used so far, ns, to the clock's full resolution.
pub fn thread_cpu_now_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for the call. The clock exists on every Linux, so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// User and system time of the process or of the calling thread, ns.
pub(crate) fn cpu_ns(who: libc::c_int) -> (u64, u64) {
    // SAFETY: rusage is plain data for which zeroes are valid, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &mut usage);
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    (ns(usage.ru_utime), ns(usage.ru_stime))
}

/// User and system time of a thread, ns, in steps of the kernel's tick.
pub(crate) fn thread_cpu_ns(tid: i32) -> Option<(u64, u64)> {
    let stat = fs::read_to_string(format!("/proc/self/task/{tid}/stat")).ok()?;
    // The name may hold spaces and parentheses: fields are counted from its last one. proc(5): 14, 15.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    // SAFETY: sysconf has no preconditions.
    let hertz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    Some((user * 1_000_000_000 / hertz, system * 1_000_000_000 / hertz))
}

/// Resident set size of the process.
pub fn rss_bytes() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    // SAFETY: sysconf has no preconditions.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as u64;
    Some(pages * page)
}
