//! When the next tick is due, and what else may end the wait: a signal, the recorded command, the deadline.
//!
//! Ticks are due at absolute times (start + n x interval) of the monotonic clock, so that neither a late tick
//! nor a step of the date shifts those that follow. Ticks that pass while one is still being taken are
//! counted and not made up for. Source: timerfd_create(2), pidfd_open(2).

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::process::Child;
use std::time::Duration;

use steelyard_launch::Stop;

use crate::ProbeError;

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A tick is due; so many before it were missed.
    Tick {
        /// Due but not taken.
        missed: u64,
    },
    /// A signal that asks to stop.
    Signal,
    /// The recorded command has ended.
    CommandEnded,
    /// The time asked for is over.
    Deadline,
}

/// Timer, signals and command, waited for together.
pub struct Schedule {
    /// None when ticks follow back to back.
    timer: Option<File>,
    stop: &'static Stop,
    command: Option<OwnedFd>,
    deadline_ns: Option<u64>,
}

fn system(what: &'static str) -> ProbeError {
    ProbeError::System {
        what,
        source: io::Error::last_os_error(),
    }
}

/// Takes over a descriptor that a system call returned.
fn owned(descriptor: RawFd, what: &'static str) -> Result<OwnedFd, ProbeError> {
    if descriptor < 0 {
        return Err(system(what));
    }
    // SAFETY: the kernel has just returned this descriptor, so that nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    }
}

impl Schedule {
    /// Ticks at `begin_ns + n x interval_ns` for n >= 1, or back to back when the interval is 0.
    pub fn new(
        begin_ns: u64,
        interval_ns: u64,
        duration: Option<Duration>,
        command: Option<&Child>,
        stop: &'static Stop,
    ) -> Result<Self, ProbeError> {
        let timer = match interval_ns {
            0 => None,
            _ => Some(timer(begin_ns, interval_ns)?),
        };
        let command = match command {
            // SAFETY: pidfd_open takes two numbers. The child has not been waited for, so its id is its own.
            Some(child) => Some(owned(
                unsafe { libc::syscall(libc::SYS_pidfd_open, child.id() as libc::pid_t, 0) }
                    as RawFd,
                "watch the command",
            )?),
            None => None,
        };
        Ok(Self {
            timer,
            stop,
            command,
            deadline_ns: duration
                .map(|duration| begin_ns.saturating_add(duration.as_nanos() as u64)),
        })
    }

    /// Waits for what comes next.
    pub fn wait(&mut self) -> Result<Event, ProbeError> {
        loop {
            // Without a timer the next tick is due now, and the poll only looks.
            let mut timeout_ns = self.timer.is_none().then_some(0);
            if let Some(deadline_ns) = self.deadline_ns {
                let left_ns = deadline_ns.saturating_sub(steelyard_record::monotonic_ns());
                if left_ns == 0 {
                    return Ok(Event::Deadline);
                }
                timeout_ns = Some(timeout_ns.unwrap_or(left_ns).min(left_ns));
            }
            let ready = self.poll(timeout_ns)?;
            if ready[0] {
                return Ok(Event::Signal);
            }
            if ready[1] {
                self.command = None;
                return Ok(Event::CommandEnded);
            }
            match &mut self.timer {
                None => return Ok(Event::Tick { missed: 0 }),
                Some(timer) if ready[2] => {
                    return Ok(Event::Tick {
                        missed: expirations(timer)?.saturating_sub(1),
                    });
                }
                // The deadline, or an interruption.
                Some(_) => {}
            }
        }
    }

    /// Ticks that were due and were not waited for, when something else ended the recording. The last
    /// tick, which is taken then, stands for one of them.
    pub fn missed_at_the_end(&mut self) -> Result<u64, ProbeError> {
        let due = self.poll(Some(0))?[2];
        match &mut self.timer {
            Some(timer) if due => Ok(expirations(timer)?.saturating_sub(1)),
            _ => Ok(0),
        }
    }

    /// Whether the time asked for is over.
    pub fn is_over(&self) -> bool {
        self.deadline_ns
            .is_some_and(|deadline_ns| steelyard_record::monotonic_ns() >= deadline_ns)
    }

    /// Which of signals, command and timer are ready.
    fn poll(&self, timeout_ns: Option<u64>) -> Result<[bool; 3], ProbeError> {
        let entry = |descriptor: Option<RawFd>| libc::pollfd {
            // A negative descriptor is passed over: poll(2).
            fd: descriptor.unwrap_or(-1),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut entries = [
            entry(Some(self.stop.descriptor())),
            entry(self.command.as_ref().map(AsRawFd::as_raw_fd)),
            entry(self.timer.as_ref().map(AsRawFd::as_raw_fd)),
        ];
        let timeout = timeout_ns.map(timespec);
        // SAFETY: the entries and the timeout outlive the call, and the count is theirs.
        let status = unsafe {
            libc::ppoll(
                entries.as_mut_ptr(),
                entries.len() as libc::nfds_t,
                timeout
                    .as_ref()
                    .map_or(std::ptr::null(), std::ptr::from_ref),
                std::ptr::null(),
            )
        };
        if status < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return Err(system("wait for the next tick"));
        }
        Ok(entries.map(|entry| status > 0 && entry.revents != 0))
    }
}

fn timer(begin_ns: u64, interval_ns: u64) -> Result<File, ProbeError> {
    // SAFETY: timerfd_create takes two numbers.
    let descriptor = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) };
    let timer = owned(descriptor, "make a timer")?;
    let times = libc::itimerspec {
        it_interval: timespec(interval_ns),
        it_value: timespec(begin_ns + interval_ns),
    };
    // SAFETY: `times` outlives the call and the old value is not asked for.
    let status = unsafe {
        libc::timerfd_settime(
            timer.as_raw_fd(),
            libc::TFD_TIMER_ABSTIME,
            &times,
            std::ptr::null_mut(),
        )
    };
    if status != 0 {
        return Err(system("set a timer"));
    }
    Ok(File::from(timer))
}

/// How often the timer has expired since it was asked last.
fn expirations(timer: &mut File) -> Result<u64, ProbeError> {
    let mut count = [0; 8];
    timer
        .read_exact(&mut count)
        .map_err(|source| ProbeError::System {
            what: "read the timer",
            source,
        })?;
    Ok(u64::from_ne_bytes(count))
}
