//! The supervisor: one command, all its descendants, one parent.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// How to run a command.
#[derive(Debug, Clone)]
pub struct Supervision {
    /// Program and arguments.
    pub command: Vec<String>,
    /// CPUs it may use, all when None.
    pub cpus: Option<Vec<usize>>,
    /// NUMA nodes its memory comes from, any when None.
    pub memory_nodes: Option<Vec<usize>>,
    /// The process that started the supervisor, if the command shall end when it ends.
    pub parent: Option<i32>,
    /// Time between asking the command to end and killing it.
    pub grace: Duration,
    /// Whether what the command leaves running goes on when it ends unasked.
    pub keeps_background: bool,
    /// Open descriptors that the command does not get.
    pub held: Vec<i32>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Signalled(i32),
}

impl Ended {
    /// The code a shell would report: the exit code, or 128 + the signal.
    pub fn code(self) -> u8 {
        match self {
            Self::Exited(code) => code as u8,
            Self::Signalled(signal) => (128 + signal) as u8,
        }
    }
}

/// Why a command could not be supervised.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// No command was given.
    #[error("no command given")]
    NoCommand,
    /// The command could not be started.
    #[error("{command}: {source}")]
    Start {
        /// The program.
        command: String,
        /// What the system said.
        source: io::Error,
    },
    /// The parent ended before the command was started.
    #[error("the parent process has ended")]
    Orphaned,
    /// The kernel did not bind memory to the nodes.
    #[error("cannot bind memory to NUMA nodes {nodes}: set_mempolicy: {source}{advice}")]
    Memory {
        /// The nodes that were asked for.
        nodes: String,
        /// What the system said.
        source: io::Error,
        /// What it means here, as the end of the line.
        advice: String,
    },
    /// A system call that cannot be done without failed.
    #[error("{call}: {source}")]
    System {
        /// The call.
        call: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

fn system(call: &'static str) -> LaunchError {
    LaunchError::System {
        call,
        source: io::Error::last_os_error(),
    }
}

/// Asks the kernel to send `signal` to this process when its parent ends; an error when it already has.
///
/// `parent` is the parent's process id, to notice that the parent ended before this call. The parent should pass
/// it: getppid(2) here may already return another process.
/// Source: prctl(2), PR_SET_PDEATHSIG. The parent is the *thread* that started us.
pub fn die_with_parent(signal: i32, parent: i32) -> Result<(), LaunchError> {
    // SAFETY: PR_SET_PDEATHSIG takes a signal number and touches no memory of ours.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) } != 0 {
        return Err(system("prctl(PR_SET_PDEATHSIG)"));
    }
    // SAFETY: getppid has no preconditions.
    if unsafe { libc::getppid() } != parent {
        return Err(LaunchError::Orphaned);
    }
    Ok(())
}

/// How long the threads of an ended command have for their last work in the kernel before it is reaped.
///
/// Each of them drops what the kernel cached of its part of /proc. Who reaps the command meanwhile waits in a
/// busy loop (`shrink_dcache_parent` of Linux 6.18), which on a CPU with other work keeps that thread from
/// running for seconds.
const LAST_WORK: Duration = Duration::from_millis(10);

/// The signals the supervisor waits for instead of being ended by them.
fn awaited_signals() -> libc::sigset_t {
    // SAFETY: sigset_t is plain data, and sigemptyset initialises it before it is read.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            libc::sigaddset(&mut set, signal);
        }
        set
    }
}

/// Runs a command to its end, and everything that descends from it.
pub fn supervise(supervision: &Supervision) -> Result<Ended, LaunchError> {
    let signals = awaited_signals();
    // SAFETY: `signals` is initialised, and the old mask is not asked for.
    if unsafe { libc::sigprocmask(libc::SIG_BLOCK, &signals, std::ptr::null_mut()) } != 0 {
        return Err(system("sigprocmask"));
    }
    // SAFETY: PR_SET_CHILD_SUBREAPER takes a flag and touches no memory of ours.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) } != 0 {
        return Err(system("prctl(PR_SET_CHILD_SUBREAPER)"));
    }
    if let Some(parent) = supervision.parent {
        die_with_parent(libc::SIGTERM, parent)?;
    }
    // Here and not between fork and exec, so that the kernel's error can be reported; the command
    // inherits the policy.
    if let Some(nodes) = &supervision.memory_nodes {
        crate::bind_memory(nodes).map_err(|source| refused(nodes, source))?;
    }
    for &held in &supervision.held {
        // SAFETY: F_SETFD takes a flag; of a number that is no descriptor it fails.
        if unsafe { libc::fcntl(held, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
            return Err(system("fcntl(F_SETFD)"));
        }
    }
    let child = start(supervision, signals)?;
    let (ended, was_asked) = wait(&child, supervision.grace, &signals)?;
    if was_asked || !supervision.keeps_background {
        end_descendants();
    }
    Ok(ended)
}

fn listed(nodes: &[usize]) -> String {
    let words: Vec<String> = nodes.iter().map(usize::to_string).collect();
    words.join(",")
}

fn refused(nodes: &[usize], source: io::Error) -> LaunchError {
    let advice = match source.raw_os_error() {
        Some(libc::EPERM) => {
            " (a seccomp filter forbids it, as that of containers without CAP_SYS_NICE)".to_owned()
        }
        Some(libc::ENOSYS) => " (this kernel has no NUMA support)".to_owned(),
        Some(libc::EINVAL) => crate::allowed_memory_nodes()
            .map(|allowed| format!(" (memory may come from {} here)", listed(&allowed)))
            .unwrap_or_default(),
        _ => String::new(),
    };
    LaunchError::Memory {
        nodes: listed(nodes),
        source,
        advice,
    }
}

