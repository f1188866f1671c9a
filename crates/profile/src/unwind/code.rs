//! The unwind information of one file: its sections, and which address an offset has.
//!
//! In: an ELF file. Out: what framehop asks of a module. A file is read once, whole sections at a time: mapping
//! it would end the program when somebody shortens the file meanwhile.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use framehop::{ExplicitModuleSectionInfo, Module};
use gimli::BaseAddresses;

use super::signals;

use crate::elf::{self, PT_GNU_EH_FRAME, PT_LOAD, Section, Segment};

/// Addresses beyond this are no program's, and sums of two cannot overflow.
const HIGHEST: u64 = 1 << 56;

/// What `_start` takes at most, with what follows it in the dynamic linker.
const ENTRY_BYTES: u64 = 64;

/// How the index names the place of what it indexes: relative to itself, 4 bytes. Source: Linux Standard
/// Base, "DWARF Extensions", DW_EH_PE_pcrel | DW_EH_PE_sdata4.
const RELATIVE_4_BYTES: u8 = 0x1b;

/// One file's unwind information.
pub struct Code {
    segments: Vec<Segment>,
    /// The lowest address of a segment.
    base: u64,
    /// What framehop is given.
    pub module: Module<Vec<u8>>,
    /// Addresses that signal handlers return to.
    signals: Vec<Range<u64>>,
    /// Where a process begins.
    entry: Range<u64>,
    /// Whether the file has any unwind information.
    pub has_information: bool,
}

impl Code {
    /// Reads a file. None when it is no 64-bit ELF file.
    pub fn read(path: &Path) -> Option<Self> {
        Self::of(&File::open(path).ok()?)
    }

    /// Reads an open file.
    pub fn of(file: &File) -> Option<Self> {
        let mut segments = elf::segments_of(file, PT_LOAD)?;
        segments.retain(|segment| {
            segment.address < HIGHEST && segment.bytes < HIGHEST && segment.offset < HIGHEST
        });
        let base = segments.iter().map(|segment| segment.address).min()?;
        let end = segments
            .iter()
            .map(|segment| segment.address + segment.bytes)
            .max()?;
        let mut info = from_sections(file);
        if info.eh_frame.is_none() && info.debug_frame.is_none() {
            info = from_index(file, &segments).unwrap_or(info);
        }
        info.base_svma = base;
        let signals = signals_of(&info);
        let has_information = info.eh_frame.is_some() || info.debug_frame.is_some();
        Some(Self {
            segments,
            base,
            signals,
            entry: elf::entry(file).map_or(0..0, |at| at..at.saturating_add(ENTRY_BYTES)),
            // Addresses are the file's own: where a process has it does not matter to its rules.
            module: Module::new(String::new(), base..end, base, info),
            has_information,
        })
    }

    /// Whether a signal handler returns to this address of the file.
    pub fn is_signal(&self, address: u64) -> bool {
        self.signals.iter().any(|range| range.contains(&address))
    }

    /// Whether a process begins at this address of the file, so that nobody called it. The dynamic linker's
    /// begin is not marked so in its rules.
    pub fn is_entry(&self, address: u64) -> bool {
        self.entry.contains(&address)
    }

    /// The address, as the file has it, of an offset in the file.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        elf::address_of(&self.segments, offset).filter(|&address| address >= self.base)
    }
}

fn signals_of(info: &ExplicitModuleSectionInfo<Vec<u8>>) -> Vec<Range<u64>> {
    let start = |range: &Option<Range<u64>>| range.as_ref().map_or(0, |range| range.start);
    let bases = BaseAddresses::default()
        .set_eh_frame(start(&info.eh_frame_svma))
        .set_text(start(&info.text_svma))
        .set_got(start(&info.got_svma));
    let information = info.eh_frame.as_deref();
    information.map_or_else(Vec::new, |bytes| signals::ranges(bytes, &bases))
}

fn from_sections(file: &File) -> ExplicitModuleSectionInfo<Vec<u8>> {
    let sections = elf::sections(file).unwrap_or_default();
    let find = |name: &str| -> Option<&Section> {
        let named = |section: &&Section| section.name == name && section.address < HIGHEST;
        sections.iter().find(named)
    };
    let place = |name: &str| {
        let section = find(name)?;
        Some(section.address..section.address.checked_add(section.bytes)?)
    };
    let content = |name: &str| find(name).and_then(|section| elf::read_section(file, section));
    let mut info = ExplicitModuleSectionInfo {
        text_svma: place(".text"),
        got_svma: place(".got"),
        eh_frame_svma: place(".eh_frame"),
        eh_frame: content(".eh_frame").filter(|bytes| bytes.len() > 4),
        ..ExplicitModuleSectionInfo::default()
    };
    if info.eh_frame.is_some() {
        info.eh_frame_hdr_svma = place(".eh_frame_hdr");
        info.eh_frame_hdr = content(".eh_frame_hdr").filter(|bytes| has_table(bytes));
    } else {
        // Go's linker writes this one only.
        info.debug_frame = content(".debug_frame");
    }
    info
}

/// Whether the index has its table: a linker leaves it out where it does not understand the information.
fn has_table(index: &[u8]) -> bool {
    const OMITTED: u8 = 0xff;
    index.len() > 12 && index[0] == 1 && index[2] != OMITTED && index[3] != OMITTED
}

/// The information of a file that was stripped of its sections: its place is in the index, which has a segment
/// of its own.
fn from_index(file: &File, segments: &[Segment]) -> Option<ExplicitModuleSectionInfo<Vec<u8>>> {
    let index = *elf::segments_of(file, PT_GNU_EH_FRAME)?.first()?;
    let bytes = elf::read_at(file, index.offset, index.bytes)?;
    if !has_table(&bytes) || bytes[1] != RELATIVE_4_BYTES || index.address >= HIGHEST {
        return None;
    }
    let relative = i32::from_le_bytes(bytes[4..8].try_into().ok()?);
    let start = (index.address + 4).checked_add_signed(i64::from(relative))?;
    let within = |segment: &&Segment| {
        start
            .checked_sub(segment.address)
            .is_some_and(|at| at < segment.bytes)
    };
    let segment = segments.iter().find(within)?;
    let skipped = start - segment.address;
    // The file does not state where it ends; a list of entries ends with an empty one.
    let information = elf::read_at(file, segment.offset + skipped, segment.bytes - skipped)?;
    Some(ExplicitModuleSectionInfo {
        eh_frame_svma: Some(start..segment.address + segment.bytes),
        eh_frame: Some(information),
        eh_frame_hdr_svma: Some(index.address..index.address + index.bytes),
        eh_frame_hdr: Some(bytes),
        ..ExplicitModuleSectionInfo::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_can_be_unwound_and_a_text_cannot() {
        let code = Code::read(&std::env::current_exe().unwrap()).unwrap();
        assert!(code.has_information);
        assert!(code.address_of(0).is_some());
        assert!(code.address_of(1 << 50).is_none());
        assert!(Code::read(Path::new("/proc/self/status")).is_none());
    }

    #[test]
    fn without_sections_the_index_tells_where_the_information_is() {
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        let segments = elf::segments_of(&file, PT_LOAD).unwrap();
        let (named, found) = (from_sections(&file), from_index(&file, &segments).unwrap());
        let start =
            |info: &ExplicitModuleSectionInfo<Vec<u8>>| info.eh_frame_svma.clone().unwrap().start;
        assert_eq!(start(&named), start(&found));
        assert!(
            found
                .eh_frame
                .unwrap()
                .starts_with(&named.eh_frame.unwrap())
        );
    }
}
