//! Records in files: read with their version checked, written under a temporary name and renamed.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::version::check_version;
use crate::{Kind, Record, RecordError};

/// Reads the record in `path`, refusing other kinds and unknown major versions.
pub fn read<R: Record>(path: &Path) -> Result<R, RecordError> {
    let io = |source| RecordError::Io {
        path: path.to_owned(),
        source,
    };
    let shape = |source| RecordError::Shape {
        path: path.to_owned(),
        kind: R::KIND,
        source,
    };
    let text = fs::read(path).map_err(io)?;
    // The version is read first: a record of another major version need not have this one's shape.
    let kind: Kind = serde_json::from_slice(&text).map_err(shape)?;
    check_version::<R>(&kind, path)?;
    serde_json::from_slice(&text).map_err(shape)
}

/// Writes `record` to `path` so that the name never shows a part of it, not even after a power cut.
pub fn write_atomically<R: Record>(record: &R, path: &Path) -> Result<(), RecordError> {
    let io = |source| RecordError::Io {
        path: path.to_owned(),
        source,
    };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    let partial = path.with_file_name(name);
    let written = (|| {
        let mut file = File::create(&partial)?;
        serde_json::to_writer_pretty(&mut file, record)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&partial, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written.map_err(io)
}
