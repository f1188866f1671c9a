//! Which CPUs a thread may use.

use std::io;

/// Restricts the calling thread, and threads it starts later, to `cpus`.
pub fn pin_to_cpus(cpus: &[usize]) -> io::Result<()> {
    let words = cpus.iter().max().map_or(1, |last| last / 64 + 1);
    let mut mask = vec![0u64; words];
    for cpu in cpus {
        mask[cpu / 64] |= 1 << (cpu % 64);
    }
    // SAFETY: the pointer and the length describe `mask`, which outlives the call. A mask longer than
    // cpu_set_t is allowed and needed beyond 1024 CPUs.
    let status =
        unsafe { libc::sched_setaffinity(0, words * 8, mask.as_ptr().cast::<libc::cpu_set_t>()) };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
