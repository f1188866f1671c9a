//! The kernel's units of time and memory.

/// What the kernel's USER_HZ makes of one clock tick, ns.
pub fn ns_per_clock_tick() -> u64 {
    // SAFETY: sysconf takes a number and touches no memory of ours.
    let hz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    // 100 wherever Linux runs today; the fallback is for a libc that does not know.
    1_000_000_000 / u64::try_from(hz).unwrap_or(100).max(1)
}

/// Size of a page, bytes.
pub fn page_bytes() -> u64 {
    // SAFETY: sysconf takes a number and touches no memory of ours.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(4096)
}
