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

/// The same as text: UTF-8, or UTF-16 with a byte-order mark, which is left out.
pub fn read_text_file(path: &Path, bytes_max: u64) -> io::Result<String> {
    text_of(read_file(path, bytes_max)?)
        .map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))
}

/// The text of a file as editors and spreadsheets write it, without its byte-order mark; the error names the encoding.
pub fn text_of(bytes: Vec<u8>) -> Result<String, &'static str> {
    let wide = |rest: &[u8], unit: fn([u8; 2]) -> u16| {
        let units = rest.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
        let text: Result<String, _> = char::decode_utf16(units).collect();
        match (text, rest.len() % 2) {
            (Ok(text), 0) => Ok(text),
            _ => Err("not UTF-16, which its byte-order mark says"),
        }
    };
    match bytes.as_slice() {
        [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => wide(rest, u16::from_be_bytes),
        _ => {
            let mut text = String::from_utf8(bytes).map_err(|_| "not UTF-8: save it as UTF-8")?;
            if text.starts_with('\u{feff}') {
                text.drain(..'\u{feff}'.len_utf8());
            }
            Ok(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_editors_is_read_without_its_mark() {
        let units = |text: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
            text.encode_utf16().flat_map(bytes).collect()
        };
        let text = "caf\u{e9} = 1\n";
        let marked = format!("\u{feff}{text}");
        for bytes in [
            text.as_bytes().to_vec(),
            marked.as_bytes().to_vec(),
            units(&marked, u16::to_le_bytes),
            units(&marked, u16::to_be_bytes),
        ] {
            assert_eq!(text_of(bytes).as_deref(), Ok(text));
        }
        assert!(text_of(b"caf\xe9".to_vec()).is_err());
        assert!(text_of(b"\xff\xfea".to_vec()).is_err());
        assert!(text_of(b"\xff\xfe\x00\xd8".to_vec()).is_err());
    }

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
