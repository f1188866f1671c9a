//! What the agent itself uses.

/// CPU time and memory of this process and its children that have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Own {
    /// CPU time, s.
    pub cpu_s: f64,
    /// Resident memory of this process, bytes; None where the kernel does not tell.
    pub resident_bytes: Option<u64>,
}

/// What it used so far.
pub fn own() -> Own {
    let resident = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = resident.and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    Own {
        cpu_s: usage_s(libc::RUSAGE_SELF) + usage_s(libc::RUSAGE_CHILDREN),
        resident_bytes: pages.map(|pages| pages * steelyard_kernel::page_bytes()),
    }
}

fn usage_s(who: libc::c_int) -> f64 {
    // SAFETY: rusage is plain integers, which getrusage fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
