//! All functions of a program's file, for whoever names offsets later and elsewhere.
//!
//! In: an ELF file with a build id, stripped or not. Out: its functions by offset in the file, from its own symbol
//! table and from that of its debug file where one is installed.
//!
//! Invariants: offsets are those of the program itself, whichever file the names are from; one name an offset; names
//! are as in profiles (`function_name`).
//!
//! Not here: naming single places (`symbols`).

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use blazesym::SymType;
use blazesym::inspect::Inspector;
use blazesym::inspect::source::{Elf, Source};

use super::stores::Stores;
use crate::ProfileError;
use crate::elf::{self, Segment};
use crate::names::{function_name, module_name};

/// The functions of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// What distinguishes this build from others, in hexadecimal.
    pub build_id: String,
    /// The file's base name, as frames have it.
    pub module: String,
    /// By offset in the file.
    pub functions: Vec<Function>,
}

/// Where a function lies in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its first byte.
    pub offset: u64,
    /// How long it is; 0 where the file does not say.
    pub bytes: u64,
    /// Its name, demangled.
    pub name: String,
}

/// The functions of the file at `path`; none where it has no symbols.
///
/// # Errors
///
/// When the file cannot be read, is no 64-bit little-endian ELF file, or has no build id.
pub fn list_functions(path: &Path) -> Result<Listed, ProfileError> {
    let malformed = |reason: String| ProfileError::Malformed {
        path: path.to_owned(),
        expected: "ELF program",
        reason,
    };
    std::fs::File::open(path).map_err(|source| ProfileError::Read {
        path: path.to_owned(),
        source,
    })?;
    let segments = elf::segments(path)
        .ok_or_else(|| malformed("it is no 64-bit little-endian ELF file".to_owned()))?;
    let build_id = blazesym::helper::read_elf_build_id(path)
        .map_err(|error| malformed(error.to_string()))?
        .ok_or_else(|| malformed("it has no build id".to_owned()))?;
    let mut found: BTreeMap<u64, Function> = BTreeMap::new();
    collect(path, &segments, &mut found).map_err(malformed)?;
    if let Some(debug_file) = Stores::here(None).debug_file(&build_id) {
        // What cannot be read of it is missing, as if it were not installed.
        let _ = collect(&debug_file, &segments, &mut found);
    }
    Ok(Listed {
        build_id: build_id.iter().map(|byte| format!("{byte:02x}")).collect(),
        module: module_name(&path.to_string_lossy(), false).into_owned(),
        functions: found.into_values().collect(),
    })
}

fn collect(
    path: &Path,
    segments: &[Segment],
    found: &mut BTreeMap<u64, Function>,
) -> Result<(), String> {
    let mut source = Elf::new(path);
    source.debug_syms = false;
    let inspector = Inspector::new();
    let visited = inspector.for_each(&Source::Elf(source), |symbol| {
        if symbol.sym_type != SymType::Function || symbol.name.is_empty() {
            return ControlFlow::Continue(());
        }
        if let Some(offset) = elf::offset_of(segments, symbol.addr) {
            let function = Function {
                offset,
                bytes: symbol.size.unwrap_or(0) as u64,
                name: function_name(&symbol.name).into_owned(),
            };
            match found.get_mut(&offset) {
                Some(known) if !is_better(&function, known) => {}
                Some(known) => *known = function,
                None => {
                    found.insert(offset, function);
                }
            }
        }
        ControlFlow::Continue(())
    });
    visited.map_err(|error| error.to_string())
}

/// Whether `one` names a place better than its alias `other`: the longer reach, then the name with fewer leading
/// underscores, the shorter one, and the first of the alphabet, so that every reading of a file agrees.
fn is_better(one: &Function, other: &Function) -> bool {
    let rank = |function: &Function| {
        let name = &function.name;
        let underscores = name.bytes().take_while(|&byte| byte == b'_').count();
        (
            std::cmp::Reverse(function.bytes),
            underscores,
            name.len(),
            name.clone(),
        )
    };
    rank(one) < rank(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    #[unsafe(no_mangle)]
    extern "C" fn steelyard_listed_by_its_own_test() -> u32 {
        std::hint::black_box(7)
    }

    #[test]
    fn this_program_lists_its_functions_where_they_lie_in_the_file() {
        assert_eq!(steelyard_listed_by_its_own_test(), 7);
        let path = std::env::current_exe().unwrap();
        let listed = list_functions(&path).unwrap();
        assert!(listed.build_id.len() >= 16, "{}", listed.build_id);
        assert_eq!(listed.module, path.file_name().unwrap().to_str().unwrap());
        let name = "steelyard_listed_by_its_own_test";
        let function = listed.functions.iter().find(|one| one.name == name);
        let function = function.expect("a function that is called has a symbol");
        // Its bytes in the file are those that run.
        let content = std::fs::read(&path).unwrap();
        let here = steelyard_listed_by_its_own_test as *const u8;
        // SAFETY: the first bytes of a function of this program, which is mapped readable.
        let code = unsafe { std::slice::from_raw_parts(here, function.bytes.min(8) as usize) };
        assert!(!code.is_empty());
        assert!(content[function.offset as usize..].starts_with(code));
        let offsets: Vec<u64> = listed.functions.iter().map(|one| one.offset).collect();
        assert!(offsets.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn aliases_have_one_name_whatever_their_order() {
        let named = |name: &str, bytes| Function {
            offset: 0,
            bytes,
            name: name.to_owned(),
        };
        assert!(is_better(
            &named("memcpy", 8),
            &named("__memcpy_avx_unaligned", 8)
        ));
        assert!(!is_better(&named("_start", 8), &named("start", 8)));
        assert!(is_better(&named("_whole", 80), &named("part", 8)));
        assert!(!is_better(&named("same", 8), &named("same", 8)));
    }

    #[test]
    fn other_files_are_refused_in_one_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"#!/bin/sh\n").unwrap();
        let error = list_functions(file.path()).unwrap_err().to_string();
        assert!(
            error.contains("it is no 64-bit little-endian ELF file"),
            "{error}"
        );
        let error = list_functions(Path::new("/nowhere/at/all"))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("cannot read /nowhere/at/all"), "{error}");
    }
}
