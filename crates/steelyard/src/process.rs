//! Ties between a program, its parent and its CPUs.

use std::io;

/// Asks the kernel to send `signal` to this process when its parent ends.
///
/// A parent that ended before the call is noticed by `expected_parent`, the id it had when it started us
/// (None skips that check). Source: prctl(2), PR_SET_PDEATHSIG.
pub fn die_with_parent(signal: i32, expected_parent: Option<u32>) -> io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes a signal number and touches no memory of ours.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: getppid has no preconditions.
    let parent = unsafe { libc::getppid() };
    let orphaned = match expected_parent {
        Some(expected) => parent as u32 != expected,
        // Without the id only adoption by init can be told.
        None => parent == 1 && std::process::id() != 1,
    };
    if orphaned {
        return Err(io::Error::new(
            io::ErrorKind::NotConnected,
            "the parent process has ended",
        ));
    }
    Ok(())
}

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
