//! The agent as a process: signals, threads, and the clocks of the machine.
//!
//! In: settings, a store. Out: an agent that runs until it is asked to end, or for one window.
//!
//! Threads: this one samples; one uploads, since a store may hang; one answers Prometheus; the guard has one of its own.

use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use steelyard_launch::{GRACE, Stop};
use steelyard_record::{Clock, monotonic_ns};

use crate::agent::{Agent, AgentSettings, Profiler, Watch};
use crate::disk::Disk;
use crate::health::{Health, own, serve};
use crate::private::Private;
use crate::profiling::is_chosen;
use crate::rows::ProfileRow;
use crate::spool::upload::{Step, UploadError, Uploader};
use crate::store::Store;

/// Time between two looks for files to upload.
const LOOK: Duration = Duration::from_secs(5);
/// Time that the store has at the end for each file, and for all of them; the rest stays in the spool.
const FAREWELL: Duration = Duration::from_millis(400);
const FAREWELL_MOST: Duration = Duration::from_secs(15);

/// Why an agent does not run.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Another agent has the spool.
    #[error("{folder}: another agent has this spool")]
    Busy {
        /// The spool.
        folder: PathBuf,
    },
    /// The spool cannot be used.
    #[error("the spool {folder}: {source}")]
    Spool {
        /// Its folder.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The page for Prometheus cannot be had.
    #[error("metrics.listen {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// What was sampled could not be uploaded; it stays in the spool.
    #[error("the rows stay in the spool: {0}")]
    Upload(#[from] UploadError),
}

/// How to run.
pub struct Running {
    /// Settings of the agent.
    pub settings: AgentSettings,
    /// Where its files go.
    pub store: Box<dyn Store + Send>,
    /// Make the store where there is none.
    pub create_store: bool,
    /// One window, and the end.
    pub once: bool,
    /// The program and arguments that profile; the rest is added.
    pub profile_command: Vec<String>,
    /// What judges samples.
    pub watch: Option<Box<dyn Watch>>,
}

/// Runs the agent until SIGTERM, SIGINT or SIGHUP, or for one window.
pub fn run(running: Running) -> Result<(), AgentError> {
    let folder = running.settings.spool.clone();
    let spool = |source| AgentError::Spool {
        folder: folder.clone(),
        source,
    };
    let stop = Stop::watch().map_err(spool)?;
    let (private, _lock) = take(&folder)?;
    let profiler = Box::new(ProcessProfiler {
        command: running.profile_command,
        out: private.path().join("profile.json"),
        folder: private.clone(),
        child: None,
    });
    let listen = running.settings.config.metrics.listen.clone();
    let profiles = running.settings.config.profiles.clone();
    let (machine, window_s) = (
        running.settings.origin.machine.clone(),
        running.settings.config.sampling.window_s,
    );
    let mut settings = running.settings;
    if running.once {
        // Its one profile is begun here, and no minute that begins meanwhile is another's.
        settings.config.profiles.minutes_ratio = 0.0;
    }
    let mut agent = Agent::new(
        settings,
        profiler,
        running.watch,
        monotonic_ns,
        Clock::now(),
    )
    .map_err(spool)?;
    if !listen.is_empty() && !running.once {
        let refuse = |source| AgentError::Listen {
            address: listen.clone(),
            source,
        };
        let listener = TcpListener::bind(&listen).map_err(refuse)?;
        let health = agent.health();
        std::thread::spawn(move || serve(listener, health));
    }
    let uploader = Uploader::new(
        private.clone(),
        private.path(),
        running.store,
        running.create_store,
        agent.spool().in_flight(),
    );
    if running.once {
        // Two windows of one machine never begin in the same second.
        let to_next_ns = 1_000_000_000 - Clock::now().realtime_ns % 1_000_000_000;
        stop.wait_for(Duration::from_nanos(to_next_ns));
        let minute = Clock::now().realtime_ns as i64 / 60_000_000_000;
        if is_chosen(&machine, minute, profiles.seed, profiles.minutes_ratio) {
            agent.begin_profile((Clock::now().realtime_ns / 1_000_000_000) as i64, window_s);
        }
        return once(&mut agent, uploader, stop).map_err(|error| error.unwrap_or_else(spool));
    }
    let carrier = Carrier::start(uploader, agent.health());
    sample(&mut agent, stop);
    stop.allow(FAREWELL_MOST + 2 * GRACE);
    let stopped = agent.stop(Clock::now()).map_err(spool);
    carrier.end();
    stop.allow(GRACE);
    stopped
}

/// What ended a single window badly: the upload, or the spool.
enum Ended {
    Upload(UploadError),
    Spool(io::Error),
}

impl Ended {
    fn unwrap_or_else(self, spool: impl FnOnce(io::Error) -> AgentError) -> AgentError {
        match self {
            Self::Upload(error) => AgentError::Upload(error),
            Self::Spool(error) => spool(error),
        }
    }
}

/// Samples until a signal comes.
fn sample(agent: &mut Agent, stop: &Stop) {
    loop {
        let wait_ns = agent.tick(Clock::now(), own());
        if wait_ns > 0 && stop.wait_for(Duration::from_nanos(wait_ns)) {
            return;
        }
    }
}

fn once(agent: &mut Agent, mut uploader: Uploader<Private>, stop: &Stop) -> Result<(), Ended> {
    agent.begin_now(Clock::now());
    let windows = |agent: &Agent| {
        agent
            .health()
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .windows
    };
    while windows(agent) == 0 {
        let wait_ns = agent.tick(Clock::now(), own());
        if wait_ns > 0 && stop.wait_for(Duration::from_nanos(wait_ns)) {
            break;
        }
    }
    while agent.is_profiling() && !agent.take_profile() {
        if stop.wait_for(Duration::from_millis(50)) {
            break;
        }
    }
    agent.stop(Clock::now()).map_err(Ended::Spool)?;
    let now_unix_s = (Clock::now().realtime_ns / 1_000_000_000) as i64;
    while uploader.step(now_unix_s).map_err(Ended::Upload)? != Step::Idle {}
    Ok(())
}

/// Takes the spool for this process.
fn take(folder: &Path) -> Result<(Private, File), AgentError> {
    let spool = |source| AgentError::Spool {
        folder: folder.to_owned(),
        source,
    };
    let private = Private::make(folder).map_err(spool)?;
    let lock = private.lock("lock").map_err(spool)?;
    let lock = lock.ok_or_else(|| AgentError::Busy {
        folder: folder.to_owned(),
    })?;
    Ok((private, lock))
}

/// The thread that uploads.
struct Carrier {
    /// Dropped to say that the end has come.
    stop: Sender<()>,
    ended: Receiver<()>,
}

impl Carrier {
    fn start(mut uploader: Uploader<Private>, health: Arc<Mutex<Health>>) -> Self {
        let (stop, asked) = channel();
        let (done, ended) = channel();
        std::thread::spawn(move || {
            let mut reported = None;
            let mut is_ending = false;
            loop {
                let now_unix_s = (Clock::now().realtime_ns / 1_000_000_000) as i64;
                let step = uploader.step(now_unix_s);
                if is_ending {
                    let _ = done.send(());
                }
                health.lock().unwrap_or_else(PoisonError::into_inner).upload =
                    uploader.figures.clone();
                report_store(&step, &mut reported, uploader.store().url());
                let wait = match step {
                    Ok(Step::Uploaded { .. }) => Duration::ZERO,
                    _ if is_ending => break,
                    Ok(Step::Idle) => LOOK,
                    Err(_) => Duration::from_secs_f64(uploader.wait_s()),
                };
                if !is_ending && asked.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected) {
                    is_ending = true;
                }
            }
        });
        Self { stop, ended }
    }

    /// Uploads what is there, as long as the store takes one file after the other.
    fn end(self) {
        drop(self.stop);
        let begin = Instant::now();
        let ended = loop {
            match self.ended.recv_timeout(FAREWELL) {
                Ok(()) if begin.elapsed() < FAREWELL_MOST => {}
                other => break other,
            }
        };
        if ended != Err(RecvTimeoutError::Disconnected) {
            tracing::warn!(
                "the upload did not finish in time; the remaining rows stay in the spool"
            );
        }
    }
}

