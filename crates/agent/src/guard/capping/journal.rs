//! What was changed on this machine and has to be put back: one file for each cap, on the disk before the change.
//!
//! In: a cap about to be made. Out: after any crash, the knobs' old values.
//!
//! Invariants: an entry appears under its name only when it is complete and on the disk; it goes away only after its knobs were
//! put back, or were found not to be ours any more. Nothing in it is a path that is written to without being checked again.
//!
//! Not here: putting back (see `caps`).

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::quota::{Change, Hierarchy};
use crate::disk::{Disk, write_whole};
use crate::private::Private;
use crate::rows::Incident;

/// Version of an entry's shape. Another one's entries are not read by halves: they are set aside and named.
const VERSION: u32 = 1;

/// One cap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    version: u32,
    /// The entry's name, in the order of time.
    pub id: String,
    /// Which agent made it: its process and when that began.
    pub owner: String,
    /// The kernel's name for the time since the machine was started.
    pub boot_id: String,
    /// The hierarchy.
    pub hierarchy: Hierarchy,
    /// Path of the control group below its root.
    pub cgroup: String,
    /// The group's inode.
    pub inode: u64,
    /// The knobs, in the order in which they are changed.
    pub changes: Vec<Change>,
    /// When it was made, in seconds of Unix time.
    pub made_unix_s: f64,
    /// When it is to end.
    pub until_unix_s: f64,
    /// The incident that it answers, as far as it is known.
    pub incident: Incident,
    /// The outcome: an entry with one needs only its incident reported.
    pub ended: Option<Ended>,
}

/// How a cap ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// When, in seconds of Unix time.
    pub unix_s: f64,
    /// Whether the group is as it was, or is no more.
    pub undone: bool,
    /// As a sentence.
    pub outcome: String,
}

/// What is needed to begin an entry.
#[derive(Debug)]
pub struct Opening {
    /// The entry's name.
    pub id: String,
    /// Which agent makes it.
    pub owner: String,
    /// The kernel's name for this time.
    pub boot_id: String,
    /// The hierarchy.
    pub hierarchy: Hierarchy,
    /// The control group.
    pub cgroup: String,
    /// Its inode.
    pub inode: u64,
    /// The knobs.
    pub changes: Vec<Change>,
    /// When it is made and when it is to end, in seconds of Unix time.
    pub times: (f64, f64),
    /// The incident.
    pub incident: Incident,
}

impl From<Opening> for Entry {
    fn from(of: Opening) -> Self {
        Self {
            version: VERSION,
            id: of.id,
            owner: of.owner,
            boot_id: of.boot_id,
            hierarchy: of.hierarchy,
            cgroup: of.cgroup,
            inode: of.inode,
            changes: of.changes,
            made_unix_s: of.times.0,
            until_unix_s: of.times.1,
            incident: of.incident,
            ended: None,
        }
    }
}

/// An entry that cannot be read.
#[derive(Debug)]
pub struct Unreadable {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// The folder of entries.
#[derive(Debug, Clone)]
pub struct Journal {
    folder: Private,
}

impl Journal {
    /// The journal in `state`, made where there is none, for its owner's eyes only.
    pub fn open(state: &Path) -> io::Result<Self> {
        let folder = Private::make(&state.join("caps"))?;
        Ok(Self { folder })
    }

