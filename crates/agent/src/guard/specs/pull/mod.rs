//! Specifications from the fleet's store, pulled by a thread of their own.
//!
//! In: what `steelyard fleet cpi specs --write` published for this machine's platform, for its cluster and for all. Out:
//! [`Board`]: the newest specifications, how old they are, and why there are none or no newer ones.
//!
//! Invariants: the guard never waits for the store; a store that is away, a file that is broken or a row that cannot be true
//! leaves the known ones in use, and is reported.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use steelyard_record::CpiSpec;

use super::file::decode;
use super::spec::Specs;
use crate::guard::clock::Moment;
use crate::store::{Store, StoreError};
use crate::table::percent_encode;

/// The cluster under which what holds for all clusters is stored.
const ALL_CLUSTERS: &str = "all";

/// What is known of the specifications.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The specifications.
    pub specs: Arc<Specs>,
    /// When they were pulled, in seconds of Unix time; None while they never were.
    pub pulled_unix_s: Option<f64>,
    /// What went wrong at the last try, if something did.
    pub failure: Option<String>,
}

/// Where the thread puts what it pulled, and the guard looks.
#[derive(Debug, Clone, Default)]
pub struct Board(Arc<Mutex<Known>>);

impl Board {
    /// What is known now.
    pub fn look(&self) -> Known {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn put(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Whose specifications are wanted.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The machine's cluster.
    pub cluster: String,
    /// The machine's platform.
    pub platform: String,
}

/// What one pull read from the store.
#[derive(Debug, Default)]
pub struct Pulled {
    /// Their rows.
    pub rows: Vec<CpiSpec>,
    /// Files that could not be read, with reasons.
    pub broken: Vec<String>,
}

/// Where the specifications of a platform for a cluster are published.
pub fn key_of(cluster: &str, platform: &str) -> String {
    let (cluster, platform) = (percent_encode(cluster), percent_encode(platform));
    format!("published/cpi_specs/cluster={cluster}/platform={platform}.json")
}

/// The published specifications.
pub fn pull(store: &mut dyn Store, wanted: &Wanted) -> Result<Pulled, StoreError> {
    let mut pulled = Pulled::default();
    let mut keys = vec![
        key_of(&wanted.cluster, &wanted.platform),
        key_of(ALL_CLUSTERS, &wanted.platform),
    ];
    keys.dedup();
    for key in keys {
        let Some(bytes) = store.get(&key)? else {
            continue;
        };
        match decode(&key, &bytes, &wanted.platform) {
            Ok(rows) => pulled.rows.extend(rows),
            Err(reason) => pulled.broken.push(reason),
        }
    }
    Ok(pulled)
}

/// The thread that pulls. It ends when this is dropped, after the request it is at.
#[derive(Debug)]
pub struct Puller {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Puller {
    /// Pulls now and every `period`, into `board`.
    pub fn start(
        mut store: Box<dyn Store + Send>,
        wanted: Wanted,
        period: Duration,
        board: Board,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel::<()>();
        let blocked = Blocked::all();
        let thread = thread::Builder::new()
            .name("guard-specs".into())
            .spawn(move || {
                loop {
                    let now = Moment::now();
                    post(&board, now, pull(store.as_mut(), &wanted));
                    match stopped.recv_timeout(period) {
                        Err(RecvTimeoutError::Timeout) => {}
                        Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
                    }
                }
            });
        drop(blocked);
        let thread = thread?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

/// Signals kept from this thread, and from those that it starts meanwhile: the agent waits for them elsewhere.
struct Blocked(libc::sigset_t);

impl Blocked {
    fn all() -> Self {
        // SAFETY: sigset_t is plain data; sigfillset makes it a valid set, and the old mask is written to one.
        unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            Self(before)
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set is the mask that this thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

/// Puts the outcome of a look on the board.
fn post(board: &Board, now: Moment, outcome: Result<Pulled, StoreError>) {
    match outcome {
        Err(error) => {
            tracing::warn!(%error, "no CPI specifications could be pulled");
            board.put(|known| known.failure = Some(error.to_string()));
        }
        Ok(pulled) => {
            let specs = Specs::newest(pulled.rows);
            let mut failures = pulled.broken;
            if specs.rejected() > 0 {
                failures.push(format!("{} rows have impossible values", specs.rejected()));
            }
            for failure in &failures {
                tracing::warn!(failure, "CPI specifications were skipped");
            }
            board.put(|known| {
                known.specs = Arc::new(specs);
                known.pulled_unix_s = Some(now.unix_s);
                known.failure = (!failures.is_empty()).then(|| failures.join("; "));
            });
        }
    }
}

impl Drop for Puller {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A request that hangs must not keep the agent from ending: the thread is left to the process's end.
        if let Some(thread) = self.thread.take()
            && thread.is_finished()
        {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
