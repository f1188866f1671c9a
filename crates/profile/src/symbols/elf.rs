//! What is needed of an ELF file beside its symbols: where its parts lie in memory, and where its debug file is.
//!
//! Distributions ship programs without their local symbols and keep those in a file of their own, which is
//! found by the build id. Its segments need not lie where the program's do, so that offsets in the program
//! are turned into addresses here. Source: elf(5), gdb's "Separate Debug Files".

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::sample::Cursor;

/// A loaded segment: offset in the file, address, bytes in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    offset: u64,
    address: u64,
    bytes: u64,
}

const HEADER_BYTES: u64 = 64;
const SEGMENT_BYTES: u16 = 56;
const PT_LOAD: u32 = 1;

/// The loaded segments of a 64-bit little-endian ELF file.
pub fn segments(path: &Path) -> Option<Vec<Segment>> {
    let mut file = File::open(path).ok()?;
    let mut header = Vec::new();
    (&mut file)
        .take(HEADER_BYTES)
        .read_to_end(&mut header)
        .ok()?;
    let (table, entry_bytes, count) = parse_header(&header)?;
    let mut bytes = vec![0; usize::from(entry_bytes) * usize::from(count)];
    file.read_exact_at(&mut bytes, table).ok()?;
    let entries = bytes.chunks_exact(usize::from(entry_bytes));
    Some(entries.filter_map(parse_segment).collect())
}

fn parse_header(bytes: &[u8]) -> Option<(u64, u16, u16)> {
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let mut cursor = Cursor::new(bytes);
    cursor.skip(32)?;
    let table = cursor.u64()?;
    cursor.skip(14)?;
    let (entry_bytes, count) = (cursor.u16()?, cursor.u16()?);
    (entry_bytes >= SEGMENT_BYTES).then_some((table, entry_bytes, count))
}

fn parse_segment(bytes: &[u8]) -> Option<Segment> {
    let mut cursor = Cursor::new(bytes);
    let type_ = cursor.u32()?;
    cursor.skip(4)?;
    let (offset, address) = (cursor.u64()?, cursor.u64()?);
    cursor.skip(8)?;
    let bytes = cursor.u64()?;
    (type_ == PT_LOAD).then_some(Segment {
        offset,
        address,
        bytes,
    })
}

/// The address, as the file's symbols have it, of an offset in the file.
pub fn address_of(segments: &[Segment], offset: u64) -> Option<u64> {
    let within = |segment: &&Segment| {
        offset
            .checked_sub(segment.offset)
            .is_some_and(|at| at < segment.bytes)
    };
    let segment = segments.iter().find(within)?;
    Some((offset - segment.offset).wrapping_add(segment.address))
}

/// Where the local symbols of a file with this build id are, if they are installed.
pub fn debug_file(build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = PathBuf::from(format!("/usr/lib/debug/.build-id/{first:02x}/{rest}.debug"));
    path.is_file().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_become_addresses_by_segment() {
        let segments = [
            Segment {
                offset: 0,
                address: 0,
                bytes: 0x500,
            },
            Segment {
                offset: 0x1000,
                address: 0x401_000,
                bytes: 0x200,
            },
        ];
        assert_eq!(address_of(&segments, 0x1010), Some(0x401_010));
        assert_eq!(address_of(&segments, 0x4ff), Some(0x4ff));
        assert_eq!(address_of(&segments, 0x800), None);
    }

    #[test]
    fn this_program_has_segments_and_others_have_none() {
        assert!(segments(&std::env::current_exe().unwrap()).unwrap().len() >= 2);
        assert_eq!(segments(Path::new("/proc/self/status")), None);
        assert_eq!(segments(Path::new("/nowhere")), None);
        assert_eq!(debug_file(&[]), None);
    }
}
