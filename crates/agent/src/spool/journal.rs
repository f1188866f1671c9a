//! Journals: the rows of a batch that is not finished, window by window.
//!
//! In: payloads, each the rows of one window. Out: the same after a crash, up to the last one that was acknowledged.
//!
//! A journal is a file of frames: length and CRC-32C of a payload, both little-endian u32, then the payload. The first
//! payload is the journal's head. A frame that a crash cut off, and whatever follows it, is no part of the journal.
//!
//! Invariants: a payload is acknowledged after it is on the disk; a failed append leaves nothing behind that a later
//! one could be hidden by.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::disk::Disk;
use crate::rows::Origin;
use crate::table::Table;

/// What a journal's rows have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The table that they belong to.
    pub table: Table,
    /// The machine that they come from.
    pub origin: Origin,
    /// UTC day of their windows.
    pub date: String,
    /// When the batch began.
    pub batch_start_unix_s: i64,
    /// When the batch ends.
    pub batch_end_unix_s: i64,
}

/// Longest payload that is believed, bytes.
const LONGEST: usize = 256 << 20;

/// A payload in its frame.
pub fn frame(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(payload.len() + 8);
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.extend(crc32c::crc32c(payload).to_le_bytes());
    bytes.extend(payload);
    bytes
}

/// The whole payloads that `bytes` begin with, and how many bytes they take. Never an error: what is no frame ends it.
pub fn payloads(bytes: &[u8]) -> (Vec<&[u8]>, usize) {
    let (mut found, mut used) = (Vec::new(), 0);
    while let Some((head, rest)) = bytes[used..].split_first_chunk::<8>() {
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let sum = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let Some(payload) = rest.get(..length).filter(|_| length <= LONGEST) else {
            break;
        };
        // Zeros, as a file may hold where its length but not its content reached the disk, are no frame.
        if length == 0 || crc32c::crc32c(payload) != sum {
            break;
        }
        found.push(payload);
        used += 8 + length;
    }
    (found, used)
}

/// A journal that is written to.
#[derive(Debug)]
pub struct Journal {
    /// Its file.
    pub path: PathBuf,
    /// What its rows have in common.
    pub head: Head,
    /// Its batch, which names the file that it becomes.
    pub id: String,
    /// Bytes that are known to be good.
    length: u64,
    /// Bytes beyond the good ones may be there.
    is_torn: bool,
}

impl Journal {
    /// Begins a journal in `folder`.
    pub fn create(disk: &dyn Disk, folder: &Path, id: &str, head: Head) -> io::Result<Self> {
        let path = folder.join(format!("{id}.journal"));
        let bytes = frame(&serde_json::to_vec(&head)?);
        let written = disk
            .append(&path, &bytes)
            .and_then(|()| disk.sync(&path))
            .and_then(|()| disk.sync(folder));
        if let Err(error) = written {
            let _ = disk.remove(&path);
            return Err(error);
        }
        Ok(Self {
            path,
            head,
            id: id.to_owned(),
            length: bytes.len() as u64,
            is_torn: false,
        })
    }

    /// The journal in `path`, with its payloads; None when a crash left it without a whole head, so that nothing in it
    /// was ever acknowledged.
    pub fn recover(
        disk: &dyn Disk,
        path: &Path,
        id: &str,
    ) -> io::Result<Option<(Self, Vec<Vec<u8>>)>> {
        let bytes = disk.read(path)?;
        let (found, used) = payloads(&bytes);
        let Some((head, rest)) = found.split_first() else {
            return Ok(None);
        };
        let head = serde_json::from_slice(head).map_err(|error| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{}: {error}", path.display()),
            )
        })?;
        let journal = Self {
            path: path.to_owned(),
            head,
            id: id.to_owned(),
            length: used as u64,
            is_torn: used < bytes.len(),
        };
        Ok(Some((
            journal,
            rest.iter().map(|payload| payload.to_vec()).collect(),
        )))
    }

    /// Adds a payload; it is acknowledged when this returns.
    pub fn add(&mut self, disk: &dyn Disk, payload: &[u8]) -> io::Result<()> {
        if self.is_torn {
            disk.truncate(&self.path, self.length)?;
            disk.sync(&self.path)?;
            self.is_torn = false;
        }
        let bytes = frame(payload);
        self.is_torn = true;
        disk.append(&self.path, &bytes)?;
        disk.sync(&self.path)?;
        self.length += bytes.len() as u64;
        self.is_torn = false;
        Ok(())
    }

    /// Bytes on the disk.
    pub fn length(&self) -> u64 {
        self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_up_to_the_first_that_is_not_whole() {
        let mut bytes = [frame(b"one"), frame(b"three")].concat();
        let whole = bytes.len();
        bytes.extend(frame(b"cut off"));
        for end in whole..bytes.len() {
            let (found, used) = payloads(&bytes[..end]);
            assert_eq!((found, used), (vec![&b"one"[..], b"three"], whole));
        }
        bytes.truncate(whole);
        bytes.extend([0; 100]);
        assert_eq!(payloads(&bytes).1, whole);
        bytes[9] ^= 1;
        assert_eq!(payloads(&bytes).0, Vec::<&[u8]>::new());
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let (_, used) = payloads(&bytes);
            proptest::prop_assert!(used <= bytes.len());
        }
    }
}
