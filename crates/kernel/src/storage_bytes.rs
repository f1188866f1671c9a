//! Bytes that a process moved from and to storage.

use crate::scan::{key_value, lines};

/// Bytes read from and written to storage, from the text of /proc/PID/io; None where a line is missing.
///
/// The kernel counts a write when a page becomes dirty, and counts in `cancelled_write_bytes` what was then truncated or
/// deleted before it was stored: that was not written. Source: Linux, Documentation/filesystems/proc.rst.
pub fn storage_bytes(text: &[u8]) -> [Option<u64>; 2] {
    let [mut read, mut written, mut cancelled] = [None; 3];
    for (key, mut values) in lines(text).filter_map(key_value) {
        match key {
            b"read_bytes" => read = values.number(),
            b"write_bytes" => written = values.number(),
            b"cancelled_write_bytes" => cancelled = values.number(),
            _ => {}
        }
    }
    [
        read,
        written.map(|written: u64| written.saturating_sub(cancelled.unwrap_or(0))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_deleted_before_it_was_stored_was_not_written() {
        let text = b"rchar: 5\nwchar: 6\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 4096\n";
        assert_eq!(storage_bytes(text), [Some(4096), Some(4096)]);
        // A process that truncates what another wrote cancels more than it wrote itself.
        let text = b"read_bytes: 0\nwrite_bytes: 1\ncancelled_write_bytes: 4096\n";
        assert_eq!(storage_bytes(text), [Some(0), Some(0)]);
        assert_eq!(storage_bytes(b"write_bytes: 1\n"), [None, Some(1)]);
        assert_eq!(storage_bytes(b""), [None, None]);
    }
}
