//! The /proc and /sys that are read: this machine's, or a recorded copy below another root.
//!
//! On the machine's own tree a file is opened once and read with `pread` from then on, which saves the path
//! walk; the kernel makes the text anew for each read from the start. In a recorded tree (a root other than
//! `/`) a file is opened for each read, so that files that come, go or change between ticks are seen just as
//! they would be in the kernel's trees. Anything but a regular file, such as a FIFO, is refused there at once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use steelyard_record::{open_file, read_file};

/// A root with `proc` and `sys` below it.
#[derive(Debug, Clone)]
pub struct Tree {
    root: PathBuf,
    /// Files that several sources read, so that one tick reads them once.
    shared: Rc<RefCell<HashMap<&'static str, SharedFile>>>,
}

impl Tree {
    /// The tree below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            shared: Rc::default(),
        }
    }

    /// Whether this is the running machine's own tree.
    pub fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The path of `name`, which is relative to the root.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.join(name)
    }

    /// A file to be read at every tick; an error when it cannot be read now.
    pub fn file(&self, name: impl AsRef<Path>) -> io::Result<TreeFile> {
        let path = self.path(name);
        let file = open_file(&path)?;
        Ok(TreeFile {
            path,
            file: self.is_live().then_some(file),
        })
    }

    /// A file that is opened at each read, for readers of more files than may be open at once.
    pub fn file_at_each_read(&self, name: impl AsRef<Path>) -> TreeFile {
        TreeFile {
            path: self.path(name),
            file: None,
        }
    }

    /// A file that several sources read, such as /proc/stat.
    pub fn shared(&self, name: &'static str) -> io::Result<SharedFile> {
        if let Some(file) = self.shared.borrow().get(name) {
            return Ok(file.clone());
        }
        let shared = SharedFile(Rc::new(RefCell::new(SharedText {
            file: TextFile::new(self.file(name)?),
            length: 0,
            tick: None,
            time_ns: 0,
        })));
        self.shared.borrow_mut().insert(name, shared.clone());
        Ok(shared)
    }

    /// The whole text of a small file, for reading once.
    pub fn text(&self, name: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        read_file(&self.path(name), TOO_LONG as u64)
    }

    /// The names in a directory, sorted; empty when it cannot be read.
    pub fn names(&self, name: impl AsRef<Path>) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path(name))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// The names of the directories in a directory; links are not followed.
    pub fn directories(&self, name: impl AsRef<Path>) -> Vec<String> {
        fs::read_dir(self.path(name))
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect()
    }

    /// The names in a directory that are plain numbers, as those of processes are, in no order.
    pub fn ids(&self, name: impl AsRef<Path>) -> Vec<u32> {
        fs::read_dir(self.path(name))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect()
    }

    /// Directories below `name` called `prefix` and a number, in the order of their numbers.
    pub fn numbered(&self, name: impl AsRef<Path>, prefix: &str) -> Vec<(u32, PathBuf)> {
        let name = name.as_ref();
        let mut found: Vec<(u32, PathBuf)> = self
            .names(name)
            .into_iter()
            .filter_map(|entry| {
                let number = entry.strip_prefix(prefix)?.parse().ok()?;
                Some((number, name.join(entry)))
            })
            .collect();
        found.sort();
        found
    }
}

/// One file of the tree, read again at every tick.
#[derive(Debug)]
pub struct TreeFile {
    path: PathBuf,
    /// Open on a live tree; None on a recorded one, or after a read failed.
    file: Option<File>,
}

/// What one `pread` asks for: more than any file here but /proc/interrupts and /proc/stat of large machines.
const CHUNK: usize = 16 * 1024;
/// A file of this size is no file of /proc or /sys.
const TOO_LONG: usize = 64 << 20;
/// A seq_file returns whole records until its buffer, at least a page, is full. A read of less than a page
/// by more than the longest record is therefore the end, and the read that would return 0 can be saved.
/// Source: Linux, fs/seq_file.c.
const SURELY_THE_END: usize = 4096 - 1024;

impl TreeFile {
    /// Reads the file from its start into `buffer`. `short_records` says that no record of it is longer than
    /// 1 KiB (files made as one record, such as /proc/stat, count as short).
    pub fn read<'b>(
        &mut self,
        buffer: &'b mut Vec<u8>,
        short_records: bool,
    ) -> io::Result<&'b [u8]> {
        let opened;
        let file = match &self.file {
            Some(file) => file,
            None => {
                opened = open_file(&self.path)?;
                &opened
            }
        };
        read_from_start(file, buffer, short_records)
    }

    /// Closes the file and opens it again at the next read: a device that comes back is another file.
    pub fn reopen(&mut self) -> io::Result<()> {
        if self.file.is_some() {
            self.file = Some(open_file(&self.path)?);
        }
        Ok(())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Reads `file` from its start into `buffer` and returns the text.
pub fn read_from_start<'b>(
    file: &File,
    buffer: &'b mut Vec<u8>,
    short_records: bool,
) -> io::Result<&'b [u8]> {
    let mut length = 0;
    loop {
        if buffer.len() < length + CHUNK {
            buffer.resize(length + CHUNK, 0);
        }
        let got = match file.read_at(&mut buffer[length..], length as u64) {
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        length += got;
        if got == 0 || (short_records && got < SURELY_THE_END) {
            return Ok(&buffer[..length]);
        }
        if length > TOO_LONG {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
    }
}

/// A file with the buffer it is read into.
#[derive(Debug)]
pub struct TextFile {
    file: TreeFile,
    buffer: Vec<u8>,
    long_records: bool,
}

impl TextFile {
    /// A file whose records are short; see [`TreeFile::read`].
    pub fn new(file: TreeFile) -> Self {
        Self {
            file,
            buffer: Vec::new(),
            long_records: false,
        }
    }

    /// A file whose records may be longer than 1 KiB.
    pub fn with_long_records(file: TreeFile) -> Self {
        Self {
            long_records: true,
            ..Self::new(file)
        }
    }

    /// The text now.
    pub fn read(&mut self) -> io::Result<&[u8]> {
        let length = match self.file.read(&mut self.buffer, !self.long_records) {
            Ok(text) => text.len(),
            Err(error) => {
                // Whatever made it fail, the next tick starts with a fresh descriptor if it can get one.
                let _ = self.file.reopen();
                return Err(error);
            }
        };
        Ok(&self.buffer[..length])
    }
}

#[derive(Debug)]
struct SharedText {
    file: TextFile,
    length: usize,
    tick: Option<u64>,
    time_ns: u64,
}

/// A file that is read at most once a tick, whichever source asks first.
#[derive(Debug, Clone)]
pub struct SharedFile(Rc<RefCell<SharedText>>);

impl SharedFile {
    /// Hands `use_text` the time of the read of the tick with this number, and the text; `clock` is asked for the time, ns.
    pub fn read<R>(
        &self,
        tick: u64,
        clock: &dyn Fn() -> u64,
        use_text: impl FnOnce(u64, &[u8]) -> R,
    ) -> io::Result<R> {
        let mut shared = self.0.borrow_mut();
        if shared.tick != Some(tick) {
            shared.tick = None;
            shared.time_ns = clock();
            shared.length = shared.file.read()?.len();
            shared.tick = Some(tick);
        }
        Ok(use_text(
            shared.time_ns,
            &shared.file.buffer[..shared.length],
        ))
    }
}
