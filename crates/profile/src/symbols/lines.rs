//! Lines of the source at addresses of a file, from its debug information (.debug_line), or that of its debug file.
//!
//! In: a file and addresses in it, before it is moved as a whole. Out: `file.c:12` for each that has a line.
//!
//! Invariants: memory grows with the addresses that are asked for, not with the debug information beyond its own
//! sections; damaged information costs its lines only.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use gimli::{AttributeValue, Dwarf, EndianSlice, LittleEndian, SectionId, Unit};

use crate::elf;
use crate::names::clean;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// The sections that lines are read from.
const SECTIONS: [&str; 7] = [
    ".debug_line",
    ".debug_line_str",
    ".debug_info",
    ".debug_abbrev",
    ".debug_str",
    ".debug_str_offsets",
    ".debug_addr",
];

/// The place in the source of each address.
pub fn lines_of(path: &Path, addresses: &[u64]) -> Vec<Option<String>> {
    let mut wanted: Vec<(u64, usize)> = addresses.iter().copied().zip(0..).collect();
    wanted.sort_unstable();
    let mut found = vec![None; addresses.len()];
    let sections = sections(path).unwrap_or_default();
    if !sections.contains_key(".debug_line") {
        return found;
    }
    let load = |id: SectionId| {
        let bytes = sections.get(id.name()).map_or(&[][..], Vec::as_slice);
        Ok::<_, gimli::Error>(EndianSlice::new(bytes, LittleEndian))
    };
    let Ok(dwarf) = Dwarf::load(load) else {
        return found;
    };
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        if let Ok(unit) = dwarf.unit(header) {
            let _ = read_unit(&dwarf, &unit, &wanted, &mut found);
        }
    }
    found
}

fn sections(path: &Path) -> Option<HashMap<String, Vec<u8>>> {
    let file = File::open(path).ok()?;
    let sections = elf::sections(&file)?.into_iter();
    let wanted = sections.filter(|section| SECTIONS.contains(&section.name.as_str()));
    let read = wanted
        .filter_map(|section| Some((section.name.clone(), elf::read_section(&file, &section)?)));
    Some(read.collect())
}

/// Gives the addresses between two rows of a unit's line program the line of the first.
fn read_unit(
    dwarf: &Dwarf<Slice<'_>>,
    unit: &Unit<Slice<'_>>,
    wanted: &[(u64, usize)],
    found: &mut [Option<String>],
) -> gimli::Result<()> {
    let Some(program) = unit.line_program.clone() else {
        return Ok(());
    };
    let mut names: HashMap<u64, Option<String>> = HashMap::new();
    let mut rows = program.rows();
    let mut before: Option<(u64, u64, u64)> = None;
    while let Some((header, row)) = rows.next_row()? {
        if let Some((begin, file, line)) =
            before.take().filter(|&(begin, ..)| begin < row.address())
        {
            let from = wanted.partition_point(|&(address, _)| address < begin);
            for &(address, at) in &wanted[from..] {
                if address >= row.address() {
                    break;
                }
                let name = names.entry(file).or_insert_with(|| {
                    let name = header.file(file)?.path_name();
                    file_name(dwarf, unit, name)
                });
                if let Some(name) = name {
                    found[at] = Some(format!("{name}:{line}"));
                }
            }
        }
        if !row.end_sequence()
            && let Some(line) = row.line()
        {
            before = Some((row.address(), row.file_index(), line.get()));
        }
    }
    Ok(())
}

/// The base name of a file.
fn file_name(
    dwarf: &Dwarf<Slice<'_>>,
    unit: &Unit<Slice<'_>>,
    name: AttributeValue<Slice<'_>>,
) -> Option<String> {
    let name = dwarf.attr_string(unit, name).ok()?;
    let path = String::from_utf8_lossy(name.slice()).into_owned();
    let base = path.rsplit('/').next().unwrap_or(&path).to_owned();
    (!base.is_empty()).then(|| clean(base.into()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_function_is_on_a_line_of_this_file() {
        let path = std::env::current_exe().unwrap();
        let here = this_function_is_on_a_line_of_this_file as *const () as u64;
        // Where this program was moved to: its mapping of offset 0.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let name = path.to_str().unwrap();
        let first = maps.lines().find(|line| line.ends_with(name)).unwrap();
        let begin = u64::from_str_radix(first.split('-').next().unwrap(), 16).unwrap();
        let lines = lines_of(&path, &[u64::MAX, here - begin]);
        assert_eq!(lines[0], None);
        // A build without debug information has no lines.
        if let Some(line) = &lines[1] {
            assert!(line.starts_with("lines.rs:"), "{line}");
        }
    }

    #[test]
    fn other_files_have_no_lines() {
        for path in ["/nowhere", "/proc/self/status"] {
            assert_eq!(lines_of(Path::new(path), &[1, 2]), [None, None]);
        }
    }
}
