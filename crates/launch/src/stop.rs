//! SIGTERM, SIGINT, SIGHUP and SIGQUIT as a request to stop that no program can sit out.
//!
//! A thread of its own waits for the signals, so that neither a read that never returns nor a full pipe keeps a program alive.
//! The first signal sets a flag and makes a descriptor readable, for the program to stop in order. A program that has not ended
//! [`GRACE`] later is ended by the signal's default action, unless it has asked for more time with [`Stop::allow`]
//! meanwhile; a second signal, [`AGAIN`] after the first or later, ends it in any case.
//!
//! Invariants: signals that were ignored at the start (`nohup`) stay ignored, except SIGTERM; the grace time is counted in waits of
//! this thread, so that a suspended machine does not use it up.
//!
//! Not here: programs that have nothing to finish keep the signals' default action.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::time::Duration;

/// How long a program may take to stop unless it asks for more.
pub const GRACE: Duration = Duration::from_millis(800);
/// How long after the first signal another one ends the program at once. Signals that come together, as those of a terminal
/// that is closed, are one request.
pub const AGAIN: Duration = Duration::from_millis(300);

const TICK: Duration = Duration::from_millis(50);
const SIGNALS: [libc::c_int; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

/// A request to stop, which comes once in a process.
#[derive(Debug)]
pub struct Stop {
    asked: AtomicBool,
    ticks_left: AtomicU32,
    event: OwnedFd,
    restore: Mutex<Option<fn()>>,
}

static STOP: OnceLock<Stop> = OnceLock::new();

fn ticks(time: Duration) -> u32 {
    let ticks = time.as_millis().div_ceil(TICK.as_millis()).max(1);
    u32::try_from(ticks).unwrap_or(u32::MAX)
}

/// The signals that are waited for: all but those that this process inherited as ignored.
fn awaited() -> libc::sigset_t {
    // SAFETY: sigset_t and sigaction are plain data; sigemptyset makes the set valid, and the signals exist.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in SIGNALS {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut action);
            if signal == libc::SIGTERM || action.sa_sigaction != libc::SIG_IGN {
                libc::sigaddset(&mut set, signal);
            }
        }
        set
    }
}

