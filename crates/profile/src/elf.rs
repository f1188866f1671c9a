//! What is needed of an ELF file beside its symbols: where its parts lie in memory, and its sections.
//!
//! Distributions ship programs without their local symbols and keep those in a file of their own, which is
//! found by the build id. Its segments need not lie where the program's do, so that offsets in the program
//! are turned into addresses here. Source: elf(5), gdb's "Separate Debug Files".

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::sample::Cursor;

/// A loaded segment: offset in the file, address, bytes in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// First byte in the file.
    pub offset: u64,
    /// Where it lies in memory, before the file is moved as a whole.
    pub address: u64,
    /// Bytes in the file.
    pub bytes: u64,
}

const HEADER_BYTES: u64 = 64;
const SEGMENT_BYTES: u16 = 56;
/// A part that is mapped.
pub const PT_LOAD: u32 = 1;
/// Where the index of unwind information is.
pub const PT_GNU_EH_FRAME: u32 = 0x6474_e550;

/// The loaded segments of a 64-bit little-endian ELF file.
pub fn segments(path: &Path) -> Option<Vec<Segment>> {
    segments_of(&File::open(path).ok()?, PT_LOAD)
}

/// The segments of one type.
pub fn segments_of(file: &File, type_: u32) -> Option<Vec<Segment>> {
    let mut header = [0; HEADER_BYTES as usize];
    file.read_exact_at(&mut header, 0).ok()?;
    let (table, entry_bytes, count) = parse_header(&header)?;
    let mut bytes = vec![0; usize::from(entry_bytes) * usize::from(count)];
    file.read_exact_at(&mut bytes, table).ok()?;
    let entries = bytes.chunks_exact(usize::from(entry_bytes));
    let segments = entries.filter_map(|entry| parse_segment(entry, type_));
    Some(segments.collect())
}

/// The address that a program, or the dynamic linker, begins at; 0 where a file has none.
pub fn entry(file: &File) -> Option<u64> {
    let mut header = [0; HEADER_BYTES as usize];
    file.read_exact_at(&mut header, 0).ok()?;
    parse_header(&header)?;
    Cursor::new(&header[24..]).u64()
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

fn parse_segment(bytes: &[u8], wanted: u32) -> Option<Segment> {
    let mut cursor = Cursor::new(bytes);
    let type_ = cursor.u32()?;
    cursor.skip(4)?;
    let (offset, address) = (cursor.u64()?, cursor.u64()?);
    cursor.skip(8)?;
    let bytes = cursor.u64()?;
    (type_ == wanted).then_some(Segment {
        offset,
        address,
        bytes,
    })
}

/// A section of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Its name, as `.eh_frame`.
    pub name: String,
    /// Where it lies in memory, 0 when it does not.
    pub address: u64,
    /// Bytes in the file.
    pub bytes: u64,
    offset: u64,
    is_compressed: bool,
}

const SECTION_BYTES: usize = 64;
const SHT_NOBITS: u32 = 8;
const SHF_COMPRESSED: u64 = 1 << 11;
const ZLIB: u32 = 1;
const ZSTD: u32 = 2;

/// Sections that a file may have, and bytes of one that are read at most.
const MOST_SECTIONS: usize = 1 << 16;
const MOST_SECTION_BYTES: u64 = 256 << 20;

/// The sections of a 64-bit little-endian ELF file that have content. None when it is no such file; a file may
/// well be stripped of them.
pub fn sections(file: &File) -> Option<Vec<Section>> {
    let mut header = [0; HEADER_BYTES as usize];
    file.read_exact_at(&mut header, 0).ok()?;
    parse_header(&header)?;
    let mut cursor = Cursor::new(&header[40..]);
    let table = cursor.u64()?;
    let mut cursor = Cursor::new(&header[58..]);
    let (entry_bytes, count) = (usize::from(cursor.u16()?), usize::from(cursor.u16()?));
    let names = usize::from(cursor.u16()?);
    if entry_bytes < SECTION_BYTES || count > MOST_SECTIONS {
        return None;
    }
    let mut bytes = vec![0; entry_bytes * count];
    file.read_exact_at(&mut bytes, table).ok()?;
    let mut found: Vec<(usize, Section)> = Vec::new();
    let mut name_table = Vec::new();
    for (number, entry) in bytes.chunks_exact(entry_bytes).enumerate() {
        if let Some((name_at, section)) = parse_section(entry) {
            if number == names {
                name_table = read_section(file, &section).unwrap_or_default();
            }
            found.push((name_at, section));
        }
    }
    for (name_at, section) in &mut found {
        section.name = Cursor::new(name_table.get(*name_at..).unwrap_or_default()).text();
    }
    Some(found.into_iter().map(|(_, section)| section).collect())
}

