//! Which files here are those that were recorded.
//!
//! In: modules with their build ids, and where they were recorded. Out: paths. Invariant: a file is used only where
//! it is known to be the one that ran there.

use std::collections::HashMap;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::KernelSymbols;
use super::stores::Stores;
use super::vdso::Vdso;
use crate::sample::Module;

/// Where samples were taken.
#[derive(Debug, Default)]
pub struct Origin {
    /// On this machine, just now.
    pub live: bool,
    /// On a machine of this one's name.
    pub same_host: bool,
    /// Build ids of files, as the recording lists them.
    pub build_ids: HashMap<String, Vec<u8>>,
}

impl Origin {
    /// The build id that the recording has for a module.
    pub fn build_id<'a>(&'a self, module: &'a Module) -> Option<&'a Vec<u8>> {
        let own = module.identity.build_id.as_ref();
        own.or_else(|| self.build_ids.get(&module.path))
    }
}

/// The name that `perf` gives the kernel in its files.
const KERNEL_FILE: &str = "[kernel.kallsyms]";

/// Why a module's file cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// The file here is another than the one that ran.
    Another,
    /// There is no file here.
    Unreadable,
}

/// The files that modules name, as far as they can be read here.
#[derive(Debug, Default)]
pub struct Files {
    /// Where they were mapped.
    pub origin: Origin,
    /// Whether lines of the source are wanted beside functions.
    pub wants_lines: bool,
    stores: Stores,
    vdso: Option<Vdso>,
}

impl Files {
    /// Files of a recording from there; those of this machine below `root` where it is given.
    pub fn of(origin: Origin, root: Option<&Path>) -> Self {
        // The kernel's shared object is the same in all processes of the same kernel.
        let vdso = (origin.live || origin.same_host).then(Vdso::of_this_process);
        Self {
            origin,
            wants_lines: false,
            stores: Stores::here(root),
            vdso: vdso.flatten(),
        }
    }

    /// Where the file that a module names can be read, when it is that file.
    pub fn path_of(&self, module: &Module) -> Result<PathBuf, Absent> {
        if module.path == "[vdso]" {
            return self.vdso_path(module).ok_or(Absent::Unreadable);
        }
        let recorded = self.origin.build_id(module);
        if let Some(path) = self.stores.below_root(&module.path) {
            let here = blazesym::helper::read_elf_build_id(&path).ok().flatten();
            let other = match (recorded, here) {
                (Some(recorded), Some(here)) => !same_build_id(recorded, &here),
                _ => false,
            };
            return if other {
                Err(Absent::Another)
            } else {
                Ok(path)
            };
        }
        let found = path_of(module, &self.origin);
        found.or_else(|absent| {
            let cached = recorded.and_then(|id| self.stores.program(id));
            cached.ok_or(absent)
        })
    }

    /// Where the local symbols and the lines of a file with this build id are, if they are installed.
    pub fn debug_file(&self, build_id: &[u8]) -> Option<PathBuf> {
        self.stores.debug_file(build_id)
    }

    /// The symbols of the kernel that was recorded.
    ///
    /// # Errors
    /// One sentence that says why there are none.
    pub fn kernel_symbols(&self) -> Result<KernelSymbols, String> {
        if self.origin.live || is_this_kernel(&self.origin) {
            return KernelSymbols::load(Path::new("/"));
        }
        let id = self.origin.build_ids.get(KERNEL_FILE);
        let cached = id.and_then(|id| self.stores.kernel_symbols(id));
        let text = cached.and_then(|path| std::fs::read_to_string(path).ok());
        text.map(KernelSymbols::parse).ok_or_else(|| {
            "kernel functions have no names, because another kernel was recorded".to_owned()
        })
    }

    fn vdso_path(&self, module: &Module) -> Option<PathBuf> {
        let path = self.vdso.as_ref()?.path();
        let same = match self.origin.build_id(module) {
            Some(recorded) if !self.origin.live => blazesym::helper::read_elf_build_id(&path)
                .is_ok_and(|here| here.is_some_and(|here| same_build_id(recorded, &here))),
            _ => true,
        };
        same.then_some(path)
    }
}

