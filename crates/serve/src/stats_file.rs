//! A file that a server adds a line of statistics to.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

/// Where statistics go.
#[derive(Debug, Clone)]
pub struct StatsFile {
    /// Where.
    pub path: PathBuf,
    /// How often a line is added.
    pub interval: Duration,
}

/// The file could not be made or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct StatsFileError {
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// The file, open.
#[derive(Debug)]
pub struct StatsWriter {
    file: File,
    path: PathBuf,
}

impl StatsFile {
    /// Makes the file, empty.
    pub fn create(&self) -> Result<StatsWriter, StatsFileError> {
        let path = self.path.clone();
        match File::create(&path) {
            Ok(file) => Ok(StatsWriter { file, path }),
            Err(source) => Err(StatsFileError { path, source }),
        }
    }
}

impl StatsWriter {
    /// Adds a record as a line.
    pub fn add(&self, mut record: Vec<u8>) -> Result<(), StatsFileError> {
        record.push(b'\n');
        // One write for a line, so that a reader never sees half of one.
        (&self.file)
            .write_all(&record)
            .map_err(|source| StatsFileError {
                path: self.path.clone(),
                source,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_become_lines_and_errors_name_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("stats.jsonl");
        let interval = Duration::from_secs(1);
        let file = StatsFile { path, interval };
        let writer = file.create().expect("a file");
        for record in ["{}", "[1]"] {
            writer.add(record.into()).expect("written");
        }
        let text = std::fs::read_to_string(&file.path).expect("readable");
        assert_eq!(text, "{}\n[1]\n");
        let path = folder.path().join("none/stats.jsonl");
        let error = StatsFile { path, interval }
            .create()
            .expect_err("no folder");
        assert!(error.to_string().contains("none/stats.jsonl: "), "{error}");
    }
}
