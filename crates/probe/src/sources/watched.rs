//! Sets of devices that change while they are recorded: CPUs, sensors, nodes, control groups.
//!
//! Each device has a few small files that are kept open. The set is looked up again after a device failed to
//! answer, and every few seconds, so that a device that comes is seen without a walk over /sys at each tick.

use std::io;
use std::path::{Path, PathBuf};

use steelyard_kernel::scan;
use steelyard_kernel::{Tree, TreeFile};

/// Longest time until a new device is seen, ns.
pub const LOOKUP_NS: u64 = 10_000_000_000;

/// A set of `T`s and how it is looked up.
pub struct Watched<T> {
    tree: Tree,
    find: fn(&Tree) -> Vec<T>,
    found: Vec<T>,
    next_lookup_ns: Option<u64>,
    stale: bool,
}

impl<T> Watched<T> {
    /// The set as it is now.
    pub fn new(tree: &Tree, find: fn(&Tree) -> Vec<T>) -> Self {
        Self {
            tree: tree.clone(),
            find,
            found: find(tree),
            next_lookup_ns: None,
            stale: false,
        }
    }

    /// Whether there is anything now.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// What is there now, without looking.
    pub fn now(&self) -> &[T] {
        &self.found
    }

    /// The set, looked up again if it is time. `read` returns whether the device answered.
    pub fn for_each(&mut self, now_ns: u64, mut read: impl FnMut(&mut T) -> bool) {
        let next_ns = *self
            .next_lookup_ns
            .get_or_insert(now_ns.saturating_add(LOOKUP_NS));
        if self.stale || now_ns >= next_ns {
            self.found = (self.find)(&self.tree);
            self.next_lookup_ns = Some(now_ns.saturating_add(LOOKUP_NS));
        }
        self.stale = false;
        for device in &mut self.found {
            self.stale |= !read(device);
        }
    }
}

/// Reads small files into one buffer.
#[derive(Debug, Default)]
pub struct Reader {
    buffer: Vec<u8>,
}

impl Reader {
    /// The text of `file`, None when it is absent or cannot be read now.
    pub fn text(&mut self, file: &mut Option<TreeFile>) -> Option<&[u8]> {
        file.as_mut()?.read(&mut self.buffer, true).ok()
    }

    /// The number in `file`.
    pub fn number(&mut self, file: &mut Option<TreeFile>) -> Option<u64> {
        self.text(file).and_then(scan::number)
    }

    /// The number in `file`, which may be negative.
    pub fn signed_number(&mut self, file: &mut Option<TreeFile>) -> Option<i64> {
        self.text(file).and_then(scan::signed_number)
    }
}

/// The number in a file that is read once.
pub fn number(tree: &Tree, path: impl AsRef<Path>) -> Option<u64> {
    scan::number(&tree.text(path).ok()?)
}

/// The text of a file that is read once, without blanks at its ends.
pub fn label(tree: &Tree, path: impl AsRef<Path>) -> Option<String> {
    let text = tree.text(path).ok()?;
    let text = String::from_utf8_lossy(scan::trim(&text)).into_owned();
    (!text.is_empty()).then_some(text)
}

/// The file `name` of `directory`, if it can be read now.
pub fn file(tree: &Tree, directory: &Path, name: &str) -> Option<TreeFile> {
    readable(tree, &directory.join(name)).ok()
}

/// The file at `path`, which is read once to see that it can be: opening may work where reading does not.
pub fn readable(tree: &Tree, path: &Path) -> io::Result<TreeFile> {
    let mut file = tree.file(path)?;
    file.read(&mut Vec::new(), true)?;
    Ok(file)
}

/// Directories of CPUs, in the order of their numbers.
pub fn cpu_directories(tree: &Tree) -> Vec<(u32, PathBuf)> {
    tree.numbered("sys/devices/system/cpu", "cpu")
}
