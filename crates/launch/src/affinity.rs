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

/// The CPUs that the calling thread may run on, in ascending order.
pub fn usable_cpus() -> io::Result<Vec<usize>> {
    // The kernel refuses a mask shorter than its own, whose length it does not report.
    let mut words = 16;
    loop {
        let mut mask = vec![0u64; words];
        // SAFETY: the pointer and the length describe `mask`, which outlives the call.
        let status = unsafe {
            libc::sched_getaffinity(0, words * 8, mask.as_mut_ptr().cast::<libc::cpu_set_t>())
        };
        if status == 0 {
            let cpus = (0..words * 64).filter(|cpu| mask[cpu / 64] >> (cpu % 64) & 1 == 1);
            return Ok(cpus.collect());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINVAL) || words >= 1024 {
            return Err(error);
        }
        words *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_pinned_may_run_there_only() {
        // In a thread of its own, which takes the restriction with it.
        std::thread::spawn(|| {
            let all = usable_cpus().expect("a mask");
            let last = *all.last().expect("a CPU");
            pin_to_cpus(&[last]).expect("pinned");
            assert_eq!(usable_cpus().expect("a mask"), [last]);
        })
        .join()
        .expect("no panic");
    }
}