    /// The journal in `state` if there is one.
    pub fn find(state: &Path) -> io::Result<Option<Self>> {
        match Private::open(&state.join("caps")) {
            Ok(folder) => Ok(Some(Self { folder })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn path(&self, id: &str) -> PathBuf {
        self.folder.path().join(format!("{id}.json"))
    }

    /// Writes an entry; it is on the disk when this returns.
    pub fn write(&self, entry: &Entry) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(entry)?;
        let (partial, name) = (
            format!("{}.{}.partial", entry.id, std::process::id()),
            format!("{}.json", entry.id),
        );
        write_whole(&self.folder, self.folder.path(), &partial, &name, &text)
    }

    /// Removes an entry, if it is there.
    pub fn remove(&self, id: &str) -> io::Result<()> {
        self.folder.remove(&self.path(id))?;
        self.sync()
    }

    /// A file's name is on the disk only when its folder is.
    fn sync(&self) -> io::Result<()> {
        self.folder.sync(self.folder.path())
    }

    /// The entries, the newest first, and what cannot be read.
    pub fn entries(&self) -> io::Result<(Vec<Entry>, Vec<Unreadable>)> {
        let (mut entries, mut unreadable) = (Vec::new(), Vec::new());
        for name in self.folder.list(self.folder.path())? {
            let path = self.folder.path().join(name);
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            match self.read(&path) {
                Ok(entry) => entries.push(entry),
                // Another process may have dealt with it between the listing and the reading.
                Err(Reading::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
                Err(Reading::Io(error)) => unreadable.push(Unreadable {
                    path,
                    reason: error.to_string(),
                }),
                Err(Reading::Shape(reason)) => unreadable.push(Unreadable { path, reason }),
            }
        }
        entries.sort_by(|one: &Entry, other| other.id.cmp(&one.id));
        Ok((entries, unreadable))
    }

    /// Gives an unreadable entry another name, so that it is reported once and kept.
    pub fn set_aside(&self, path: &Path) -> io::Result<()> {
        self.folder
            .rename(path, &path.with_extension("unreadable"))?;
        self.sync()
    }

    fn read(&self, path: &Path) -> Result<Entry, Reading> {
        let text = self.folder.read(path).map_err(Reading::Io)?;
        let entry = parse(&text).map_err(Reading::Shape)?;
        // The name is what the entry is removed by.
        if path.file_stem().is_none_or(|stem| *stem != *entry.id) {
            return Err(Reading::Shape("its file has another entry's name".into()));
        }
        Ok(entry)
    }
}

enum Reading {
    Io(io::Error),
    Shape(String),
}

/// Reads an entry's text.
pub fn parse(text: &[u8]) -> Result<Entry, String> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let versioned: Versioned = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if versioned.version != VERSION {
        return Err(format!(
            "version {}, and this agent reads version {VERSION}",
            versioned.version
        ));
    }
    serde_json::from_slice(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::fs;

    use super::*;
    use crate::guard::testing::entry;

    #[test]
    fn entries_come_back_newest_first_and_broken_ones_are_named() {
        let state = tempfile::tempdir().unwrap();
        assert!(Journal::find(state.path()).unwrap().is_none());
        let journal = Journal::open(state.path()).unwrap();
        for id in ["0001", "0003", "0002"] {
            journal.write(&entry(id, "/a \"\n\u{7f}b")).unwrap();
        }
        let whole = fs::read(journal.path("0001")).unwrap();
        fs::write(journal.path("0004"), &whole[..whole.len() / 2]).unwrap();
        fs::write(journal.path("0005"), &whole).unwrap();
        fs::write(state.path().join("caps/0006.json.1.partial"), "").unwrap();
        let (entries, unreadable) = journal.entries().unwrap();
        let ids: Vec<_> = entries.iter().map(|entry| entry.id.as_str()).collect();
        assert_eq!(ids, ["0003", "0002", "0001"]);
        assert_eq!(entries[0].cgroup, "/a \"\n\u{7f}b");
        assert_eq!(unreadable.len(), 2);
        for broken in &unreadable {
            journal.set_aside(&broken.path).unwrap();
        }
        journal.remove("0001").unwrap();
        journal.remove("0001").unwrap();
        let (entries, unreadable) = Journal::find(state.path())
            .unwrap()
            .unwrap()
            .entries()
            .unwrap();
        assert_eq!((entries.len(), unreadable.len()), (2, 0));
    }

    #[test]
    fn another_version_is_refused_whole() {
        let mut value = serde_json::to_value(entry("0001", "/a")).unwrap();
        value["version"] = 2.into();
        let refused = parse(value.to_string().as_bytes()).unwrap_err();
        assert!(refused.contains("version 2"), "{refused}");
    }

    proptest! {
        #[test]
        fn no_text_is_more_than_refused(text in prop::collection::vec(any::<u8>(), 0..200), cut in 0..900_usize) {
            let _ = parse(&text);
            let whole = serde_json::to_vec(&entry("0001", "/a")).unwrap();
            let cut = cut.min(whole.len());
            prop_assert_eq!(parse(&whole[..cut]).is_ok(), cut == whole.len());
        }
    }
}
