//! Names of code that a program made while it ran, from the file that it leaves for profilers.
//!
//! `/tmp/perf-PID.map` has lines `START SIZE NAME` in hexadecimal; the JVM (`-XX:+DumpPerfMapAtExit`), Python
//! (`-X perf`), Node and others write it. Source: tools/perf/Documentation/jit-interface.txt.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Functions by address.
#[derive(Debug, Default)]
pub struct PerfMap {
    functions: Vec<(u64, u64, String)>,
}

/// Largest map that is read.
const MOST_BYTES: u64 = 256 << 20;

impl PerfMap {
    /// The map of a process: in its own file system while it runs, in /tmp afterwards.
    pub fn load(pid: u32) -> Option<Self> {
        let inside = std::fs::read_to_string(format!("/proc/{pid}/status"))
            .ok()
            .and_then(|status| innermost_pid(&status))
            .unwrap_or(pid);
        let places = [
            PathBuf::from(format!("/proc/{pid}/root/tmp/perf-{inside}.map")),
            PathBuf::from(format!("/tmp/perf-{pid}.map")),
        ];
        places.iter().find_map(|path| Self::read(path))
    }

    fn read(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        let metadata = file.metadata().ok()?;
        // Anybody may write to /tmp: a file of a third user tells what that user wants to be believed.
        let owner = metadata.uid();
        // SAFETY: geteuid has no preconditions.
        let own = unsafe { libc::geteuid() };
        let trusted = owner == 0 || own == 0 || owner == own;
        if !trusted || !metadata.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
        Some(Self::parse(&String::from_utf8_lossy(&bytes)))
    }

    /// Takes the functions of a map's text. Of functions that overlap, the one written last counts, since code
    /// is replaced.
    pub fn parse(text: &str) -> Self {
        let mut functions: Vec<(u64, u64, String)> = text.lines().filter_map(parse_line).collect();
        // Stable: of equal starts the last written comes last, and is the one found.
        functions.sort_by_key(|&(start, ..)| start);
        Self { functions }
    }

    /// The function that an address is in.
    pub fn find(&self, address: u64) -> Option<&str> {
        let after = self
            .functions
            .partition_point(|&(start, ..)| start <= address);
        // Functions rarely overlap; a few steps back find one that encloses a shorter one.
        let candidates = self.functions[..after].iter().rev().take(8);
        let mut candidates = candidates.filter(|&&(start, size, _)| address - start < size);
        candidates.next().map(|(_, _, name)| name.as_str())
    }
}

fn parse_line(line: &str) -> Option<(u64, u64, String)> {
    let (start, rest) = line.trim_start().split_once(' ')?;
    let (size, name) = rest.trim_start().split_once(' ')?;
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    Some((number(start)?, number(size)?, name.trim().to_owned()))
}

/// The process's id in its own PID namespace, from /proc/PID/status.
fn innermost_pid(status: &str) -> Option<u32> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_spaces_are_found_by_address() {
        let map = PerfMap::parse(
            "7f00 20 py::fib:/tmp/a b.py\nbroken\n0x8000 10 Lfoo;::bar\n8000 8 newer\n",
        );
        assert_eq!(map.find(0x7f1f), Some("py::fib:/tmp/a b.py"));
        assert_eq!(map.find(0x7f20), None);
        assert_eq!(map.find(0x8001), Some("newer"));
        assert_eq!(map.find(0x8009), Some("Lfoo;::bar"));
    }

    #[test]
    fn the_innermost_pid_is_the_last() {
        assert_eq!(innermost_pid("Name:\tx\nNSpid:\t100\t7\n"), Some(7));
        assert_eq!(innermost_pid("Name:\tx\n"), None);
    }
}
