//! A recording from start to end: the schedule drives the recorder until something ends it.
//!
//! Whatever ends it, except the count of ticks being reached and a target that has ended, a last tick is taken
//! then, so that cumulative counters cover the whole time.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use steelyard_launch::{GRACE, Stop};
use steelyard_record::{Telemetry, monotonic_ns};

use crate::ProbeError;
use crate::recorder::{Recorder, RecorderSettings};
use crate::schedule::{Event, Schedule};

/// What to record and for how long.
#[derive(Debug, Clone)]
pub struct Session {
    /// What to record.
    pub recorder: RecorderSettings,
    /// Ticks after which to end.
    pub count: Option<u64>,
    /// Time after which to end.
    pub duration: Option<Duration>,
    /// A command to run meanwhile; its end ends the recording.
    pub command: Vec<String>,
}

/// Time a command has to end by itself when the recording ends before it.
const COMMAND_GRACE: Duration = Duration::from_secs(5);
/// Time that packing a long recording into Parquet may take after a request to stop.
const FINISH: Duration = Duration::from_secs(120);

/// How a recording ended.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionEnd {
    /// What was written to `telemetry.json`.
    pub telemetry: Telemetry,
}

/// Records until the count, the time, the command or a signal ends it.
///
/// A command that is still running when the recording ends is sent SIGTERM, and SIGKILL five seconds later.
/// A signal that asks to stop ends the recording; the files are still finished (see [`Stop`]).
pub fn record(session: &Session) -> Result<SessionEnd, ProbeError> {
    let stop = Stop::watch().map_err(|source| ProbeError::System {
        what: "wait for signals",
        source,
    })?;
    steelyard_launch::ignore_file_size_signal();
    let mut recorder = Recorder::start(&session.recorder, Box::new(monotonic_ns))?;
    let mut command = start_command(&session.command)?;
    let reason = run(session, &mut recorder, command.as_ref(), stop);
    stop.allow(COMMAND_GRACE + FINISH);
    let command_exit = command.as_mut().and_then(end_command).map(exit_code);
    let ended = match reason {
        Ok(reason) => recorder
            .finish(reason, command_exit)
            .map(|telemetry| SessionEnd { telemetry }),
        Err(error) => {
            // The first error is the one to tell; finishing saves what can be saved.
            let _ = recorder.finish(&format!("error: {error}"), command_exit);
            Err(error)
        }
    };
    stop.allow(GRACE);
    ended
}

fn run(
    session: &Session,
    recorder: &mut Recorder,
    command: Option<&Child>,
    stop: &'static Stop,
) -> Result<&'static str, ProbeError> {
    let counted = |recorder: &Recorder| {
        session
            .count
            .is_some_and(|count| recorder.ticks() + 1 >= count)
    };
    let counted_out = counted(recorder);
    recorder.tick(counted_out)?;
    if counted_out {
        return Ok("count");
    }
    if recorder.is_over() {
        return Ok("target");
    }
    let mut schedule = Schedule::new(
        recorder.begin_ns(),
        session.recorder.interval_ns,
        session.duration,
        command,
        stop,
    )?;
    loop {
        let event = schedule.wait()?;
        let reason = match event {
            Event::Signal => Some("signal"),
            Event::CommandEnded => Some("command"),
            Event::Deadline => Some("duration"),
            Event::Tick { missed } => {
                recorder.count_missed(missed);
                // A tick that was due at the deadline is the last.
                let over = schedule.is_over().then_some("duration");
                counted(recorder).then_some("count").or(over)
            }
        };
        if !matches!(event, Event::Tick { .. }) {
            recorder.count_missed(schedule.missed_at_the_end()?);
        }
        recorder.tick(reason.is_some())?;
        if let Some(reason) = reason {
            return Ok(reason);
        }
        if recorder.is_over() {
            return Ok("target");
        }
    }
}

fn start_command(words: &[String]) -> Result<Option<Child>, ProbeError> {
    let Some((program, arguments)) = words.split_first() else {
        return Ok(None);
    };
    let mut command = Command::new(program);
    command.args(arguments);
    // SAFETY: between fork and exec only async-signal-safe calls are made: sigmask, signal and prctl.
    unsafe {
        command.pre_exec(|| {
            steelyard_launch::unblock()?;
            steelyard_launch::restore_file_size_signal();
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
    command
        .spawn()
        .map(Some)
        .map_err(|source| ProbeError::Command {
            command: program.clone(),
            source,
        })
}

/// Ends the command if it has not ended, and says how it did.
fn end_command(child: &mut Child) -> Option<ExitStatus> {
    if let Ok(Some(status)) = child.try_wait() {
        return Some(status);
    }
    // SAFETY: the child has not been waited for, so that its id is still its own.
    unsafe {
        libc::kill(child.id() as libc::pid_t, libc::SIGTERM);
        // A stopped command takes no signal but this one and SIGKILL.
        libc::kill(child.id() as libc::pid_t, libc::SIGCONT);
    }
    let end_ns = monotonic_ns() + COMMAND_GRACE.as_nanos() as u64;
    while monotonic_ns() < end_ns {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    child.wait().ok()
}

/// An exit status as shells report it: 128 + signal for a command ended by one.
fn exit_code(status: ExitStatus) -> i32 {
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
