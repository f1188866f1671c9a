//! Copies of recorded files, by their build ids: a program that was replaced or is gone keeps its names.
//!
//! In: a build id. Out: the program, its debug file or the kernel's symbols in `perf`'s cache (`~/.debug`, which `perf
//! archive` fills on another machine), in /usr/lib/debug, or below a folder that stands for the root of the machine
//! that was recorded (`--symfs`).
//!
//! Invariant: a copy is used only where its own build id is the one that is looked for.

use std::path::{Path, PathBuf};

use super::same_build_id;

/// Where copies are looked for.
#[derive(Debug, Default)]
pub struct Stores {
    /// Folders with `.build-id` in them, as `perf buildid-cache` makes them.
    caches: Vec<PathBuf>,
    /// Folders whose `.build-id` has debug files.
    debug: Vec<PathBuf>,
    root: Option<PathBuf>,
}

impl Stores {
    /// Those of this machine, and the files below `root`.
    pub fn here(root: Option<&Path>) -> Self {
        let cache = std::env::var_os("PERF_BUILDID_DIR")
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".debug")));
        Self::of(cache, root)
    }

    fn of(cache: Option<PathBuf>, root: Option<&Path>) -> Self {
        let below = root.map(|root| root.join("usr/lib/debug"));
        Self {
            caches: cache.into_iter().collect(),
            debug: below
                .into_iter()
                .chain([PathBuf::from("/usr/lib/debug")])
                .collect(),
            root: root.map(Path::to_owned),
        }
    }

    /// The file of this path on the machine that was recorded; None without its root.
    pub fn below_root(&self, path: &str) -> Option<PathBuf> {
        let root = self.root.as_ref()?;
        let path = Path::new(path);
        let whole = root.join(path.strip_prefix("/").unwrap_or(path));
        let flat = path.file_name().map(|name| root.join(name));
        [Some(whole), flat]
            .into_iter()
            .flatten()
            .find(|path| path.is_file())
    }

    /// The program or library.
    pub fn program(&self, build_id: &[u8]) -> Option<PathBuf> {
        let entries = self.entries(&self.caches, build_id, "");
        // Older versions link to the file itself.
        let found = entries.flat_map(|entry| [entry.join("elf"), entry]);
        found.into_iter().find(|path| is_of(path, build_id))
    }

    /// The file with its local symbols and lines.
    pub fn debug_file(&self, build_id: &[u8]) -> Option<PathBuf> {
        let cached = self.entries(&self.caches, build_id, "");
        let installed = self.entries(&self.debug, build_id, ".debug");
        cached
            .map(|entry| entry.join("debug"))
            .chain(installed)
            .find(|path| path.is_file())
    }

    /// The kernel's symbols, in the format of /proc/kallsyms.
    pub fn kernel_symbols(&self, build_id: &[u8]) -> Option<PathBuf> {
        self.entries(&self.caches, build_id, "")
            .map(|entry| entry.join("kallsyms"))
            .find(|path| path.is_file())
    }

    /// `FOLDER/.build-id/ab/cdef...`; recorded ids are filled up with zeros.
    fn entries<'a>(
        &self,
        folders: &'a [PathBuf],
        build_id: &[u8],
        ending: &'a str,
    ) -> impl Iterator<Item = PathBuf> + use<'a> {
        let kept = build_id.iter().rposition(|&byte| byte != 0);
        let text: String = build_id[..kept.map_or(0, |at| at + 1)]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        folders.iter().filter_map(move |folder| {
            let (first, rest) = text.split_at_checked(2)?;
            Some(folder.join(format!(".build-id/{first}/{rest}{ending}")))
        })
    }
}

fn is_of(path: &Path, build_id: &[u8]) -> bool {
    path.is_file()
        && blazesym::helper::read_elf_build_id(path)
            .is_ok_and(|here| here.is_some_and(|here| same_build_id(build_id, &here)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn this_program() -> (PathBuf, Vec<u8>) {
        let path = std::env::current_exe().unwrap();
        let id = blazesym::helper::read_elf_build_id(&path).unwrap();
        (path, id.expect("a build id").to_vec())
    }

    fn entry(folder: &Path, id: &[u8]) -> PathBuf {
        let text: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        folder.join(format!(".build-id/{}/{}", &text[..2], &text[2..]))
    }

    #[test]
    fn a_program_is_found_in_the_cache_of_perf_by_its_build_id() {
        let (path, id) = this_program();
        let cache = tempfile::tempdir().unwrap();
        let stores = Stores::of(Some(cache.path().to_owned()), None);
        assert_eq!(stores.program(&id), None);
        let folder = entry(cache.path(), &id);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::copy(&path, folder.join("elf")).unwrap();
        assert_eq!(stores.program(&id), Some(folder.join("elf")));
        // A copy under another's id is not taken for it.
        let mut other = id.clone();
        other[0] ^= 1;
        let folder = entry(cache.path(), &other);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::copy(&path, folder.join("elf")).unwrap();
        assert_eq!(stores.program(&other), None);
        assert_eq!(stores.program(&[]), None);
    }

    #[test]
    fn debug_files_and_kernel_symbols_are_beside_it() {
        let cache = tempfile::tempdir().unwrap();
        let id = [0xab, 0xcd, 0xef, 0, 0];
        let folder = cache.path().join(".build-id/ab/cdef");
        std::fs::create_dir_all(&folder).unwrap();
        let stores = Stores::of(Some(cache.path().to_owned()), None);
        assert_eq!(stores.debug_file(&id), None);
        std::fs::write(folder.join("debug"), "").unwrap();
        std::fs::write(folder.join("kallsyms"), "").unwrap();
        assert_eq!(stores.debug_file(&id), Some(folder.join("debug")));
        assert_eq!(stores.kernel_symbols(&id), Some(folder.join("kallsyms")));
    }

    #[test]
    fn files_below_another_root_stand_for_those_recorded() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("opt/app")).unwrap();
        std::fs::write(root.path().join("opt/app/server"), "").unwrap();
        std::fs::write(root.path().join("flat"), "").unwrap();
        let stores = Stores::of(None, Some(root.path()));
        let server = Some(root.path().join("opt/app/server"));
        assert_eq!(stores.below_root("/opt/app/server"), server);
        assert_eq!(
            stores.below_root("/usr/bin/flat"),
            Some(root.path().join("flat"))
        );
        assert_eq!(stores.below_root("/opt/other"), None);
        assert_eq!(Stores::of(None, None).below_root("/opt/app/server"), None);
    }
}
