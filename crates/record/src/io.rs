//! Records in files: read with their version checked, written under a temporary name and renamed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::version::check_version;
use crate::{FILE_BYTES_MAX, Kind, Record, RecordError, read_file};

/// Reads a regular file of at most 256 MiB: the largest record, a load's result of a day, has some 20 MB.
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    read_file(path, FILE_BYTES_MAX)
}

/// Reads the record in `path`, refusing other kinds and unknown major versions.
pub fn read<R: Record>(path: &Path) -> Result<R, RecordError> {
    let text = read_regular(path).map_err(|source| RecordError::Io {
        path: path.to_owned(),
        source,
    })?;
    parse(&text, path)
}

/// Reads the record in `text`, refusing other kinds and unknown major versions; `place` is where it is from.
pub fn parse<R: Record>(text: &[u8], place: &Path) -> Result<R, RecordError> {
    let shape = |source| RecordError::Shape {
        path: place.to_owned(),
        kind: R::KIND,
        source,
    };
    // The version is read first: a record of another major version need not have this one's shape.
    let kind: Kind = serde_json::from_slice(text).map_err(shape)?;
    check_version::<R>(&kind, place)?;
    serde_json::from_slice(text).map_err(shape)
}

/// Writes `record` to `path` so that the name never shows a part of it, not even after a power cut.
pub fn write_atomically<R: Record>(record: &R, path: &Path) -> Result<(), RecordError> {
    write_whole(path, |file| {
        serde_json::to_writer_pretty(&mut *file, record)?;
        file.write_all(b"\n")
    })
    .map_err(|source| RecordError::Io {
        path: path.to_owned(),
        source,
    })
}

/// Writes a file by `content` so that its name never shows a part of it, not even after a power cut.
///
/// What is no file of a disk (`/dev/null`, `/dev/stdout`, a pipe) is written into: renaming would put a file
/// in the device's place.
pub fn write_whole(
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        let mut out = BufWriter::new(OpenOptions::new().write(true).open(path)?);
        content(&mut out)?;
        return out.flush();
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    let partial = path.with_file_name(name);
    let written = (|| {
        let mut out = BufWriter::with_capacity(1 << 16, File::create(&partial)?);
        content(&mut out)?;
        out.into_inner()
            .map_err(io::IntoInnerError::into_error)?
            .sync_all()?;
        fs::rename(&partial, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileTypeExt;

    use super::*;

    #[test]
    fn a_device_is_written_into_and_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("null");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        write_whole(&link, |file| file.write_all(b"text")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::metadata(&link).unwrap().file_type().is_char_device());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn text_that_nests_without_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        for text in [
            "[".repeat(200_000),
            format!("{{\"kind\": {}", "[".repeat(200_000)),
        ] {
            fs::write(&path, text).unwrap();
            let error = read::<crate::LoadResult>(&path).unwrap_err().to_string();
            assert!(error.contains("run.json"), "{error}");
        }
    }

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "before").unwrap();
        let broken = write_whole(&path, |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("no more"))
        });
        assert!(broken.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        write_whole(&path, |file| file.write_all(b"after")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
