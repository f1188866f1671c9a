//! What counting asks of the kernel: to open an event, to start it, to read a group.
//!
//! Source: perf_event_open(2). The trait is there so that tests can put a machine with counters in the
//! kernel's place; `Live` is this machine.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use perf::bindings::{self, perf_event_attr};
use perf_event_open_sys as perf;
use steelyard_record::{Modes, monotonic_ns};

use super::format::Words;

/// What to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// Type of the PMU.
    pub type_: u32,
    /// Which of its events.
    pub words: Words,
    /// In which modes it counts.
    pub modes: Modes,
    /// Threads and processes that the thread makes later are counted too.
    pub inherit: bool,
    /// Whether it waits to be enabled; the others of a group follow the first.
    pub disabled: bool,
    /// Whether the thread's next execve enables it.
    pub enable_on_exec: bool,
}

/// Whose work is counted.
#[derive(Debug, Clone, Copy)]
pub enum Who<'a> {
    /// Everybody's.
    All,
    /// A thread's, 0 for the caller.
    Thread(u32),
    /// That of a control group's members, given its folder.
    Cgroup(&'a File),
}

/// An open event; it is closed when dropped.
pub trait Counter {
    /// Its number, by which others join its group.
    fn number(&self) -> i32;
    /// Starts it and the others of its group.
    fn enable(&self) -> io::Result<()>;
    /// Reads its group into `words`: how many, time enabled, time running, then each count in the order of
    /// opening. Returns how many words were read.
    fn read(&self, words: &mut [u64]) -> io::Result<usize>;
}

/// The kernel, or what stands for it.
pub trait Kernel {
    /// Opens an event on `cpu`, None for any, in the group that `leader` opened.
    fn open(
        &self,
        attr: &Attr,
        who: Who<'_>,
        cpu: Option<u32>,
        leader: Option<i32>,
    ) -> io::Result<Box<dyn Counter>>;

    /// Lets the calling thread run for so long, on one of `cpus` if any are named.
    fn run_for(&self, time_ns: u64, cpus: Option<&[u32]>);

    /// Raises the limit of open files as far as it goes, and returns it.
    fn raise_file_limit(&self) -> u64;

    /// Whether the user is root.
    fn is_root(&self) -> bool;
}

/// This machine's kernel.
#[derive(Debug, Clone, Copy, Default)]
pub struct Live;

struct LiveCounter(OwnedFd);

impl Counter for LiveCounter {
    fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }

    fn enable(&self) -> io::Result<()> {
        // SAFETY: an open event.
        let status =
            unsafe { perf::ioctls::ENABLE(self.0.as_raw_fd(), bindings::PERF_IOC_FLAG_GROUP as _) };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    fn read(&self, words: &mut [u64]) -> io::Result<usize> {
        let size = size_of_val(words);
        // SAFETY: the kernel writes at most `size` bytes, all of which belong to `words`.
        let got = unsafe { libc::read(self.0.as_raw_fd(), words.as_mut_ptr().cast(), size) };
        if got < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(got as usize / 8)
    }
}

impl Kernel for Live {
    fn open(
        &self,
        attr: &Attr,
        who: Who<'_>,
        cpu: Option<u32>,
        leader: Option<i32>,
    ) -> io::Result<Box<dyn Counter>> {
        let mut raw = raw_attr(attr);
        let (pid, group) = match who {
            Who::All => (-1, 0),
            Who::Thread(id) => (id as i32, 0),
            Who::Cgroup(folder) => (folder.as_raw_fd(), bindings::PERF_FLAG_PID_CGROUP),
        };
        let flags = group | bindings::PERF_FLAG_FD_CLOEXEC;
        let cpu = cpu.map_or(-1, |cpu| cpu as i32);
        // SAFETY: `raw` is a whole perf_event_attr that says its size.
        let descriptor =
            unsafe { perf::perf_event_open(&mut raw, pid, cpu, leader.unwrap_or(-1), flags as _) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just returned this descriptor, so that nothing else owns it.
        Ok(Box::new(LiveCounter(unsafe {
            OwnedFd::from_raw_fd(descriptor)
        })))
    }

    fn run_for(&self, time_ns: u64, cpus: Option<&[u32]>) {
        let before = cpus.and_then(move_to);
        let end_ns = monotonic_ns() + time_ns;
        while monotonic_ns() < end_ns {
            std::hint::spin_loop();
        }
        if let Some(before) = before {
            set_affinity(&before);
        }
    }

    fn raise_file_limit(&self) -> u64 {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: `limit` is a valid place for one rlimit.
        unsafe {
            if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) != 0 {
                return 0;
            }
            let soft = limit.rlim_cur;
            limit.rlim_cur = limit.rlim_max;
            if libc::setrlimit(libc::RLIMIT_NOFILE, &limit) != 0 {
                return soft;
            }
        }
        limit.rlim_cur
    }

    fn is_root(&self) -> bool {
        // SAFETY: geteuid has no preconditions.
        unsafe { libc::geteuid() == 0 }
    }
}

fn raw_attr(attr: &Attr) -> perf_event_attr {
    let [config, config1, config2, config3] = attr.words;
    let mut raw = perf_event_attr {
        size: size_of::<perf_event_attr>() as u32,
        type_: attr.type_,
        config,
        config3,
        read_format: u64::from(
            bindings::PERF_FORMAT_GROUP
                | bindings::PERF_FORMAT_TOTAL_TIME_ENABLED
                | bindings::PERF_FORMAT_TOTAL_TIME_RUNNING,
        ),
        ..perf_event_attr::default()
    };
    raw.__bindgen_anon_3.config1 = config1;
    raw.__bindgen_anon_4.config2 = config2;
    if config3 == 0 {
        // Kernels before 6.3 know no config3.
        raw.size = std::mem::offset_of!(perf_event_attr, config3) as u32;
    }
    raw.set_disabled(u64::from(attr.disabled));
    raw.set_inherit(u64::from(attr.inherit));
    raw.set_enable_on_exec(u64::from(attr.enable_on_exec));
    raw.set_exclude_user(u64::from(attr.modes == Modes::Kernel));
    raw.set_exclude_kernel(u64::from(attr.modes == Modes::User));
    if attr.modes != Modes::All {
        raw.set_exclude_hv(1);
    }
    raw
}

/// Moves the calling thread to `cpus` and returns where it could run before.
fn move_to(cpus: &[u32]) -> Option<libc::cpu_set_t> {
    // SAFETY: cpu_set_t is plain integers, and CPUs beyond it are passed over.
    unsafe {
        let mut before: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of_val(&before), &mut before) != 0 {
            return None;
        }
        let mut wanted: libc::cpu_set_t = std::mem::zeroed();
        for &cpu in cpus
            .iter()
            .filter(|cpu| (**cpu as usize) < libc::CPU_SETSIZE as usize)
        {
            libc::CPU_SET(cpu as usize, &mut wanted);
        }
        set_affinity(&wanted).then_some(before)
    }
}

fn set_affinity(cpus: &libc::cpu_set_t) -> bool {
    // SAFETY: `cpus` is a whole cpu_set_t.
    unsafe { libc::sched_setaffinity(0, size_of_val(cpus), cpus) == 0 }
}
