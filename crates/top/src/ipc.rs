//! Instructions per cycle of a few busy processes, from hardware counters.
//!
//! In: which processes. Out: cycles and instructions so far, or why there are none. Two events are counted in
//! one group for each thread, so that both are counted during the same time; threads made later inherit them.
//!
//! Invariants: at most [`MOST_PROCESSES`] processes of at most [`MOST_THREADS`] threads are counted at a time;
//! where counters had no turn, nothing is scaled up from it.
//!
//! Not here: other events and metrics.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};

use perf_event_open_sys as perf;
use perf_event_open_sys::bindings::{self, perf_event_attr};

use crate::Reason;

/// Processes counted at a time.
pub const MOST_PROCESSES: usize = 32;
/// Threads of a process that is counted.
pub const MOST_THREADS: usize = 128;
/// Why others are not.
pub const NOT_COUNTED: Reason =
    Reason::Fixed("not counted: counters follow the 32 processes that use the most CPU time");

/// What was counted of a process since it is followed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Count {
    /// Cycles, scaled to the time the counters were meant to run.
    pub cycles: f64,
    /// Instructions, scaled likewise.
    pub instructions: f64,
}

/// Something that counts cycles and instructions.
pub trait Counters {
    /// Counts these processes from now on, and no others.
    fn follow(&mut self, pids: &[u32]);
    /// What was counted of a process.
    fn read(&mut self, pid: u32) -> Result<Count, Reason>;
    /// Why nothing can be counted here, whatever the process.
    fn unavailable(&self) -> Option<Reason>;
    /// What is counted less than fully, in a sentence.
    fn note(&self) -> Option<String>;
}

/// The kernel's counters.
pub struct Live {
    unavailable: Option<Reason>,
    user_only: bool,
    processes: HashMap<u32, Result<Vec<Pair>, Reason>>,
}

/// The two events of a thread.
struct Pair {
    cycles: File,
    instructions: File,
}

impl Live {
    /// Finds out whether this machine counts at all, by counting this very thread.
    pub fn new() -> Self {
        let mut live = Self {
            unavailable: None,
            user_only: false,
            processes: HashMap::new(),
        };
        let mut tried = Pair::open(0, false);
        if matches!(&tried, Err(error) if is_denied(error)) {
            live.user_only = true;
            tried = Pair::open(0, true);
        }
        if let Err(error) = tried {
            live.unavailable = Some(reason(&error, paranoid()));
        }
        live
    }
}

impl Default for Live {
    fn default() -> Self {
        Self::new()
    }
}

impl Counters for Live {
    fn follow(&mut self, pids: &[u32]) {
        if self.unavailable.is_some() {
            return;
        }
        let wanted = &pids[..pids.len().min(MOST_PROCESSES)];
        self.processes.retain(|pid, _| wanted.contains(pid));
        for &pid in wanted {
            let user_only = self.user_only;
            self.processes
                .entry(pid)
                .or_insert_with(|| open_process(pid, user_only));
        }
    }

    fn read(&mut self, pid: u32) -> Result<Count, Reason> {
        if let Some(reason) = &self.unavailable {
            return Err(reason.clone());
        }
        let pairs = self.processes.get_mut(&pid).ok_or(NOT_COUNTED)?;
        let pairs = pairs.as_mut().map_err(|reason| reason.clone())?;
        let mut sum = Count::default();
        for pair in pairs {
            sum.cycles += read_scaled(&mut pair.cycles)?;
            sum.instructions += read_scaled(&mut pair.instructions)?;
        }
        Ok(sum)
    }

    fn unavailable(&self) -> Option<Reason> {
        self.unavailable.clone()
    }

    fn note(&self) -> Option<String> {
        (self.user_only && self.unavailable.is_none()).then(|| {
            "IPC is that of user mode only: run as root, or with CAP_PERFMON, to count the kernel too".to_owned()
        })
    }
}

fn open_process(pid: u32, user_only: bool) -> Result<Vec<Pair>, Reason> {
    let threads: Vec<i32> = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    if threads.len() > MOST_THREADS {
        return Err(Reason::Fixed("not counted: it has more than 128 threads"));
    }
    let mut pairs = Vec::new();
    for tid in threads {
        match Pair::open(tid, user_only) {
            Ok(pair) => pairs.push(pair),
            // It has ended meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(error) => return Err(reason(&error, paranoid())),
        }
    }
    Ok(pairs)
}

impl Pair {
    fn open(tid: i32, user_only: bool) -> io::Result<Self> {
        let cycles = open(bindings::PERF_COUNT_HW_CPU_CYCLES, tid, -1, user_only)?;
        let instructions = open(
            bindings::PERF_COUNT_HW_INSTRUCTIONS,
            tid,
            cycles.as_raw_fd(),
            user_only,
        )?;
        Ok(Self {
            cycles,
            instructions,
        })
    }
}