fn parse_section(bytes: &[u8]) -> Option<(usize, Section)> {
    let mut cursor = Cursor::new(bytes);
    let (name_at, type_) = (cursor.u32()?, cursor.u32()?);
    let flags = cursor.u64()?;
    let (address, offset, bytes) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
    let section = Section {
        name: String::new(),
        address,
        bytes,
        offset,
        is_compressed: flags & SHF_COMPRESSED != 0,
    };
    (type_ != SHT_NOBITS && type_ != 0).then_some((name_at as usize, section))
}

/// The content of a section, inflated where it is compressed. None when it is cut off, damaged or too large.
pub fn read_section(file: &File, section: &Section) -> Option<Vec<u8>> {
    let content = read_at(file, section.offset, section.bytes)?;
    if !section.is_compressed {
        return Some(content);
    }
    let mut cursor = Cursor::new(&content);
    let method = cursor.u32()?;
    cursor.skip(4)?;
    let bytes = cursor.u64().filter(|&bytes| bytes <= MOST_SECTION_BYTES)?;
    cursor.skip(8)?;
    let mut inflated = Vec::new();
    let packed = cursor.rest();
    let read = match method {
        ZLIB => flate2::read::ZlibDecoder::new(packed)
            .take(bytes)
            .read_to_end(&mut inflated),
        ZSTD => zstd::Decoder::new(packed)
            .ok()?
            .take(bytes)
            .read_to_end(&mut inflated),
        _ => return None,
    };
    read.is_ok_and(|read| read as u64 == bytes)
        .then_some(inflated)
}

/// Bytes of a file; None when it has not so many, or they are too many to be read.
pub fn read_at(file: &File, offset: u64, bytes: u64) -> Option<Vec<u8>> {
    // Asked for before anything is reserved: a damaged file may claim any size.
    let end = offset.checked_add(bytes)?;
    if bytes > MOST_SECTION_BYTES || file.metadata().ok()?.len() < end {
        return None;
    }
    let mut content = vec![0; bytes as usize];
    file.read_exact_at(&mut content, offset).ok()?;
    Some(content)
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

/// The offset in the file of an address, as the file's symbols have it.
pub fn offset_of(segments: &[Segment], address: u64) -> Option<u64> {
    let within = |segment: &&Segment| {
        address
            .checked_sub(segment.address)
            .is_some_and(|at| at < segment.bytes)
    };
    let segment = segments.iter().find(within)?;
    Some((address - segment.address).wrapping_add(segment.offset))
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
        assert_eq!(offset_of(&segments, 0x401_010), Some(0x1010));
        assert_eq!(offset_of(&segments, 0x4ff), Some(0x4ff));
        assert_eq!(offset_of(&segments, 0x401_200), None);
    }

    #[test]
    fn this_program_has_segments_and_others_have_none() {
        assert!(segments(&std::env::current_exe().unwrap()).unwrap().len() >= 2);
        assert_eq!(segments(Path::new("/proc/self/status")), None);
        assert_eq!(segments(Path::new("/nowhere")), None);
    }

    #[test]
    fn sections_are_named_and_read() {
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        let sections = sections(&file).unwrap();
        let find = |name: &str| sections.iter().find(|section| section.name == name);
        let unwinding = find(".eh_frame_hdr").unwrap();
        // Version 1, and a table that is sorted: what every linker writes.
        assert_eq!(read_section(&file, unwinding).unwrap()[..2], [1, 0x1b]);
        assert!(find(".bss").is_none());
        assert!(read_at(&file, 0, 1 << 40).is_none());
    }
}
