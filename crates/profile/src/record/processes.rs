//! What /proc tells about processes that were there before the recording: their mappings, names and files.

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::descendants::{Descendants, parent_in_proc};
use crate::python::Interpreters;
use crate::sample::{Module, ModuleIdentity, Place, Spaces, Witness};
use crate::symbols::{Files, Origin};

/// Files that are kept open at most; beyond it names come from what is at the path at the end.
const MOST_FILES: usize = 512;

/// Looks at processes while they are there.
pub struct Processes {
    met: HashSet<u32>,
    met_threads: HashSet<u32>,
    /// Processes that had samples since they were asked for.
    recent: HashSet<u32>,
    /// Reads interpreted functions, where they are wanted.
    pub interpreters: Option<Interpreters>,
    open_files: usize,
    files: Files,
}

impl Default for Processes {
    fn default() -> Self {
        let origin = Origin {
            live: true,
            ..Origin::default()
        };
        Self {
            met: HashSet::new(),
            met_threads: HashSet::new(),
            recent: HashSet::new(),
            interpreters: None,
            open_files: 0,
            files: Files::of(origin, None),
        }
    }
}

impl Processes {
    /// Nothing is known of any process yet.
    pub fn new(interpreters: Option<Interpreters>) -> Self {
        Self {
            interpreters,
            ..Self::default()
        }
    }

    /// Has lines of the source found beside functions.
    pub fn want_lines(&mut self) {
        self.files.wants_lines = true;
    }

    /// Where modules' files are.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Notes all processes there are, or those that descend from one.
    pub fn scan_all(&mut self, spaces: &mut Spaces, descendants_of: Option<u32>) {
        let mut descendants = descendants_of.map(Descendants::of);
        for pid in numbers(Path::new("/proc")) {
            let is_wanted = descendants
                .as_mut()
                .is_none_or(|descendants| descendants.child_of(pid, spaces).is_some());
            if is_wanted {
                self.scan(spaces, pid);
            }
        }
    }

    /// Notes a process and its threads.
    pub fn scan(&mut self, spaces: &mut Spaces, pid: u32) {
        self.met.insert(pid);
        read_maps(spaces, pid);
        for tid in threads(pid) {
            self.met_threads.insert(tid);
            if let Some(name) = command(&format!("/proc/{pid}/task/{tid}/comm")) {
                spaces.command(pid, tid, &name, false);
            }
        }
    }

    /// Looks for interpreters in the processes that had samples since the last time.
    pub fn look_for_interpreters(&mut self) {
        if let Some(interpreters) = &mut self.interpreters {
            interpreters.consider(self.recent.drain());
        }
    }

    fn open(&mut self, module: &mut Module, pid: u32) {
        if module.tried || module.path == "[vdso]" {
            return;
        }
        module.tried = true;
        if self.open_files >= MOST_FILES {
            return;
        }
        module.file = find_file(module, pid);
        self.open_files += usize::from(module.file.is_some());
    }
}

impl Witness for Processes {
    fn meet(&mut self, spaces: &mut Spaces, pid: u32, tid: u32) {
        if pid == 0 || pid == u32::MAX {
            return;
        }
        self.recent.insert(pid);
        if self.met.insert(pid) && spaces.generation(pid).is_none() {
            read_maps(spaces, pid);
        }
        if self.met_threads.insert(tid)
            && spaces.command_of(tid, tid).is_none()
            && let Some(name) = command(&format!("/proc/{pid}/task/{tid}/comm"))
        {
            spaces.command(pid, tid, &name, false);
        }
    }

    fn see(&mut self, spaces: &mut Spaces, pid: u32, place: Place) {
        if let Place::File { module, .. } = place
            && let Some(module) = spaces.module_mut(module)
        {
            self.open(module, pid);
        }
    }

    fn interpreted(&mut self, pid: u32, tid: u32, time_ns: u64) -> Option<Arc<[u32]>> {
        self.interpreters.as_ref()?.frames(pid, tid, time_ns)
    }

    fn file(&mut self, spaces: &mut Spaces, pid: u32, module: u32) -> Option<PathBuf> {
        let module = spaces.module_mut(module)?;
        self.open(module, pid);
        self.files.path_of(module).ok()
    }
}

/// Numbers that name entries of a directory.
fn numbers(directory: &Path) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The threads of a process; empty when it is gone.
pub fn threads(pid: u32) -> Vec<u32> {
    numbers(Path::new(&format!("/proc/{pid}/task")))
}

/// These processes, then all that live and descend from them: what was made before its parent is sampled inherits
/// nothing of that.
pub fn with_descendants(pids: &[u32]) -> Vec<u32> {
    let all = numbers(Path::new("/proc")).into_iter();
    let parents: Vec<(u32, u32)> = all
        .filter_map(|pid| Some((pid, parent_in_proc(pid)?)))
        .collect();
    descend(pids, &parents)
}

/// The same among processes whose parents are known.
fn descend(pids: &[u32], parents: &[(u32, u32)]) -> Vec<u32> {
    let mut found = pids.to_vec();
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        for &(pid, its_parent) in parents {
            if its_parent == parent && !found.contains(&pid) {
                found.push(pid);
            }
        }
        at += 1;
    }
    found
}