fn mask(how: libc::c_int, set: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: the set is initialised, and the old mask is not asked for.
    match unsafe { libc::pthread_sigmask(how, set, std::ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Lets a write beyond the limit of a file's size (RLIMIT_FSIZE) fail with an error, which is reported, instead of ending the
/// process without a word. A child that is not ours gets the signal back by [`restore_file_size_signal`].
pub fn ignore_file_size_signal() {
    // SAFETY: ignoring a signal installs no handler.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Undoes [`ignore_file_size_signal`], for a child between fork and exec. Async-signal-safe.
pub fn restore_file_size_signal() {
    // SAFETY: the default action installs no handler.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
}

/// Lets the signals through again, for a child between fork and exec and for a program whose starter had blocked them.
/// Async-signal-safe.
pub fn unblock() -> io::Result<()> {
    // SAFETY: as in `awaited`.
    let set = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in SIGNALS {
            libc::sigaddset(&mut set, signal);
        }
        set
    };
    mask(libc::SIG_UNBLOCK, &set)
}

impl Stop {
    /// Blocks the signals in this thread and those that it starts, and has a thread wait for them; from the second call on it
    /// only blocks. To be called before other threads are started.
    pub fn watch() -> io::Result<&'static Self> {
        let set = awaited();
        mask(libc::SIG_BLOCK, &set)?;
        if let Some(stop) = STOP.get() {
            return Ok(stop);
        }
        // SAFETY: eventfd takes two numbers.
        let raw = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut is_first = false;
        let stop = STOP.get_or_init(|| {
            is_first = true;
            Self {
                asked: AtomicBool::new(false),
                ticks_left: AtomicU32::new(u32::MAX),
                // SAFETY: the descriptor was just made and nobody else owns it.
                event: unsafe { OwnedFd::from_raw_fd(raw) },
                restore: Mutex::new(None),
            }
        });
        if is_first {
            std::thread::Builder::new()
                .name("stop".to_owned())
                .spawn(move || stop.wait(&set))?;
        }
        Ok(stop)
    }

    /// Whether a signal has come.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// The flag that a signal sets.
    pub fn flag(&self) -> &AtomicBool {
        &self.asked
    }

    /// A descriptor that is readable from the first signal on; not to be read.
    pub fn descriptor(&self) -> RawFd {
        self.event.as_raw_fd()
    }

    /// The same descriptor to own.
    pub fn try_clone(&self) -> io::Result<OwnedFd> {
        self.event.try_clone()
    }

    /// Waits at most so long, and returns whether a signal has come.
    pub fn wait_for(&self, time: Duration) -> bool {
        let mut entry = libc::pollfd {
            fd: self.descriptor(),
            events: libc::POLLIN,
            revents: 0,
        };
        let time = libc::timespec {
            tv_sec: time.as_secs().min(1 << 30) as libc::time_t,
            tv_nsec: time.subsec_nanos() as libc::c_long,
        };
        // SAFETY: the entry and the time outlive the call, and no mask is given.
        unsafe { libc::ppoll(&mut entry, 1, &time, std::ptr::null()) };
        self.is_asked()
    }

    /// What is left to do may take so long from now on. Without a request to stop it does nothing.
    pub fn allow(&self, time: Duration) {
        if self.is_asked() {
            self.ticks_left.store(ticks(time), Ordering::Relaxed);
        }
    }

    /// As [`Stop::allow`], where the program may not have called [`Stop::watch`].
    pub fn allow_if_asked(time: Duration) {
        if let Some(stop) = STOP.get() {
            stop.allow(time);
        }
    }

    /// What to do before the program is ended out of order, such as giving back the terminal. It has a tenth of a second.
    pub fn on_forced_end(&self, restore: Option<fn()>) {
        *self.restore.lock().unwrap_or_else(PoisonError::into_inner) = restore;
    }

    fn wait(&self, set: &libc::sigset_t) {
        let tick = libc::timespec {
            tv_sec: 0,
            tv_nsec: TICK.as_nanos() as libc::c_long,
        };
        let mut first = 0;
        while first <= 0 {
            // SAFETY: the set is initialised; no further information is asked for.
            first = unsafe { libc::sigwaitinfo(set, std::ptr::null_mut()) };
        }
        self.ticks_left.store(ticks(GRACE), Ordering::Relaxed);
        self.asked.store(true, Ordering::Relaxed);
        // SAFETY: eight bytes of a number are what an eventfd takes.
        unsafe { libc::write(self.descriptor(), (&raw const ONE).cast(), 8) };
        let mut passed = 0;
        loop {
            // SAFETY: as above, and the time outlives the call.
            let signal = unsafe { libc::sigtimedwait(set, std::ptr::null_mut(), &tick) };
            if signal > 0 {
                if passed >= ticks(AGAIN) {
                    self.end(signal);
                }
                continue;
            }
            passed += 1;
            if self.ticks_left.fetch_sub(1, Ordering::Relaxed) <= 1 {
                self.end(first);
            }
        }
    }

    /// Ends the process by the signal's default action.
    fn end(&self, signal: libc::c_int) -> ! {
        let restore = *self.restore.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(restore) = restore {
            let (done, is_done) = mpsc::channel();
            std::thread::spawn(move || {
                restore();
                let _ = done.send(());
            });
            let _ = is_done.recv_timeout(2 * TICK);
        }
        // SAFETY: neither call takes a pointer that is not valid; the process ends here.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            let _ = unblock();
            libc::raise(signal);
            libc::_exit(128 + signal)
        }
    }
}

static ONE: u64 = 1;
