//! Files of /proc that are read again and again: kept open while there are descriptors to spare.

use std::io;

use steelyard_kernel::{Tree, TreeFile};
use steelyard_probe::raise_descriptor_limit;

/// Descriptors that other parts of the program may need.
const SPARE: usize = 512;

/// A file that belongs to one process or thread.
#[derive(Debug, Default)]
pub enum Place {
    /// Not read so far.
    #[default]
    Untried,
    /// Open.
    Kept(TreeFile),
    /// Opened for each read.
    Each,
}

/// Reads files into one buffer, and counts those that are open.
#[derive(Debug)]
pub struct Files {
    tree: Tree,
    buffer: Vec<u8>,
    kept: usize,
    kept_most: usize,
}

impl Files {
    /// Files of `tree`.
    pub fn new(tree: &Tree) -> Self {
        Self {
            tree: tree.clone(),
            buffer: Vec::new(),
            kept: 0,
            kept_most: raise_descriptor_limit().saturating_sub(SPARE),
        }
    }

    /// The text of a file that is read often; `path` is asked for only where it has to be opened.
    pub fn read(&mut self, place: &mut Place, path: impl Fn() -> String) -> io::Result<&[u8]> {
        if let Place::Untried = place {
            *place = if self.kept < self.kept_most {
                self.kept += 1;
                match self.tree.file(path()) {
                    Ok(file) => Place::Kept(file),
                    Err(error) => {
                        self.kept -= 1;
                        return Err(error);
                    }
                }
            } else {
                Place::Each
            };
        }
        match place {
            Place::Kept(file) => file.read(&mut self.buffer, true),
            _ => self.tree.file(path())?.read(&mut self.buffer, true),
        }
    }

    /// The text of a file that is read seldom.
    pub fn read_once(&mut self, path: &str) -> io::Result<&[u8]> {
        self.tree.file(path)?.read(&mut self.buffer, false)
    }

    /// A file that was kept is closed.
    pub fn close(&mut self, place: &mut Place) {
        if let Place::Kept(_) = place {
            self.kept -= 1;
        }
        *place = Place::Untried;
    }

    /// The tree.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }
}