fn path_of(module: &Module, origin: &Origin) -> Result<PathBuf, Absent> {
    let path = PathBuf::from(&module.path);
    if let Some(file) = &module.file {
        // The path as such serves best, since debug links are relative to it.
        let same =
            |a: &std::fs::Metadata, b: &std::fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        return match (std::fs::metadata(&path), file.metadata()) {
            (Ok(here), Ok(there)) if same(&here, &there) => Ok(path),
            _ => Ok(PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))),
        };
    }
    let Ok(metadata) = std::fs::metadata(&path) else {
        return Err(Absent::Unreadable);
    };
    if !metadata.is_file() || std::fs::File::open(&path).is_err() {
        return Err(Absent::Unreadable);
    }
    let recorded = origin.build_id(module);
    let same = match recorded {
        Some(recorded) => match blazesym::helper::read_elf_build_id(&path) {
            Ok(Some(here)) => same_build_id(recorded, &here),
            _ => false,
        },
        None => match module.identity.inode {
            Some(inode) if inode != 0 => inode == metadata.ino(),
            _ => origin.same_host || origin.live,
        },
    };
    if same { Ok(path) } else { Err(Absent::Another) }
}

/// Recorded build ids are filled up with zeros to 20 bytes.
pub fn same_build_id(recorded: &[u8], here: &[u8]) -> bool {
    let (same, rest) = recorded.split_at(recorded.len().min(here.len()));
    !same.is_empty() && here.starts_with(same) && rest.iter().all(|&byte| byte == 0)
}

fn is_this_kernel(origin: &Origin) -> bool {
    match origin.build_ids.get(KERNEL_FILE) {
        Some(recorded) => std::fs::read("/sys/kernel/notes")
            .ok()
            .and_then(|notes| build_id_of_notes(&notes))
            .is_some_and(|here| same_build_id(recorded, &here)),
        None => origin.same_host,
    }
}

/// The build id in ELF notes: type 3 of the owner `GNU`.
fn build_id_of_notes(notes: &[u8]) -> Option<Vec<u8>> {
    let mut cursor = crate::sample::Cursor::new(notes);
    loop {
        let name_bytes = cursor.u32()? as usize;
        let value_bytes = cursor.u32()? as usize;
        let type_ = cursor.u32()?;
        let name = cursor.take(name_bytes.checked_next_multiple_of(4)?)?;
        let value = cursor.take(value_bytes)?;
        if type_ == 3 && name.starts_with(b"GNU") {
            return Some(value.to_vec());
        }
        cursor.skip(value_bytes.checked_next_multiple_of(4)? - value_bytes)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_ids_are_compared_without_their_filling() {
        assert!(same_build_id(&[1, 2, 0, 0], &[1, 2]));
        assert!(!same_build_id(&[1, 2, 3, 0], &[1, 2]));
        assert!(!same_build_id(&[], &[1, 2]));
        assert!(!same_build_id(&[1, 3], &[1, 2]));
    }

    #[test]
    fn the_build_id_is_found_among_notes() {
        let mut notes = Vec::new();
        for (name, type_, value) in [
            (&b"Linux\0"[..], 1_u32, &b"abc"[..]),
            (b"GNU\0", 3, b"\x01\x02"),
        ] {
            notes.extend((name.len() as u32).to_le_bytes());
            notes.extend((value.len() as u32).to_le_bytes());
            notes.extend(type_.to_le_bytes());
            notes.extend(name);
            notes.resize(notes.len().next_multiple_of(4), 0);
            notes.extend(value);
            notes.resize(notes.len().next_multiple_of(4), 0);
        }
        assert_eq!(build_id_of_notes(&notes), Some(vec![1, 2]));
        assert_eq!(build_id_of_notes(&notes[..20]), None);
    }
}
