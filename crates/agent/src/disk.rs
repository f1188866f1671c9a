//! The files that the spool and a folder as store are made of, behind a trait.
//!
//! The trait is what a crash can come between: each method is one step of the kernel's. Tests put a disk in its place
//! that fails, stops or loses power at any step.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Steps on files. Paths are whole paths.
pub trait Disk {
    /// Makes a folder and those above it.
    fn create_folder(&self, path: &Path) -> io::Result<()>;
    /// The names in a folder, sorted; empty where there is no folder.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// The whole of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Length of a file, bytes.
    fn length(&self, path: &Path) -> io::Result<u64>;
    /// Writes to the end of a file, which is made if it is not there.
    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Cuts a file off.
    fn truncate(&self, path: &Path, length: u64) -> io::Result<()>;
    /// Returns when a file's content, or a folder's names, would survive a loss of power.
    fn sync(&self, path: &Path) -> io::Result<()>;
    /// Gives a file another name, in place of what has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file; that it is not there is no error.
    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// The machine's own disks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Live;

impl Disk for Live {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut names = Vec::new();
        for entry in entries {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.len())
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        file.write_all(bytes)
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        OpenOptions::new().write(true).open(path)?.set_len(length)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

/// Writes a whole file so that its name never shows a part of it, and so that it survives a loss of power once this
/// returns. `partial` is the name that it has meanwhile, in the same folder.
pub fn write_whole(
    disk: &dyn Disk,
    folder: &Path,
    partial: &str,
    name: &str,
    bytes: &[u8],
) -> io::Result<()> {
    let partial = folder.join(partial);
    let written = (|| {
        disk.remove(&partial)?;
        disk.append(&partial, bytes)?;
        disk.sync(&partial)?;
        disk.rename(&partial, &folder.join(name))
    })();
    if written.is_err() {
        // What is left is taken away at the next start if it cannot be now.
        let _ = disk.remove(&partial);
        return written;
    }
    disk.sync(folder)
}
