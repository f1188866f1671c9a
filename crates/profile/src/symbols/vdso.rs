//! The kernel's shared object in every process, as a file that symbols are read from.

use std::path::PathBuf;

/// The kernel's shared object for fast system calls, which is no file: a copy of this process's.
#[derive(Debug)]
pub struct Vdso {
    copy: tempfile::NamedTempFile,
}

impl Vdso {
    /// A copy, None where this process has none.
    pub fn of_this_process() -> Option<Self> {
        let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
        let range = maps
            .lines()
            .find(|line| line.ends_with("[vdso]"))?
            .split(' ')
            .next()?;
        let (start, end) = range.split_once('-')?;
        let start = usize::from_str_radix(start, 16).ok()?;
        let end = usize::from_str_radix(end, 16).ok()?;
        // SAFETY: the kernel maps the vdso readable for the whole life of the process, over the range that
        // it has just listed.
        let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, end - start) };
        let mut copy = tempfile::Builder::new()
            .prefix("steelyard-vdso-")
            .tempfile()
            .ok()?;
        std::io::Write::write_all(&mut copy, bytes).ok()?;
        Some(Self { copy })
    }

    /// Where the copy is, as long as it lives.
    pub fn path(&self) -> PathBuf {
        self.copy.path().to_owned()
    }
}
