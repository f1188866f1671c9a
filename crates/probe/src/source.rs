//! What a source is.

use std::collections::BTreeMap;
use std::io;

use steelyard_record::{Column as RecordColumn, Source as RecordSource};

use crate::table::{Column, Table};
use steelyard_kernel::Tree;

/// One round of reads.
pub struct Tick<'a> {
    /// Counts from 0.
    pub number: u64,
    /// Whether it is known to be the last: sources that put something off must not do so any longer.
    pub last: bool,
    /// Where `now_ns` comes from: injected, so that tests need no sleeping.
    pub clock: &'a dyn Fn() -> u64,
}

impl Tick<'_> {
    /// The monotonic time, ns.
    pub fn now_ns(&self) -> u64 {
        (self.clock)()
    }
}

/// A source that has been opened.
pub trait Source {
    /// The columns of its table, `time_ns` first. They stay the same while it is open.
    fn columns(&self) -> Vec<Column>;

    /// Why columns that are all null here are so: pairs of column name and reason.
    fn missing(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Things that were asked for and have no rows, or not all: the reason by name.
    fn missing_items(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// What a reader of the rows should know.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether what it reads is gone for good, so that recording it may end.
    fn is_over(&self) -> bool {
        false
    }

    /// Appends this tick's rows. An error means that the rest of this tick's rows could not be read; rows
    /// already appended stay.
    fn read(&mut self, tick: &Tick<'_>, table: &mut Table) -> io::Result<()>;
}

/// Why a source cannot be read here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// The reason.
    pub reason: String,
    /// What would make it readable, None when nothing on this machine would.
    pub enable: Option<String>,
}

impl Unavailable {
    /// A reason without remedy.
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            enable: None,
        }
    }

    /// The same with a remedy.
    #[must_use]
    pub fn enable(mut self, how: impl Into<String>) -> Self {
        self.enable = Some(how.into());
        self
    }

    /// The same with a remedy if there is none yet.
    #[must_use]
    pub fn or_enable(self, how: &str) -> Self {
        match self.enable {
            Some(_) => self,
            None => self.enable(how),
        }
    }

    /// The reason that `error` on `path` gives.
    pub fn cannot_read(path: &std::path::Path, error: &io::Error) -> Self {
        let unavailable = Self::new(match error.kind() {
            io::ErrorKind::NotFound => format!("{} does not exist", path.display()),
            _ => format!("{}: {error}", path.display()),
        });
        if error.kind() == io::ErrorKind::PermissionDenied {
            return unavailable.enable("run the probe as root, or let its user read the file");
        }
        unavailable
    }
}

/// A source as it is known before it is opened.
pub struct Definition {
    /// Name, which is the file's name too.
    pub name: &'static str,
    /// What it measures, in a sentence.
    pub about: &'static str,
    /// Its columns; those that depend on the kernel are left out.
    pub columns: &'static [Column],
    /// Opens it in a tree.
    pub open: fn(&Tree) -> Result<Box<dyn Source>, Unavailable>,
}

/// Whether a source can be read here, and why not.
pub struct Availability {
    /// The source.
    pub definition: &'static Definition,
    /// Its columns here.
    pub columns: Vec<Column>,
    /// Columns that are all null here, each with the reason.
    pub missing: Vec<(String, String)>,
    /// Things of it that are not here, each with the reason.
    pub missing_items: BTreeMap<String, String>,
    /// What a reader of its rows should know.
    pub notes: Vec<String>,
    /// Why it cannot be read; None when it can.
    pub unavailable: Option<Unavailable>,
}

/// `columns` as `telemetry.json` lists them.
pub fn record_columns(columns: &[Column], missing: &[(String, String)]) -> Vec<RecordColumn> {
    columns
        .iter()
        .map(|column| RecordColumn {
            name: column.name.to_string(),
            kind: column.kind,
            unit: column.unit.map(str::to_owned),
            missing: missing
                .iter()
                .find(|(name, _)| *name == column.name)
                .map(|(_, reason)| reason.clone()),
        })
        .collect()
}

/// The row of `telemetry.json` of a source that cannot be read.
pub fn unavailable_record(definition: &Definition, unavailable: &Unavailable) -> RecordSource {
    RecordSource {
        name: definition.name.to_owned(),
        available: false,
        reason: Some(unavailable.reason.clone()),
        file: None,
        rows: 0,
        failed_reads: 0,
        read_ns_mean: None,
        columns: record_columns(definition.columns, &[]),
        missing_items: BTreeMap::new(),
        notes: Vec::new(),
    }
}
