//! The address spaces of processes over time: which file an address belongs to.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::rc::Rc;

/// What distinguishes one version of a file from another of the same path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ModuleIdentity {
    /// The linker's build id.
    pub build_id: Option<Vec<u8>>,
    /// Inode.
    pub inode: Option<u64>,
}

/// A file that code was mapped from.
#[derive(Debug)]
pub struct Module {
    /// Its path as the process that mapped it saw it.
    pub path: String,
    /// What distinguishes it from another file of that path.
    pub identity: ModuleIdentity,
    /// The file itself, opened while a process had it mapped; None for a recording that was read from a file.
    pub file: Option<File>,
    /// Whether an attempt was made to open it.
    pub tried: bool,
}

/// Where an address is, independent of the process where that is possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// A kernel address.
    Kernel(u64),
    /// An offset in a file.
    File {
        /// Number of the module.
        module: u32,
        /// Offset in the file.
        offset: u64,
    },
    /// An address that no file is mapped at: code made at run time, or unknown.
    Anonymous {
        /// The process.
        pid: u32,
        /// The address.
        address: u64,
    },
    /// A function of an interpreted language, by its number: no address.
    Interpreted(u32),
    /// The record does not tell where.
    Nowhere,
}

#[derive(Debug, Clone)]
struct Map {
    end: u64,
    offset: u64,
    /// None for memory without a file.
    module: Option<u32>,
}

type Maps = BTreeMap<u64, Map>;

/// A process's memory, and a number that no other state of any process's memory had.
#[derive(Debug, Default)]
struct Space {
    maps: Rc<Maps>,
    generation: u64,
}

/// Mappings of a process that are kept at most: the kernel's own default bound is 65530.
const MOST_MAPS: usize = 1 << 18;

/// Address spaces by process, commands by thread, and all modules.
#[derive(Debug, Default)]
pub struct Spaces {
    spaces: HashMap<u32, Space>,
    generations: u64,
    commands: HashMap<u32, String>,
    modules: Vec<Module>,
    by_path: HashMap<(String, ModuleIdentity), u32>,
    parents: HashMap<u32, u32>,
}

impl Spaces {
    /// A process mapped `path`. Whatever it had there before is gone.
    pub fn map(
        &mut self,
        pid: u32,
        range: std::ops::Range<u64>,
        offset: u64,
        path: &str,
        identity: ModuleIdentity,
    ) {
        if range.end <= range.start {
            return;
        }
        let module = is_file(path).then(|| self.module(path, identity));
        self.generations += 1;
        let space = self.spaces.entry(pid).or_default();
        space.generation = self.generations;
        let maps = Rc::make_mut(&mut space.maps);
        cut(maps, &range);
        if maps.len() < MOST_MAPS {
            let map = Map {
                end: range.end,
                offset,
                module,
            };
            maps.insert(range.start, map);
        }
    }

    fn module(&mut self, path: &str, identity: ModuleIdentity) -> u32 {
        let key = (path.to_owned(), identity);
        if let Some(&number) = self.by_path.get(&key) {
            return number;
        }
        let number = self.modules.len() as u32;
        self.modules.push(Module {
            path: key.0.clone(),
            identity: key.1.clone(),
            file: None,
            tried: false,
        });
        self.by_path.insert(key, number);
        number
    }

    /// A thread is called `name` from now on; by executing a program its process's mappings are gone.
    pub fn command(&mut self, pid: u32, tid: u32, name: &str, exec: bool) {
        if exec {
            self.spaces.remove(&pid);
        }
        self.commands.insert(tid, name.to_owned());
    }

    /// A thread was made by another; with a new process comes a copy of the mappings.
    pub fn fork(&mut self, pid: u32, parent_pid: u32, tid: u32, parent_tid: u32) {
        if pid != parent_pid {
            self.parents.insert(pid, parent_pid);
            self.generations += 1;
            let generation = self.generations;
            let maps = self
                .spaces
                .get(&parent_pid)
                .map(|space| Rc::clone(&space.maps));
            match maps {
                Some(maps) => self.spaces.insert(pid, Space { maps, generation }),
                None => self.spaces.remove(&pid),
            };
        }
        match self.commands.get(&parent_tid).cloned() {
            Some(name) => self.commands.insert(tid, name),
            None => self.commands.remove(&tid),
        };
    }

    /// The process that was seen making this one.
    pub fn parent_of(&self, pid: u32) -> Option<u32> {
        self.parents.get(&pid).copied()
    }

    /// What a thread is called, or else its process.
    pub fn command_of(&self, pid: u32, tid: u32) -> Option<&str> {
        let name = self.commands.get(&tid).or_else(|| self.commands.get(&pid));
        name.map(String::as_str)
    }