fn start(supervision: &Supervision, blocked: libc::sigset_t) -> Result<Child, LaunchError> {
    let (program, arguments) = supervision
        .command
        .split_first()
        .ok_or(LaunchError::NoCommand)?;
    let cpus = supervision.cpus.clone();
    // SAFETY: getpid has no preconditions.
    let supervisor = unsafe { libc::getpid() };
    let mut command = Command::new(program);
    command.args(arguments).process_group(0);
    // SAFETY: between fork and exec only async-signal-safe calls are made (prctl, getppid, sigprocmask,
    // sched_setaffinity). The supervisor has one thread, so the allocations of `pin_to_cpus` and of an
    // error cannot meet a lock that another thread held at the fork.
    unsafe {
        command.pre_exec(move || {
            die_with_parent(libc::SIGKILL, supervisor).map_err(io::Error::other)?;
            crate::restore_file_size_signal();
            if libc::sigprocmask(libc::SIG_UNBLOCK, &blocked, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            cpus.as_deref().map_or(Ok(()), crate::pin_to_cpus)
        });
    }
    command.spawn().map_err(|source| LaunchError::Start {
        command: program.clone(),
        source,
    })
}

/// Waits for the command, forwarding requests to end and enforcing the grace time; how it ended, and whether it was
/// asked to.
fn wait(
    child: &Child,
    grace: Duration,
    signals: &libc::sigset_t,
) -> Result<(Ended, bool), LaunchError> {
    let main = child.id() as i32;
    let mut deadline: Option<Instant> = None;
    let mut was_asked = false;
    loop {
        if let Some(ended) = reap(main, deadline.is_some()) {
            return Ok((ended, was_asked));
        }
        let signal = next_signal(signals, deadline)?;
        match signal {
            Some(libc::SIGCHLD) => {}
            Some(request) => {
                was_asked = true;
                // A terminal's Ctrl-C reaches only the foreground group, which the command is not in.
                // SAFETY: the group is the command's own, and the command is not yet reaped.
                unsafe {
                    libc::kill(-main, request);
                    // A stopped command takes no signal but this one and SIGKILL.
                    libc::kill(-main, libc::SIGCONT);
                };
                deadline.get_or_insert_with(|| Instant::now() + grace);
            }
            None => {
                // SAFETY: as above.
                unsafe { libc::kill(-main, libc::SIGKILL) };
                deadline = None;
            }
        }
    }
}

/// The next awaited signal, or None when the deadline passed first.
fn next_signal(
    signals: &libc::sigset_t,
    deadline: Option<Instant>,
) -> Result<Option<i32>, LaunchError> {
    loop {
        let signal = match deadline {
            // SAFETY: `signals` is initialised; no further information is asked for.
            None => unsafe { libc::sigwaitinfo(signals, std::ptr::null_mut()) },
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                let timeout = libc::timespec {
                    tv_sec: left.as_secs() as libc::time_t,
                    tv_nsec: left.subsec_nanos() as libc::c_long,
                };
                // SAFETY: both pointers are to initialised values that outlive the call.
                unsafe { libc::sigtimedwait(signals, std::ptr::null_mut(), &timeout) }
            }
        };
        if signal > 0 {
            return Ok(Some(signal));
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::EAGAIN) => return Ok(None),
            Some(libc::EINTR) => {}
            _ => return Err(system("sigtimedwait")),
        }
    }
}

/// The next ended child, which stays to be reaped; with `WNOHANG` as `option` zeros where there is none now.
fn next_ended(option: i32) -> io::Result<libc::siginfo_t> {
    // SAFETY: siginfo_t is plain data.
    let mut information: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOWAIT | option;
    // SAFETY: `information` is a valid place for what is known of a child.
    match unsafe { libc::waitid(libc::P_ALL, 0, &mut information, options) } {
        0 => Ok(information),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Reaps every ended child, adopted ones too; the main one's end if it was among them.
///
/// The main one is reaped at once when it has ended by itself, as it may be timed, and after `LAST_WORK` when
/// a signal ended it or it was asked to end (`is_asked`).
fn reap(main: i32, is_asked: bool) -> Option<Ended> {
    let mut ended = None;
    while let Ok(information) = next_ended(libc::WNOHANG) {
        // SAFETY: the call has filled in what belongs to a child, or left zeros.
        let pid = unsafe { information.si_pid() };
        if pid == 0 {
            break;
        }
        if pid == main && (is_asked || information.si_code != libc::CLD_EXITED) {
            std::thread::sleep(LAST_WORK);
        }
        let mut status = 0;
        // SAFETY: `status` is a valid place for the status.
        if unsafe { libc::waitpid(pid, &mut status, 0) } == main {
            ended = Some(if libc::WIFSIGNALED(status) {
                Ended::Signalled(libc::WTERMSIG(status))
            } else {
                Ended::Exited(libc::WEXITSTATUS(status))
            });
        }
    }
    ended
}

/// Kills what the command left behind. Each round kills our children; theirs are then adopted by us and
/// fall in the next round, so that the loop ends when nothing descends from us.
fn end_descendants() {
    loop {
        for pid in children() {
            // SAFETY: `pid` is an unreaped child of ours, so its number cannot have passed to another.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        match next_ended(0) {
            Ok(_) => {
                std::thread::sleep(LAST_WORK);
                reap(0, false);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Our children by a scan of /proc, which works on kernels without CONFIG_PROC_CHILDREN too.
fn children() -> Vec<i32> {
    let own = std::process::id().to_string();
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // The command name may hold spaces and brackets; what follows its last bracket is fixed:
            // state, then the parent's id (proc(5)).
            let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
            fields.split_ascii_whitespace().nth(1) == Some(own.as_str())
        })
        .collect()
}
