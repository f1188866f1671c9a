//! The bytes of a process's code.
//!
//! Out of its memory where that may be read (/proc/PID/mem needs what a debugger needs), else out of the file
//! that is mapped at the address, if it is still the same file.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use steelyard_kernel::scan::lines;

/// Longest instruction of any machine here, bytes.
const LONGEST: usize = 15;
/// Processes whose files are kept open.
const MOST_KEPT: usize = 64;

/// Reads code.
pub trait Code {
    /// Bytes at an address of a process, as many as an instruction may have; None when they cannot be read.
    fn read(&mut self, pid: u32, address: u64) -> Option<Vec<u8>>;
    /// Bits of the process's addresses.
    fn bits(&mut self, pid: u32) -> u32;
    /// Processes may have ended, and their ids been used again.
    fn forget(&mut self);
    /// Why code could not be read lately.
    fn why_unread(&self) -> Option<String>;
}

#[derive(Debug)]
struct Process {
    memory: Option<File>,
    maps: Option<Vec<Map>>,
    bits: u32,
}

#[derive(Debug)]
struct Map {
    start: u64,
    end: u64,
    offset: u64,
    file: Option<File>,
}

/// Code of the processes of this machine.
#[derive(Debug, Default)]
pub struct LiveCode {
    processes: HashMap<u32, Process>,
    denied: bool,
}

impl LiveCode {
    fn process(&mut self, pid: u32) -> &mut Process {
        if self.processes.len() >= MOST_KEPT && !self.processes.contains_key(&pid) {
            self.processes.clear();
        }
        self.processes.entry(pid).or_insert_with(|| Process {
            memory: File::open(format!("/proc/{pid}/mem")).ok(),
            maps: None,
            bits: bits(pid).unwrap_or(usize::BITS),
        })
    }
}

impl Code for LiveCode {
    fn read(&mut self, pid: u32, address: u64) -> Option<Vec<u8>> {
        let process = self.process(pid);
        let mut bytes = [0; LONGEST];
        // An address beyond the largest offset cannot be one of a program.
        i64::try_from(address).ok()?;
        if let Some(memory) = &process.memory
            && let Some(length) = read_at(memory, &mut bytes, address)
        {
            return Some(bytes[..length].to_vec());
        }
        let maps = match &mut process.maps {
            Some(maps) => maps,
            maps => match read_maps(pid) {
                Ok(read) => maps.insert(read),
                Err(error) => {
                    self.denied |= error.kind() == io::ErrorKind::PermissionDenied;
                    return None;
                }
            },
        };
        let map = maps
            .iter()
            .find(|map| (map.start..map.end).contains(&address))?;
        let at = map.offset.checked_add(address - map.start)?;
        let room = usize::try_from(map.end - address)
            .unwrap_or(LONGEST)
            .min(LONGEST);
        let length = read_at(map.file.as_ref()?, &mut bytes[..room], at)?;
        Some(bytes[..length].to_vec())
    }

    fn bits(&mut self, pid: u32) -> u32 {
        self.process(pid).bits
    }

    fn forget(&mut self) {
        self.processes.clear();
        self.denied = false;
    }

    fn why_unread(&self) -> Option<String> {
        self.denied.then(|| {
            "code of other users' processes cannot be read: run as root, or with CAP_SYS_PTRACE"
                .to_owned()
        })
    }
}

/// Reads what is there, which may be less than asked for at the end of a mapping or file.
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> Option<usize> {
    match file.read_at(bytes, offset) {
        Ok(0) | Err(_) => None,
        Ok(length) => Some(length),
    }
}

/// 32 for a program of the older kind. Source: elf(5), EI_CLASS.
fn bits(pid: u32) -> Option<u32> {
    let mut head = [0; 5];
    File::open(format!("/proc/{pid}/exe"))
        .ok()?
        .read_exact_at(&mut head, 0)
        .ok()?;
    match head[4] {
        1 => Some(32),
        _ => Some(64),
    }
}

fn read_maps(pid: u32) -> io::Result<Vec<Map>> {
    let text = std::fs::read(format!("/proc/{pid}/maps"))?;
    let maps = lines(&text).filter_map(|line| {
        let line = parse_map(line)?;
        let open = || {
            let file = File::open(format!("/proc/{pid}/root{}", line.path))
                .or_else(|_| File::open(line.path))
                .ok()?;
            let metadata = file.metadata().ok()?;
            (metadata.is_file() && metadata.ino() == line.inode).then_some(file)
        };
        Some(Map {
            start: line.start,
            end: line.end,
            offset: line.offset,
            file: line.path.starts_with('/').then(open).flatten(),
        })
    });
    Ok(maps.collect())
}

/// A line of /proc/PID/maps.
#[derive(Debug, PartialEq, Eq)]
struct MapLine<'a> {
    start: u64,
    end: u64,
    offset: u64,
    inode: u64,
    path: &'a str,
}

/// `START-END rwxp OFFSET DEVICE INODE   PATH`; None for what holds no code.
fn parse_map(line: &[u8]) -> Option<MapLine<'_>> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    if words.next()?.as_bytes().get(2) != Some(&b'x') {
        return None;
    }
    let offset = hexadecimal(words.next()?)?;
    words.next()?;
    Some(MapLine {
        start: hexadecimal(start)?,
        end: hexadecimal(end)?,
        offset,
        inode: words.next()?.parse().ok()?,
        path: words.next().unwrap_or("").trim_start(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn somewhere() -> u64 {
        somewhere as *const () as u64
    }

    #[test]
    fn code_of_this_process_is_the_same_in_memory_and_in_its_file() {
        let pid = std::process::id();
        let mut code = LiveCode::default();
        let memory = code.read(pid, somewhere()).expect("its own memory");
        code.process(pid).memory = None;
        assert_eq!(code.read(pid, somewhere()), Some(memory));
        assert_eq!(code.bits(pid), usize::BITS);
        assert_eq!(code.read(pid, 0), None);
        assert_eq!(code.read(pid, u64::MAX), None);
    }

    #[test]
    fn lines_of_maps() {
        let line = b"7f00-7f10 r-xp 00002000 fd:01 42        /opt/a b.so";
        assert_eq!(
            parse_map(line),
            Some(MapLine {
                start: 0x7f00,
                end: 0x7f10,
                offset: 0x2000,
                inode: 42,
                path: "/opt/a b.so"
            })
        );
        assert_eq!(parse_map(b"7f00-7f10 rw-p 00000000 00:00 0"), None);
        assert_eq!(parse_map(b"\xff"), None);
    }
}