fn command(path: &str) -> Option<String> {
    let name = fs::read(path).ok()?;
    Some(
        String::from_utf8_lossy(&name)
            .trim_end_matches('\n')
            .to_owned(),
    )
}

fn read_maps(spaces: &mut Spaces, pid: u32) {
    let Ok(maps) = fs::read(format!("/proc/{pid}/maps")) else {
        return;
    };
    for line in String::from_utf8_lossy(&maps).lines() {
        if let Some(map) = parse_map(line) {
            let identity = ModuleIdentity {
                build_id: None,
                inode: Some(map.inode),
            };
            spaces.map(pid, map.range, map.offset, map.path, identity);
        }
    }
}

struct MapLine<'a> {
    range: std::ops::Range<u64>,
    offset: u64,
    inode: u64,
    path: &'a str,
}

/// `START-END rwxp OFFSET DEVICE INODE   PATH`, where PATH may hold spaces. None for what holds no code.
fn parse_map(line: &str) -> Option<MapLine<'_>> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let permissions = words.next()?;
    if permissions.as_bytes().get(2) != Some(&b'x') {
        return None;
    }
    let offset = hexadecimal(words.next()?)?;
    let _device = words.next()?;
    let inode = words.next()?.parse().ok()?;
    Some(MapLine {
        range: hexadecimal(start)?..hexadecimal(end)?,
        offset,
        inode,
        path: words.next().unwrap_or("").trim_start(),
    })
}

/// The file of a module: as its process sees it, or where the path leads here when the inode is the same.
fn find_file(module: &Module, pid: u32) -> Option<File> {
    let path = module.path.as_str();
    let inode = module.identity.inode.unwrap_or(0);
    let open = |path: &Path| {
        let file = File::open(path).ok()?;
        file.metadata().ok()?.is_file().then_some(file)
    };
    if path.ends_with(" (deleted)") {
        return open_deleted(path, pid);
    }
    let inside = PathBuf::from(format!("/proc/{pid}/root{path}"));
    if fs::metadata(&inside).is_ok_and(|metadata| metadata.is_file()) {
        return open(&inside);
    }
    let file = fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file())
        .then(|| open(Path::new(path)))??;
    (inode != 0 && file.metadata().ok()?.ino() == inode).then_some(file)
}

/// A file that was deleted or replaced while it was mapped: the kernel still has it.
fn open_deleted(path: &str, pid: u32) -> Option<File> {
    let maps = fs::read_dir(format!("/proc/{pid}/map_files")).ok()?;
    let is_it = |link: &Path| fs::read_link(link).is_ok_and(|target| target.as_os_str() == path);
    maps.flatten()
        .map(|entry| entry.path())
        .find(|link| is_it(link))
        .and_then(|link| File::open(link).ok())
}

/// Processes of a control group and of the groups below it.
pub fn of_cgroup(directory: &Path) -> Vec<u32> {
    let mut found = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        let processes = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
        found.extend(
            processes
                .lines()
                .filter_map(|line| line.parse::<u32>().ok()),
        );
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        waiting.extend(
            entries
                .filter(|entry| entry.file_type().is_ok_and(|type_| type_.is_dir()))
                .map(|entry| entry.path()),
        );
    }
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_follow_those_they_descend_from() {
        let parents = [(2, 1), (10, 2), (11, 10), (12, 11), (20, 1), (2, 12)];
        assert_eq!(descend(&[10], &parents), [10, 11, 12, 2]);
        assert_eq!(descend(&[20, 11], &parents), [20, 11, 12, 2, 10]);
        assert_eq!(descend(&[99], &parents), [99]);
    }

    #[test]
    fn maps_with_code_are_read() {
        let line = "7f0000001000-7f0000003000 r-xp 00002000 fd:01 4242                       /opt/a b.so (deleted)";
        let map = parse_map(line).unwrap();
        assert_eq!(map.range, 0x7f00_0000_1000..0x7f00_0000_3000);
        assert_eq!(
            (map.offset, map.inode, map.path),
            (0x2000, 4242, "/opt/a b.so (deleted)")
        );
        assert_eq!(
            parse_map("7f00-7f10 r-xp 00000000 00:00 0").unwrap().path,
            ""
        );
        assert!(parse_map("7f00-7f10 rw-p 00000000 00:00 0").is_none());
        assert!(parse_map("nonsense").is_none());
    }

    #[test]
    fn this_process_is_found_in_its_own_maps() {
        let mut spaces = Spaces::default();
        let mut processes = Processes::default();
        let pid = std::process::id();
        processes.scan(&mut spaces, pid);
        let place = spaces.place(
            pid,
            this_process_is_found_in_its_own_maps as *const () as u64,
        );
        let Place::File { module, .. } = place else {
            panic!("{place:?} is in no file");
        };
        processes.see(&mut spaces, pid, place);
        let module = spaces.module_mut(module).unwrap();
        assert!(module.file.is_some());
        assert_eq!(Path::new(&module.path), std::env::current_exe().unwrap());
    }
}
