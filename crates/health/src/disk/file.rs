//! The file that the disk is measured with: its size, its place, and blocks that say where they belong.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use steelyard_statistics::Random;

use crate::context::Run;
use crate::error::HealthError;
use crate::pages::{Pages, Region};

/// Bytes of a block that is read or written in sequence.
pub(crate) const SEQUENTIAL_BLOCK: usize = 1 << 20;
/// Bytes of a block at a random place, and of one that has a number.
pub(crate) const RANDOM_BLOCK: usize = 4096;
const SMALLEST_FILE: u64 = 16 << 20;

/// The wanted size, less where that is more than a tenth of the free space.
pub(crate) fn file_size(directory: &Path, wanted: u64) -> Result<u64, HealthError> {
    let path = std::ffi::CString::new(directory.as_os_str().as_encoded_bytes())
        .map_err(|_| HealthError::Unavailable("the folder's name holds a null byte".to_owned()))?;
    // SAFETY: all zeroes is a valid statvfs, and the kernel fills it.
    let mut space: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends in a null byte and `space` is a valid place.
    if unsafe { libc::statvfs(path.as_ptr(), &mut space) } != 0 {
        return Err(HealthError::last(directory.display().to_string()));
    }
    let free = space.f_bavail as u64 * space.f_frsize as u64;
    let bytes = wanted.min(free / 10) / SEQUENTIAL_BLOCK as u64 * SEQUENTIAL_BLOCK as u64;
    if bytes < SMALLEST_FILE {
        return Err(HealthError::Unavailable(format!(
            "{} has {free} bytes free, a tenth of which is too little for a file",
            directory.display()
        )));
    }
    Ok(bytes)
}

/// A file in `directory` that has no name, opened past the page cache.
pub(crate) fn unnamed(directory: &Path) -> Result<File, HealthError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    let opened = match options
        .clone()
        .custom_flags(libc::O_TMPFILE | libc::O_DIRECT)
        .open(directory)
    {
        // Some file systems (NFS, overlays on old kernels) have no files without a name.
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT)
            ) =>
        {
            let path = directory.join(format!(".steelyard-health-{}", std::process::id()));
            let opened = options
                .create_new(true)
                .custom_flags(libc::O_DIRECT)
                .open(&path);
            let _ = fs::remove_file(&path);
            opened
        }
        opened => opened,
    };
    opened.map_err(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => HealthError::Unavailable(format!(
            "the file system of {} has no O_DIRECT, so that only memory would be measured: choose a folder on a \
             disk (--directory)",
            directory.display()
        )),
        _ => HealthError::Io { what: format!("a file in {}", directory.display()), source: error },
    })
}

/// Fills the file with incompressible blocks, each marked with its number.
pub(crate) fn write_blocks(file: &File, file_bytes: u64, run: &Run<'_>) -> Result<(), HealthError> {
    let mut random = Random::stream(run.settings.seed, "disk");
    let buffer = Buffer::new(SEQUENTIAL_BLOCK)?;
    buffer.fill(&mut random);
    for start in (0..file_bytes).step_by(SEQUENTIAL_BLOCK) {
        run.check_stop()?;
        buffer.mark(start);
        file.write_all_at(buffer.bytes(), start)
            .map_err(HealthError::io("the first write of the file"))?;
    }
    file.sync_all()
        .map_err(HealthError::io("the first write of the file"))
}

/// Memory that O_DIRECT accepts, of whole pages.
pub(crate) struct Buffer(Region);

impl Buffer {
    pub(crate) fn new(bytes: usize) -> Result<Self, HealthError> {
        Region::new(bytes, Pages::Base, None).map(Self)
    }

    #[allow(clippy::mut_from_ref)]
    pub(crate) fn bytes(&self) -> &mut [u8] {
        // SAFETY: the region has this many bytes; a buffer is used by one thread, by one call at a time.
        unsafe { std::slice::from_raw_parts_mut(self.0.start(), self.0.bytes()) }
    }

    pub(crate) fn fill(&self, random: &mut Random) {
        random.fill(self.bytes());
    }

    /// Writes the number of each 4 KiB block into its first bytes.
    pub(crate) fn mark(&self, start: u64) {
        for (index, block) in self.bytes().chunks_exact_mut(RANDOM_BLOCK).enumerate() {
            let number = start / RANDOM_BLOCK as u64 + index as u64;
            block[..8].copy_from_slice(&number.to_le_bytes());
        }
    }

    pub(crate) fn is_marked(&self, start: u64) -> bool {
        self.bytes()
            .chunks_exact(RANDOM_BLOCK)
            .enumerate()
            .all(|(index, block)| {
                let number = start / RANDOM_BLOCK as u64 + index as u64;
                block[..8] == number.to_le_bytes()
            })
    }
}

/// Type and device of the file system that holds `directory`, as far as the kernel reports it.
pub(crate) fn mounted(directory: &Path) -> (Option<String>, Option<String>) {
    let found: io::Result<_> = (|| {
        let device = fs::metadata(directory)?.dev();
        Ok((
            fs::read_to_string("/proc/self/mountinfo")?,
            libc::major(device),
            libc::minor(device),
        ))
    })();
    let Ok((mounts, major, minor)) = found else {
        return (None, None);
    };
    let number = format!("{major}:{minor}");
    // 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw (proc_pid_mountinfo(5))
    let line = mounts
        .lines()
        .find(|line| line.split(' ').nth(2) == Some(&number));
    let Some((_, tail)) = line.and_then(|line| line.split_once(" - ")) else {
        return (None, None);
    };
    let mut words = tail.split(' ').map(str::to_owned);
    (words.next(), words.next())
}
