//! How many files this process may open.

/// Raises the number of files that this process may open as far as it may without asking, up to a bound, and
/// returns it.
pub fn raise_descriptor_limit() -> usize {
    const ENOUGH: libc::rlim_t = 16_384;
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid place for one rlimit.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return 256;
    }
    if limit.rlim_cur < ENOUGH {
        let raised = libc::rlimit {
            rlim_cur: ENOUGH.min(limit.rlim_max),
            ..limit
        };
        // SAFETY: `raised` is a valid rlimit.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) } == 0 {
            limit = raised;
        }
    }
    usize::try_from(limit.rlim_cur.min(ENOUGH)).unwrap_or(256)
}