    /// A number of the present state of a process's memory, which changes with it; None when nothing is
    /// known about it.
    pub fn generation(&self, pid: u32) -> Option<u64> {
        self.spaces.get(&pid).map(|space| space.generation)
    }

    /// Where a process's address is.
    pub fn place(&self, pid: u32, address: u64) -> Place {
        let found = self
            .spaces
            .get(&pid)
            .and_then(|space| space.maps.range(..=address).next_back())
            .filter(|(_, map)| address < map.end);
        match found {
            Some((start, map)) => match map.module {
                Some(module) => Place::File {
                    module,
                    offset: (address - start).wrapping_add(map.offset),
                },
                None => Place::Anonymous { pid, address },
            },
            None => Place::Anonymous { pid, address },
        }
    }

    /// Whether code is mapped at a process's address, from a file or not.
    pub fn is_code(&self, pid: u32, address: u64) -> bool {
        let space = self.spaces.get(&pid);
        let below = space.and_then(|space| space.maps.range(..=address).next_back());
        below.is_some_and(|(_, map)| address < map.end)
    }

    /// A module, to be opened while its process is there.
    pub fn module_mut(&mut self, number: u32) -> Option<&mut Module> {
        self.modules.get_mut(number as usize)
    }

    /// All modules, by number.
    pub fn into_modules(self) -> Vec<Module> {
        self.modules
    }
}

/// Memory without a file has names such as `//anon`, `[heap]`, `anon_inode:...`; the kernel's vdso counts as
/// a file because it has symbols.
fn is_file(path: &str) -> bool {
    let named = path.starts_with('/') && !path.starts_with("//") && !path.starts_with("/memfd:");
    (named && !path.starts_with("/dev/zero") && !path.starts_with("/SYSV")) || path == "[vdso]"
}

/// Removes `range` from `maps`; what was mapped on both sides of it stays.
fn cut(maps: &mut Maps, range: &std::ops::Range<u64>) {
    let before = maps
        .range(..range.start)
        .next_back()
        .map(|(&start, map)| (start, map.clone()));
    if let Some((start, map)) = before.filter(|(_, map)| map.end > range.start) {
        if let Some(map) = maps.get_mut(&start) {
            map.end = range.start;
        }
        keep_tail(maps, start, &map, range.end);
    }
    let inside: Vec<u64> = maps.range(range.clone()).map(|(&start, _)| start).collect();
    for start in inside {
        if let Some(map) = maps.remove(&start) {
            keep_tail(maps, start, &map, range.end);
        }
    }
}

fn keep_tail(maps: &mut Maps, start: u64, map: &Map, from: u64) {
    if map.end > from {
        let tail = Map {
            end: map.end,
            offset: map.offset.wrapping_add(from - start),
            module: map.module,
        };
        maps.insert(from, tail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(spaces: &mut Spaces, pid: u32, range: std::ops::Range<u64>, offset: u64, path: &str) {
        spaces.map(pid, range, offset, path, ModuleIdentity::default());
    }

    fn at(spaces: &Spaces, pid: u32, address: u64) -> Option<(u32, u64)> {
        match spaces.place(pid, address) {
            Place::File { module, offset } => Some((module, offset)),
            _ => None,
        }
    }

    #[test]
    fn a_new_mapping_cuts_what_lay_there() {
        let mut spaces = Spaces::default();
        map(&mut spaces, 1, 100..200, 1000, "/a");
        map(&mut spaces, 1, 120..140, 0, "/b");
        assert_eq!(at(&spaces, 1, 119), Some((0, 1019)));
        assert_eq!(at(&spaces, 1, 120), Some((1, 0)));
        assert_eq!(at(&spaces, 1, 140), Some((0, 1040)));
        assert_eq!(at(&spaces, 1, 200), None);
        assert!(spaces.is_code(1, 199) && !spaces.is_code(1, 200) && !spaces.is_code(2, 150));
        map(&mut spaces, 1, 0..1000, 0, "//anon");
        assert_eq!(
            spaces.place(1, 150),
            Place::Anonymous {
                pid: 1,
                address: 150
            }
        );
    }

    #[test]
    fn a_fork_copies_and_an_exec_clears() {
        let mut spaces = Spaces::default();
        map(&mut spaces, 1, 100..200, 0, "/a");
        spaces.command(1, 1, "one", false);
        spaces.fork(2, 1, 2, 1);
        assert_eq!(at(&spaces, 2, 150), Some((0, 50)));
        assert_eq!(spaces.command_of(2, 2), Some("one"));
        spaces.command(2, 2, "two", true);
        assert_eq!(at(&spaces, 2, 150), None);
        assert_eq!(at(&spaces, 1, 150), Some((0, 50)));
        assert_eq!(spaces.command_of(2, 99), Some("two"));
        assert_eq!((spaces.parent_of(2), spaces.parent_of(1)), (Some(1), None));
    }
}
