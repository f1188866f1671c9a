//! A folder as store.
//!
//! A file is written under a hidden name beside its own, made safe, and renamed.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use super::{MARKER, Store, StoreError};
use crate::disk::{Disk, write_whole};

/// A folder.
pub struct Directory<D> {
    url: String,
    folder: PathBuf,
    disk: D,
    /// Folders that are known to be there and safe.
    made: HashSet<PathBuf>,
}

impl<D: Disk> Directory<D> {
    /// The folder at `path`.
    pub fn new(path: &Path, disk: D) -> Self {
        Self {
            url: path.display().to_string(),
            folder: path.to_owned(),
            disk,
            made: HashSet::new(),
        }
    }

    fn access(path: &Path, error: &io::Error) -> StoreError {
        StoreError::Access {
            place: path.display().to_string(),
            reason: error.to_string(),
        }
    }

    /// Makes a folder of the store whose name survives a loss of power, from the store downwards.
    fn make_folder(&mut self, folder: &Path) -> io::Result<()> {
        if self.made.contains(folder) {
            return Ok(());
        }
        self.disk.create_folder(folder)?;
        let mut above = folder;
        while let Some(parent) = above.parent() {
            self.disk.sync(parent)?;
            if above == self.folder {
                break;
            }
            above = parent;
        }
        self.made.insert(folder.to_owned());
        Ok(())
    }
}

impl<D: Disk> Store for Directory<D> {
    fn url(&self) -> &str {
        &self.url
    }

    fn put(&mut self, key: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.folder.join(key);
        let folder = path.parent().unwrap_or(&self.folder).to_owned();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        // Two agents never write the same file, but one that was killed may have left its half behind: the same name
        // lets the next try take it away.
        let partial = format!(".{name}.partial");
        self.make_folder(&folder)
            .and_then(|()| write_whole(&self.disk, &folder, &partial, &name, bytes))
            .map_err(|error| {
                self.made.clear();
                Self::access(&path, &error)
            })
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.folder.join(key);
        match self.disk.read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // The marker is asked for each time: a store that went away and came back may need its folders anew.
                if key == MARKER {
                    self.made.clear();
                }
                Ok(None)
            }
            Err(error) => Err(Self::access(&path, &error)),
        }
    }
}
