//! Files that others made: opened without waiting, read up to a bound.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Longest file that is read whole unless its reader says otherwise, bytes.
pub const FILE_BYTES_MAX: u64 = 256 << 20;

/// Opens a regular file to read. A FIFO, a device or a folder is refused, and none is waited for.
pub fn open_file(path: &Path) -> io::Result<File> {
    // Without O_NONBLOCK the opening of a FIFO waits for a writer; a regular file does not care.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        )),
    }
}

/// The whole of a regular file of at most `bytes_max` bytes; a longer one is an error and is not read.
pub fn read_file(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = open_file(path)?;
    let too_large = || {
        let why = format!("larger than {bytes_max} bytes");
        io::Error::new(io::ErrorKind::FileTooLarge, why)
    };
    if file.metadata()?.len() > bytes_max {
        return Err(too_large());
    }
    let mut content = Vec::new();
    // Files of /proc tell a length of 0, and any file may grow.
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut content)?;
    match content.len() as u64 > bytes_max {
        true => Err(too_large()),
        false => Ok(content),
    }
}

/// The same as text.
pub fn read_text_file(path: &Path, bytes_max: u64) -> io::Result<String> {
    String::from_utf8(read_file(path, bytes_max)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_up_to_the_bound_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read_file(&path, 5).unwrap(), b"12345");
        assert_eq!(
            read_file(&path, 4).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
        assert_eq!(
            read_file(Path::new("/proc/self/status"), 9)
                .unwrap_err()
                .kind(),
            io::ErrorKind::FileTooLarge
        );
        let fifo = folder.path().join("fifo");
        let name = std::ffi::CString::new(fifo.as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: the name is a C string that outlives the call.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        for other in [&fifo, Path::new("/dev/zero"), folder.path()] {
            let error = read_file(other, 5).unwrap_err();
            assert_eq!(error.to_string(), "not a regular file", "{other:?}");
        }
    }
}
