//! Names of the system calls that threads sleep in, by the numbers of the machine that this was built for.

use steelyard_kernel::scan::words;

const NAMES: &[(libc::c_long, &str)] = &[
    (libc::SYS_futex, "futex"),
    (libc::SYS_nanosleep, "nanosleep"),
    (libc::SYS_clock_nanosleep, "clock_nanosleep"),
    (libc::SYS_epoll_pwait, "epoll_pwait"),
    (libc::SYS_epoll_pwait2, "epoll_pwait2"),
    (libc::SYS_ppoll, "ppoll"),
    (libc::SYS_pselect6, "pselect6"),
    (libc::SYS_io_uring_enter, "io_uring_enter"),
    (libc::SYS_io_getevents, "io_getevents"),
    (libc::SYS_fsync, "fsync"),
    (libc::SYS_fdatasync, "fdatasync"),
    (libc::SYS_sync, "sync"),
    (libc::SYS_syncfs, "syncfs"),
    (libc::SYS_wait4, "wait4"),
    (libc::SYS_waitid, "waitid"),
    (libc::SYS_rt_sigtimedwait, "rt_sigtimedwait"),
    (libc::SYS_rt_sigsuspend, "rt_sigsuspend"),
    (libc::SYS_accept, "accept"),
    (libc::SYS_accept4, "accept4"),
    (libc::SYS_connect, "connect"),
    (libc::SYS_recvfrom, "recvfrom"),
    (libc::SYS_recvmsg, "recvmsg"),
    (libc::SYS_sendto, "sendto"),
    (libc::SYS_sendmsg, "sendmsg"),
    (libc::SYS_read, "read"),
    (libc::SYS_readv, "readv"),
    (libc::SYS_pread64, "pread64"),
    (libc::SYS_write, "write"),
    (libc::SYS_writev, "writev"),
    (libc::SYS_pwrite64, "pwrite64"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_epoll_wait, "epoll_wait"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_poll, "poll"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_select, "select"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_pause, "pause"),
];

/// The call in the text of /proc/PID/task/TID/syscall: its name, else its number; None outside of calls.
pub fn name(text: &[u8]) -> Option<Box<str>> {
    let first = words(steelyard_kernel::scan::trim(text)).next()?;
    // `running`, or -1 for a thread that the kernel stopped elsewhere: proc_pid_syscall(5).
    let number: libc::c_long = std::str::from_utf8(first).ok()?.parse().ok()?;
    if number < 0 {
        return None;
    }
    let known = NAMES.iter().find(|(known, _)| *known == number);
    Some(known.map_or_else(|| number.to_string().into(), |(_, name)| (*name).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_by_name_by_number_and_outside_of_calls() {
        let text = format!("{} 0x7f 0x80 0x0\n", libc::SYS_futex);
        assert_eq!(name(text.as_bytes()).as_deref(), Some("futex"));
        assert_eq!(name(b"9999 0x0\n").as_deref(), Some("9999"));
        assert_eq!(name(b"running\n"), None);
        assert_eq!(name(b"-1 0x7f 0x80\n"), None);
        assert_eq!(name(b""), None);
    }
}
