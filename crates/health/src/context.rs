//! What every part of a check is given: the settings, the machine, the request to stop.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use steelyard_launch::Stop;

use crate::error::HealthError;
use crate::topology::Topology;

/// Time that the result may take after a request to stop.
const FINISH: Duration = Duration::from_secs(10);

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// About 20 s.
    Quick,
    /// A couple of minutes.
    Full,
}

impl Mode {
    /// The word in the record.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How much is measured.
    pub mode: Mode,
    /// Parts to measure, of `PARTS`.
    pub parts: Vec<String>,
    /// Folder in which the disk is measured.
    pub directory: PathBuf,
    /// Whether fio may do the disk's I/O where it is installed.
    pub fio: bool,
    /// Seed of every random choice.
    pub seed: u64,
}

/// What the parts share.
pub(crate) struct Run<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) topology: &'a Topology,
    pub(crate) missing: BTreeMap<String, String>,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) progress: &'a (dyn Fn(&str, f64) + Sync),
}

impl Run<'_> {
    /// Ends the part when the check was interrupted.
    pub(crate) fn check_stop(&self) -> Result<(), HealthError> {
        if self.stop.load(Ordering::Relaxed) {
            Stop::allow_if_asked(FINISH);
            return Err(HealthError::Interrupted);
        }
        Ok(())
    }

    /// What is set to stop the check.
    pub(crate) fn stop(&self) -> &AtomicBool {
        self.stop
    }

    /// Tells how far a part is.
    pub(crate) fn progress(&self, part: &str, ratio: f64) {
        (self.progress)(part, ratio);
    }
}
