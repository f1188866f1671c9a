//! The guard as the agent runs it: its state folder, the specifications' thread, what an earlier agent left, and the undoing.
//!
//! In: a configuration; each window's samples. Out: incidents for the store. See `watch` for what is decided.
//!
//! Invariants: one agent at a time guards from a state folder; what an earlier one left capped is taken back before anything
//! else is done.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use steelyard_kernel::cgroup::group_of;

use super::capping::audit::{Audit, Line};
use super::capping::caps::{Caps, Replayed, forget, replay};
use super::capping::journal::{Entry, Journal};
use super::capping::quota::Hierarchy;
use super::capping::watchdog::Watchdog;
use super::clock::{Moment, boot_id};
use super::incident::finish;
use super::settings::{Action, Settings};
use super::specs::pull::{Board, Known, Puller, Wanted};
use super::stats::Stats;
use super::watch::Guard;
use crate::private::Private;
use crate::rows::{Incident, Origin, TaskSample};
use crate::store::Store;

/// What the guard of a machine is made of.
pub struct Config {
    /// By what it judges and what it may do.
    pub settings: Settings,
    /// Which machine it is.
    pub origin: Origin,
    /// Where its journal and its audit log are.
    pub state: PathBuf,
    /// The hierarchy with the CPU controller; None where there is none, so that nothing can be capped.
    pub hierarchy: Option<Hierarchy>,
    /// The agent's own control group, which is never capped.
    pub own_cgroup: Option<String>,
    /// Time between two looks for specifications.
    pub refresh: Duration,
    /// The program that is to take caps back should the agent be killed; None for none.
    pub watchdog: Option<PathBuf>,
}

/// Why there is no guard.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// A setting that cannot be.
    #[error("{reason}")]
    Settings {
        /// What is wrong.
        reason: String,
    },
    /// Caps were asked for where there is nothing to cap with.
    #[error("nothing can be capped here: {reason}")]
    NoCaps {
        /// Why.
        reason: String,
    },
    /// Another agent guards from this folder.
    #[error("{folder}: another agent guards from this folder")]
    Busy {
        /// The folder.
        folder: PathBuf,
    },
    /// The state folder cannot be used.
    #[error("{folder}: {source}")]
    State {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A running guard.
pub struct Service {
    guard: Guard,
    board: Board,
    /// Ends when this is dropped.
    _puller: Puller,
    _lock: File,
    reported_state: Option<String>,
    stale_s: f64,
    left: Left,
}

/// Caps of an earlier agent that could not be taken back yet.
struct Left {
    journal: Journal,
    boot_id: String,
    owner: String,
    count: usize,
    retry_boot_s: f64,
}

const FOLDER: &str = "guard";
/// Seconds between two tries to take back what an earlier agent left.
const RETRY_S: f64 = 60.0;

/// The agent's own group by the text of /proc/self/cgroup, in the hierarchy with the CPU controller; None for the root, which is
/// never capped anyway.
pub fn own_group(text: &str) -> Option<String> {
    let own = group_of(text.as_bytes(), "cpu").or_else(|| group_of(text.as_bytes(), ""));
    own.filter(|path| *path != "/").map(str::to_owned)
}

/// The guard's folder below the agent's state folder.
pub fn folder(state: &Path) -> PathBuf {
    state.join(FOLDER)
}

fn unusable(folder: &Path) -> impl Fn(io::Error) -> GuardError + '_ {
    |source| GuardError::State {
        folder: folder.to_owned(),
        source,
    }
}

impl Service {
    /// Starts the guard. Returns the incidents that an earlier agent left open, whose caps were taken back.
    pub fn start(
        config: Config,
        store: Box<dyn Store + Send>,
        now: Moment,
    ) -> Result<(Self, Vec<Incident>), GuardError> {
        if let Some(reason) = config.settings.fault() {
            return Err(GuardError::Settings { reason });
        }
        let folder = folder(&config.state);
        let failed = unusable(&folder);
        let private = Private::make(&config.state)
            .and_then(|state| state.folder(FOLDER))
            .map_err(&failed)?;
        let lock = private.lock("lock").map_err(&failed)?;
        let lock = lock.ok_or_else(|| GuardError::Busy {
            folder: folder.clone(),
        })?;
        let mut audit = Audit::open(&folder).map_err(&failed)?;
        let journal = Journal::open(&folder).map_err(&failed)?;
        let boot = boot_id().map_err(&failed)?;
        let why = "left by an agent that ended without undoing it";
        let left = replay(&journal, now, &boot, |_| true, why, &mut audit).map_err(&failed)?;
        let incidents = tell_of_left(&left);
        forget(&journal, &left.ended).map_err(&failed)?;
        let owner = format!("{}-{:.0}", std::process::id(), now.boot_s * 1e3);
        let left = Left {
            journal: journal.clone(),
            boot_id: boot.clone(),
            owner: owner.clone(),
            count: left.failed.len(),
            retry_boot_s: now.boot_s + RETRY_S,
        };
        let caps = caps(&config, journal, boot, owner)?;
        let board = Board::default();
        let wanted = Wanted {
            cluster: config.origin.cluster.clone(),
            platform: config.origin.platform.clone(),
        };
        let puller =
            Puller::start(store, wanted, config.refresh, board.clone()).map_err(&failed)?;
        let stale_s = config.settings.spec_stale_s;
        let guard = Guard::new(
            config.settings,
            config.origin.machine,
            config.own_cgroup,
            caps,
            audit,
        );
        let service = Self {
            guard,
            board,
            _puller: puller,
            _lock: lock,
            reported_state: None,
            stale_s,
            left,
        };
        Ok((service, incidents))
    }

