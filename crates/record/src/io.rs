//! Records in files: read with their version checked, written under a temporary name and renamed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::version::check_version;
use crate::{Kind, Record, RecordError};

/// The size above which a file is no record: the largest, a load's result of a day, has some 20 MB.
const BYTES_AT_MOST: u64 = 256 << 20;

/// Reads a regular file of at most 256 MiB.
///
/// A pipe or a device in a file's place is refused without waiting for it, and a file that grows ends at the
/// bound.
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    read_at_most(path, BYTES_AT_MOST)
}

fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // Without O_NONBLOCK the opening of a named pipe would wait for its writer.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("larger than {most} bytes")));
    }
    Ok(bytes)
}

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
    let text = read_regular(path).map_err(io)?;
    // The version is read first: a record of another major version need not have this one's shape.
    let kind: Kind = serde_json::from_slice(&text).map_err(shape)?;
    check_version::<R>(&kind, path)?;
    serde_json::from_slice(&text).map_err(shape)
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
    fn only_regular_files_within_the_bound_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
        // SAFETY: the name is a string that ends in NUL and outlives the call.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        for path in [pipe.as_path(), folder.path(), Path::new("/dev/zero")] {
            let error = read_regular(path).unwrap_err().to_string();
            assert_eq!(error, "not a regular file", "{}", path.display());
        }
        let file = folder.path().join("file");
        fs::write(&file, "12345").unwrap();
        assert_eq!(read_at_most(&file, 5).unwrap(), b"12345");
        let error = read_at_most(&file, 4).unwrap_err().to_string();
        assert_eq!(error, "larger than 4 bytes");
    }

    #[test]
    fn text_that_nests_without_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        for text in ["[".repeat(200_000), format!("{{\"kind\": {}", "[".repeat(200_000))] {
            fs::write(&path, text).unwrap();
            let error = read::<crate::Run>(&path).unwrap_err().to_string();
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