fn open(event: u32, tid: i32, group: i32, user_only: bool) -> io::Result<File> {
    let mut attr = perf_event_attr {
        size: size_of::<perf_event_attr>() as u32,
        type_: bindings::PERF_TYPE_HARDWARE,
        config: u64::from(event),
        read_format: u64::from(
            bindings::PERF_FORMAT_TOTAL_TIME_ENABLED | bindings::PERF_FORMAT_TOTAL_TIME_RUNNING,
        ),
        ..perf_event_attr::default()
    };
    attr.set_inherit(1);
    attr.set_exclude_hv(1);
    attr.set_exclude_guest(1);
    attr.set_exclude_kernel(u64::from(user_only));
    let flags = u64::from(bindings::PERF_FLAG_FD_CLOEXEC);
    // SAFETY: `attr` is a whole perf_event_attr that says its size.
    let descriptor = unsafe { perf::perf_event_open(&mut attr, tid, -1, group, flags as _) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor, so that nothing else owns it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// A count with its times enabled and running, scaled to the first.
fn read_scaled(file: &mut File) -> Result<f64, Reason> {
    let mut words = [0; 24];
    let length = file
        .read(&mut words)
        .map_err(|error| Reason::made(format!("the counter cannot be read: {error}")))?;
    let word =
        |at: usize| u64::from_ne_bytes(words[at * 8..at * 8 + 8].try_into().expect("8 bytes"));
    // A group that can never be scheduled reads as its end.
    if length < words.len() {
        return Err(Reason::Fixed("other programs use all counters of this CPU"));
    }
    scale(word(0), word(1), word(2))
}

/// What a count would be had it run all the time it was enabled.
fn scale(count: u64, enabled: u64, running: u64) -> Result<f64, Reason> {
    match (enabled, running) {
        // The thread has not been on a CPU.
        (0, _) => Ok(0.0),
        (_, 0) => Err(Reason::Fixed(
            "the counters had no turn: other programs are counting too",
        )),
        _ => Ok(count as f64 * (enabled as f64 / running as f64)),
    }
}

/// Instructions per cycle between two counts.
pub fn ratio(before: &Count, after: &Count) -> Result<f64, Reason> {
    let cycles = after.cycles - before.cycles;
    let instructions = after.instructions - before.instructions;
    if cycles <= 0.0 || instructions < 0.0 {
        return Err(Reason::DID_NOT_RUN);
    }
    Ok(instructions / cycles)
}

fn is_denied(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

fn paranoid() -> Option<i32> {
    std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// Why the kernel refuses to count.
fn reason(error: &io::Error, paranoid: Option<i32>) -> Reason {
    match (error.raw_os_error(), paranoid) {
        (Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV), _) => Reason::Fixed(
            "no hardware counters: this CPU's are not given to the kernel, as in most virtual machines",
        ),
        (Some(libc::EACCES | libc::EPERM), Some(level)) if level > 2 => Reason::made(format!(
            "kernel.perf_event_paranoid is {level}: sysctl kernel.perf_event_paranoid=1, or run with CAP_PERFMON"
        )),
        (Some(libc::EACCES | libc::EPERM), _) => Reason::Fixed(
            "another user's process, or a seccomp profile refuses perf_event_open: run as root, or with CAP_PERFMON",
        ),
        (Some(libc::ENOSYS), _) => Reason::Fixed("the kernel has no perf_event_open"),
        (Some(libc::EMFILE), _) => {
            Reason::Fixed("more threads than files may be open: ulimit -n with more")
        }
        (Some(libc::EINVAL), _) => {
            Reason::Fixed("this CPU does not count cycles and instructions together")
        }
        _ => Reason::made(format!("perf_event_open says: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: i32, paranoid: Option<i32>) -> String {
        reason(&io::Error::from_raw_os_error(code), paranoid)
            .text()
            .to_owned()
    }

    #[test]
    fn why_there_is_no_ipc() {
        assert!(said(libc::ENOENT, Some(2)).starts_with("no hardware counters"));
        assert!(said(libc::EACCES, Some(3)).contains("perf_event_paranoid is 3"));
        assert!(said(libc::EACCES, Some(2)).contains("another user's process"));
        assert!(said(libc::EIO, None).contains("perf_event_open says"));
    }

    #[test]
    fn counts_are_scaled_to_the_time_they_were_meant_to_run() {
        assert_eq!(scale(50, 100, 50), Ok(100.0));
        assert_eq!(scale(0, 0, 0), Ok(0.0));
        assert!(scale(0, 100, 0).is_err());
    }

    #[test]
    fn instructions_per_cycle_of_what_came_between() {
        let before = Count {
            cycles: 100.0,
            instructions: 50.0,
        };
        let after = Count {
            cycles: 300.0,
            instructions: 350.0,
        };
        assert_eq!(ratio(&before, &after), Ok(1.5));
        assert_eq!(ratio(&after, &after), Err(Reason::DID_NOT_RUN));
    }

    #[test]
    fn this_machine_counts_or_says_why_not() {
        let mut live = Live::new();
        let pid = std::process::id();
        live.follow(&[pid]);
        let first = live.read(pid);
        for value in 0..1_000_000_u64 {
            std::hint::black_box(value);
        }
        match (live.unavailable(), live.read(pid)) {
            (None, Ok(count)) => {
                let ipc = ratio(&first.unwrap(), &count).unwrap();
                assert!((0.01..16.0).contains(&ipc), "{ipc}");
            }
            (None, Err(reason)) => panic!("{reason}"),
            (Some(reason), read) => assert_eq!(read, Err(reason)),
        }
    }
}
