//! Takes files from the spool to the store, one by one, the oldest first.
//!
//! In: a spool's folder and a store. Out: the store has the files, and the spool has not.
//!
//! Invariants: a file is removed after the store has it; one whose journal is still there is left alone; a store that
//! does not answer is asked again after a while that doubles up to a bound.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use super::{InFlight, JOURNAL, READY, Ready};
use crate::disk::Disk;
use crate::store::{self, Store, StoreError};

/// The first wait after a failure, s.
const FIRST_WAIT_S: f64 = 1.0;

/// Why a file did not go.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The spool.
    #[error("{path}: {source}")]
    Spool {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What a step did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A file is in the store.
    Uploaded {
        /// Its bytes.
        bytes: u64,
    },
    /// There is nothing to do.
    Idle,
}

/// What was uploaded, and how that goes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UploadFigures {
    /// Files that the store has.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Tries that failed.
    pub failures: u64,
    /// Why the last try failed; None when it did not.
    pub last_error: Option<String>,
    /// When the store last took something or was found well.
    pub last_success_unix_s: Option<i64>,
}

/// Uploads.
pub struct Uploader<D> {
    disk: D,
    folder: PathBuf,
    store: Box<dyn Store + Send>,
    create: bool,
    is_checked: bool,
    in_flight: InFlight,
    wait_s: f64,
    most_wait_s: f64,
    /// What was done so far.
    pub figures: UploadFigures,
}

impl<D: Disk> Uploader<D> {
    /// An uploader from the spool in `folder`. `create` makes the store where there is none.
    pub fn new(
        disk: D,
        folder: &Path,
        store: Box<dyn Store + Send>,
        create: bool,
        in_flight: InFlight,
    ) -> Self {
        Self {
            disk,
            folder: folder.to_owned(),
            store,
            create,
            is_checked: false,
            in_flight,
            wait_s: 0.0,
            most_wait_s: 300.0,
            figures: UploadFigures::default(),
        }
    }

    /// Uploads the oldest file. After an error, [`Uploader::wait_s`] should pass before the next step.
    pub fn step(&mut self, now_unix_s: i64) -> Result<Step, UploadError> {
        let result = self.try_step();
        match &result {
            Ok(step) => {
                self.wait_s = 0.0;
                self.figures.last_error = None;
                self.figures.last_success_unix_s = Some(now_unix_s);
                if let Step::Uploaded { bytes } = step {
                    self.figures.files += 1;
                    self.figures.bytes += bytes;
                }
            }
            Err(error) => {
                self.wait_s = (self.wait_s * 2.0).clamp(FIRST_WAIT_S, self.most_wait_s);
                // The store may be another after it was away: whether it is one is asked again.
                self.is_checked = false;
                self.figures.failures += 1;
                self.figures.last_error = Some(error.to_string());
            }
        }
        result
    }

    /// How long to wait before the next step, s: 0 unless the last one failed.
    pub fn wait_s(&self) -> f64 {
        self.wait_s
    }

    /// The store.
    pub fn store(&mut self) -> &mut dyn Store {
        &mut *self.store
    }

    fn try_step(&mut self) -> Result<Step, UploadError> {
        if !self.is_checked {
            store::check(&mut *self.store, self.create)?;
            self.is_checked = true;
        }
        let ready = self.folder.join(READY);
        let spool = |path: &Path, source| UploadError::Spool {
            path: path.to_owned(),
            source,
        };
        let journals = self
            .disk
            .list(&self.folder.join(JOURNAL))
            .map_err(|error| spool(&self.folder, error))?;
        let is_whole = |file: &Ready| !journals.contains(&format!("{}.journal", file.id));
        let names = self
            .disk
            .list(&ready)
            .map_err(|error| spool(&ready, error))?;
        let mut files = names.iter().filter_map(|name| Ready::parse(name));
        let Some(file) = files.find(is_whole) else {
            return Ok(Step::Idle);
        };
        let name = file.file_name();
        self.fly(Some(name.clone()));
        let result = self.carry(&file, &ready.join(&name));
        self.fly(None);
        result
    }

    fn fly(&self, name: Option<String>) {
        *self
            .in_flight
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = name;
    }

    fn carry(&mut self, file: &Ready, path: &Path) -> Result<Step, UploadError> {
        let spool = |source| UploadError::Spool {
            path: path.to_owned(),
            source,
        };
        let bytes = match self.disk.read(path) {
            // Dropped to make room since it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Step::Idle),
            other => other.map_err(spool)?,
        };
        self.store.put(&file.key(), &bytes)?;
        self.disk.remove(path).map_err(spool)?;
        Ok(Step::Uploaded {
            bytes: bytes.len() as u64,
        })
    }
}
