//! The register of a server's threads: who they are and what CPU time they have used.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use steelyard_kernel::usage::{Usage, thread_times_ns};

const STACK_BYTES: usize = 256 * 1024;

/// One thread of the server.
#[derive(Debug, Clone)]
pub struct ThreadRow {
    /// Such as `fast-0`.
    pub name: String,
    /// Which pool it belongs to, such as `fast`.
    pub kind: &'static str,
    /// The kernel's number of it.
    tid: i32,
    /// User and system time when it ended, ns.
    ended_cpu_ns: Option<(u64, u64)>,
}

impl ThreadRow {
    /// Its number in its pool, which ends its name.
    pub fn number(&self) -> Option<usize> {
        self.name.rsplit('-').next()?.parse().ok()
    }

    /// Its user and system time, ns; None when the kernel does not report it.
    pub fn cpu_ns(&self) -> Option<(u64, u64)> {
        self.ended_cpu_ns.or_else(|| thread_times_ns(self.tid))
    }
}

/// Threads that stay on one CPU each: thread n of every pool on the n-th CPU, and round again.
#[derive(Debug, Clone)]
pub struct Pinning {
    /// Restricts the calling thread to CPUs.
    pub pin: fn(&[usize]) -> io::Result<()>,
    /// The CPUs; not empty.
    pub cpus: Vec<usize>,
}

/// The threads of a server.
#[derive(Debug, Default)]
pub struct Threads {
    rows: Mutex<Vec<ThreadRow>>,
    pinning: Option<Pinning>,
}

impl Threads {
    /// No threads yet; those to come are pinned, or float over the process's CPUs.
    pub fn placed(pinning: Option<Pinning>) -> Self {
        Self {
            rows: Mutex::default(),
            pinning,
        }
    }

    /// Starts thread `number` of pool `kind`. A panic in it ends the process of `program` with exit code 4.
    pub fn start(
        self: &Arc<Self>,
        program: &'static str,
        kind: &'static str,
        number: usize,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<thread::JoinHandle<()>> {
        let name = format!("{kind}-{number}");
        let threads = self.clone();
        thread::Builder::new()
            .name(name.clone())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let _watch = Watch { program };
                threads.pin(program, number);
                threads.enter(name, kind);
                body();
                threads.leave();
            })
    }

    /// Takes the calling thread to its CPU, where threads are pinned.
    fn pin(&self, program: &str, number: usize) {
        if let Some(Pinning { pin, cpus }) = &self.pinning {
            let cpu = cpus[number % cpus.len()];
            if let Err(error) = pin(&[cpu]) {
                give_up(program, &format!("cannot run on CPU {cpu}: {error}"));
            }
        }
    }

    /// Makes a thread known; called by the thread itself.
    fn enter(&self, name: String, kind: &'static str) {
        let tid = thread_id();
        self.rows
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(ThreadRow {
                name,
                kind,
                tid,
                ended_cpu_ns: None,
            });
    }

    /// Keeps the CPU time of a thread that ends, since the kernel forgets it; called by the thread itself.
    fn leave(&self) {
        let tid = thread_id();
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        for row in rows.iter_mut().filter(|row| row.tid == tid) {
            row.ended_cpu_ns = Some(Usage::of_thread().times_ns());
        }
    }

    /// All threads, by pool and number.
    pub fn rows(&self) -> Vec<ThreadRow> {
        let mut rows = self
            .rows
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        rows.sort_by(|a, b| (a.kind, a.name.len(), &a.name).cmp(&(b.kind, b.name.len(), &b.name)));
        rows
    }
}

/// Ends the process when its thread panics: the message is out, and a server that went on without the thread
/// would leave clients waiting for ever.
struct Watch {
    program: &'static str,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if thread::panicking() {
            give_up(self.program, "a thread has panicked");
        }
    }
}

/// Ends the process of `program`, whose work has failed, after one line that says why.
pub fn give_up(program: &str, why: &str) -> ! {
    eprintln!("{program}: {why}");
    // 4: the work failed, as for every executable.
    std::process::exit(4)
}

/// Returns the kernel's number of this thread. By system call: the C library has a function for it since glibc 2.30,
/// and packages are linked against 2.28.
fn thread_id() -> libc::pid_t {
    // SAFETY: gettid has no preconditions.
    let id = unsafe { libc::syscall(libc::SYS_gettid) };
    libc::pid_t::try_from(id).unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_known_while_they_run_and_after() {
        let threads = Arc::new(Threads::default());
        for number in [10, 2] {
            let seen = threads.clone();
            let thread = threads.start("test", "pool", number, move || {
                assert!(seen.rows().iter().any(|row| row.number() == Some(number)));
            });
            thread.expect("started").join().expect("no panic");
        }
        let rows = threads.rows();
        assert_eq!(
            rows.iter().map(|row| &row.name[..]).collect::<Vec<_>>(),
            ["pool-2", "pool-10"]
        );
        assert!(rows.iter().all(|row| row.cpu_ns().is_some()));
    }

    #[test]
    fn pinned_threads_take_the_cpus_in_turn() {
        thread_local!(static ASKED: std::cell::RefCell<Vec<usize>> = const { std::cell::RefCell::new(Vec::new()) });
        fn pin(cpus: &[usize]) -> io::Result<()> {
            ASKED.with_borrow_mut(|asked| asked.extend(cpus));
            Ok(())
        }
        let cpus = vec![4, 8];
        let threads = Arc::new(Threads::placed(Some(Pinning { pin, cpus })));
        let (sender, receiver) = std::sync::mpsc::channel();
        for number in 0..3 {
            let sender = sender.clone();
            let thread = threads.start("test", "pool", number, move || {
                sender.send(ASKED.take()).expect("a receiver");
            });
            thread.expect("started").join().expect("no panic");
        }
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [[4], [8], [4]]);
    }
}