    /// Takes the samples of a finished window. Returns the incidents that are over.
    pub fn on_window(&mut self, now: Moment, samples: &[TaskSample]) -> Vec<Incident> {
        let known = self.board.look();
        self.tell_of_specs(now, &known);
        self.guard.on_window(now, samples, &known.specs)
    }

    /// Ends what is over: to be called each second or so, whether there are samples or not.
    pub fn tick(&mut self, now: Moment) -> Vec<Incident> {
        let mut over = self.guard.tick(now);
        over.append(&mut self.retry(now));
        over
    }

    /// Tries again to take back what an earlier agent left.
    fn retry(&mut self, now: Moment) -> Vec<Incident> {
        let left = &mut self.left;
        if left.count == 0 || now.boot_s < left.retry_boot_s {
            return Vec::new();
        }
        left.retry_boot_s = now.boot_s + RETRY_S;
        let why = "left by an agent that ended without undoing it, tried again";
        let others = |entry: &Entry| entry.owner != left.owner;
        let audit = self.guard.audit();
        let replayed = replay(&left.journal, now, &left.boot_id, others, why, audit)
            .and_then(|replayed| forget(&left.journal, &replayed.ended).map(|()| replayed));
        match replayed {
            Ok(replayed) => {
                left.count = replayed.failed.len();
                tell_of_left(&replayed)
            }
            Err(error) => {
                tracing::warn!(%error, "the guard's journal cannot be read");
                Vec::new()
            }
        }
    }

    /// Takes back every cap and ends every incident: the agent is about to end.
    pub fn stop(&mut self, now: Moment, why: &str) -> Vec<Incident> {
        self.guard.stop(now, why)
    }

    /// Figures of its own.
    pub fn stats(&self) -> Stats {
        self.guard.stats()
    }

    /// What is known of the specifications.
    pub fn specs(&self) -> Known {
        self.board.look()
    }

    /// A line of the audit log each time that something about the specifications changes.
    fn tell_of_specs(&mut self, now: Moment, known: &Known) {
        let state = state_of_specs(now, known, self.stale_s);
        if self.reported_state.as_ref() == Some(&state) {
            return;
        }
        let line = Line {
            what: "spec",
            why: known.failure.clone().unwrap_or_default(),
            outcome: state.clone(),
            ..Line::default()
        };
        self.guard.tell(now, &line);
        self.reported_state = Some(state);
    }
}

/// What is to be said about the specifications, in words that change only when something changes.
fn state_of_specs(now: Moment, known: &Known, stale_s: f64) -> String {
    let trouble = if known.failure.is_some() {
        "; not all could be pulled"
    } else {
        ""
    };
    let Some(built) = known.specs.built_unix_s() else {
        let state = match (known.pulled_unix_s, &known.failure) {
            (None, None) => "not pulled yet",
            (None, Some(_)) => "could not be pulled",
            (Some(_), _) => "the store has none for this platform",
        };
        return format!("no specification: {state}; nothing is judged");
    };
    let stale = if now.unix_s - built as f64 > stale_s {
        "; stale, used all the same"
    } else {
        ""
    };
    let count = known.specs.len();
    let ending = if count == 1 { "" } else { "s" };
    format!(
        "{count} specification{ending}, the newest built at {built} s of Unix time{stale}{trouble}"
    )
}

fn caps(
    config: &Config,
    journal: Journal,
    boot: String,
    owner: String,
) -> Result<Option<Caps>, GuardError> {
    if config.settings.action != Action::Cap {
        return Ok(None);
    }
    let Some(hierarchy) = config.hierarchy.clone() else {
        return Err(GuardError::NoCaps {
            reason: "no control groups with the CPU controller are mounted".into(),
        });
    };
    let caps = Caps::new(journal, hierarchy, owner.clone(), boot);
    Ok(Some(match &config.watchdog {
        None => caps,
        Some(program) => {
            caps.with_watchdog(Watchdog::new(program.clone(), config.state.clone(), owner))
        }
    }))
}

/// The incidents of caps that an earlier agent left, as they ended.
fn tell_of_left(left: &Replayed) -> Vec<Incident> {
    for (entry, error) in &left.failed {
        tracing::warn!(cgroup = entry.cgroup, %error, "a cap of an earlier agent cannot be undone");
    }
    left.ended
        .iter()
        .map(|entry| {
            let mut incident = entry.incident.clone();
            finish(&mut incident, Some(entry));
            incident
        })
        .collect()
}

/// Takes back the caps that an agent with this state folder left, or only those of `owner`. Their incidents stay in the journal for
/// the next agent to report.
pub fn undo(state: &Path, owner: Option<&str>, now: Moment) -> Result<Replayed, GuardError> {
    let folder = folder(state);
    let failed = unusable(&folder);
    // Said of a wrong path too: an undo that found nothing must not look like one that had nothing to do.
    fs::metadata(&folder).map_err(&failed)?;
    let Some(journal) = Journal::find(&folder).map_err(&failed)? else {
        return Ok(Replayed::default());
    };
    let mut audit = Audit::open(&folder).map_err(&failed)?;
    let why = match owner {
        None => "requested by steelyard-agent undo",
        Some(_) => "the agent is gone",
    };
    let boot = boot_id().map_err(&failed)?;
    let meant =
        |entry: &Entry| entry.ended.is_none() && owner.is_none_or(|owner| owner == entry.owner);
    replay(&journal, now, &boot, meant, why, &mut audit).map_err(failed)
}

#[cfg(test)]
mod tests;