/// A line when the store goes away, one when what is wrong changes, and one when it is back.
fn report_store(step: &Result<Step, UploadError>, reported: &mut Option<String>, url: &str) {
    match step {
        Err(error) => {
            let text = error.to_string();
            if reported.as_ref() != Some(&text) {
                tracing::warn!("the store cannot be reached; rows wait in the spool: {text}");
                *reported = Some(text);
            }
        }
        Ok(_) => {
            if reported.take().is_some() {
                tracing::warn!("the store {url} answers again");
            }
        }
    }
}

/// Profiles by a process of its own.
struct ProcessProfiler {
    command: Vec<String>,
    out: PathBuf,
    folder: Private,
    child: Option<Child>,
}

impl Profiler for ProcessProfiler {
    fn begin(&mut self, start_unix_s: i64, duration_s: f64) -> io::Result<()> {
        if self.child.is_some() {
            return Ok(());
        }
        let Some((program, arguments)) = self.command.split_first() else {
            return Err(io::Error::other("no program profiles"));
        };
        let child = Command::new(program)
            .args(arguments)
            .args([
                "--start",
                &start_unix_s.to_string(),
                "--duration",
                &format!("{duration_s:.3}s"),
                "--out",
            ])
            .arg(&self.out)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        self.child = Some(child);
        Ok(())
    }

    fn take(&mut self) -> Option<Result<Vec<ProfileRow>, String>> {
        let status = match self.child.as_mut()?.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => status,
            Err(error) => {
                self.child = None;
                return Some(Err(error.to_string()));
            }
        };
        let child = self.child.take()?;
        if !status.success() {
            let mut stderr = String::new();
            if let Some(mut errors) = child.stderr {
                let _ =
                    io::Read::read_to_string(&mut io::Read::take(&mut errors, 4096), &mut stderr);
            }
            let stderr = crate::identity::rules::clean(stderr.trim());
            return Some(Err(if stderr.is_empty() {
                status.to_string()
            } else {
                stderr
            }));
        }
        let read = self
            .folder
            .read(&self.out)
            .map_err(|error| error.to_string());
        let _ = self.folder.remove(&self.out);
        Some(read.and_then(|text| serde_json::from_slice(&text).map_err(|error| error.to_string())))
    }

    fn is_going_on(&self) -> bool {
        self.child.is_some()
    }
}

impl Drop for ProcessProfiler {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Lets this process be ended when the one that started it ends.
pub fn die_with_parent() {
    // SAFETY: prctl with these arguments touches no memory.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
}
