//! The spool: finished windows on the machine's own disk until the store has them.
//!
//! In: rows, window by window. Out: files of the store, which an uploader takes away one by one.
//!
//! A window's rows are added to the journal of their table's batch, some minutes long. At the batch's end the journal
//! becomes a Parquet file in `ready/`, and is removed; only then may the file be uploaded, and it is removed when the
//! store has it. A file's name begins with its batch, so that a journal whose file is there already (a crash came
//! between) is known to be done with, even by an agent that would write other bytes.
//!
//! ```text
//! SPOOL/lock  SPOOL/lost.json
//! SPOOL/journal/<batch>.journal
//! SPOOL/ready/<batch>,<table>,<date>,<cluster>,<name in the store>
//! ```
//!
//! Invariants: a row whose addition returned is lost to nothing but the bound of the disk, and is then counted; it
//! reaches the store once; one agent uses a spool at a time.

pub mod journal;
mod ready;
pub mod upload;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use self::journal::{Head, Journal};
pub use self::ready::Ready;
use crate::disk::{Disk, write_whole};
use crate::rows::Origin;
use crate::table::{Row, Table, date_of, file_name, percent_encode};

/// What a spool is asked to do.
#[derive(Debug, Clone)]
pub struct SpoolSettings {
    /// Its folder.
    pub folder: PathBuf,
    /// Whose rows it holds.
    pub origin: Origin,
    /// Length of a batch, s; divides a day.
    pub batch_s: i64,
    /// Bytes that it may hold.
    pub bound_bytes: u64,
}

/// What had to be given up, since the spool was made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Files that were dropped to make room.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Windows whose rows could not be written down at all.
    pub windows: u64,
}

/// A spool.
pub struct Spool<D> {
    disk: D,
    settings: SpoolSettings,
    open: BTreeMap<Table, Open>,
    /// Batches that take no rows any more and whose journals are still there.
    sealing: Vec<Open>,
    lost: Lost,
    last_id: u64,
    in_flight: InFlight,
}

/// The file that is being uploaded, which is not to be dropped meanwhile.
pub type InFlight = Arc<Mutex<Option<String>>>;

/// A batch that is not finished, with its payloads.
struct Open {
    journal: Journal,
    payloads: Vec<Vec<u8>>,
}

const JOURNAL: &str = "journal";
const READY: &str = "ready";
const LOST: &str = "lost.json";

impl<D: Disk> Spool<D> {
    /// Opens the spool in its folder, and goes on where the agent before stopped.
    pub fn open(disk: D, settings: SpoolSettings) -> io::Result<Self> {
        let folder = &settings.folder;
        for below in [JOURNAL, READY] {
            disk.create_folder(&folder.join(below))?;
        }
        disk.sync(folder)?;
        let lost = match disk.read(&folder.join(LOST)) {
            Ok(text) => serde_json::from_slice(&text).unwrap_or_default(),
            Err(_) => Lost::default(),
        };
        let mut spool = Self {
            disk,
            settings,
            open: BTreeMap::new(),
            sealing: Vec::new(),
            lost,
            last_id: 0,
            in_flight: InFlight::default(),
        };
        spool.recover()?;
        Ok(spool)
    }

    /// Takes up journals, takes away halves.
    fn recover(&mut self) -> io::Result<()> {
        let ready = self.folder(READY);
        for name in self.disk.list(&ready)? {
            self.note_id(&name);
            if Ready::parse(&name).is_none() {
                self.disk.remove(&ready.join(&name))?;
            }
        }
        let journals = self.folder(JOURNAL);
        for name in self.disk.list(&journals)? {
            let path = journals.join(&name);
            let Some(id) = name.strip_suffix(".journal") else {
                self.disk.remove(&path)?;
                continue;
            };
            self.note_id(id);
            self.recover_journal(&path, id)?;
        }
        Ok(())
    }

    fn recover_journal(&mut self, path: &Path, id: &str) -> io::Result<()> {
        let Some((journal, payloads)) = Journal::recover(&self.disk, path, id)? else {
            return self.remove_journal(path);
        };
        let is_sealed = self.ready()?.iter().any(|file| file.id == id);
        let table = journal.head.table;
        let goes_on =
            journal.head.origin == self.settings.origin && !self.open.contains_key(&table);
        let open = Open { journal, payloads };
        if goes_on && !is_sealed {
            self.open.insert(table, open);
            return Ok(());
        }
        self.sealing.push(open);
        self.work_off()
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.settings.folder.join(name)
    }

    fn remove_journal(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)?;
        // The file that it became may be uploaded only when the journal cannot come back.
        self.disk.sync(&self.folder(JOURNAL))
    }

    fn note_id(&mut self, name: &str) {
        if let Some(id) = name
            .get(..16)
            .and_then(|id| u64::from_str_radix(id, 16).ok())
        {
            self.last_id = self.last_id.max(id);
        }
    }

    /// Adds the rows of one window. When this returns without an error they survive whatever happens.
    pub fn add<R: Row>(&mut self, rows: &[R]) -> io::Result<()> {
        let Some(first) = rows.first() else {
            return Ok(());
        };
        let payload = serde_json::to_vec(rows)?;
        let time = first.time_unix_s();
        let (table, batch_s) = (R::TABLE, self.settings.batch_s);
        let start = time.div_euclid(batch_s) * batch_s;
        // A clock that was set back, or an agent whose batches were of another length, begins a new batch.
        let fits = |open: &Open| {
            open.journal.head.batch_start_unix_s == start
                && open.journal.head.batch_end_unix_s == start + batch_s
        };
        if self.open.get(&table).is_some_and(|open| !fits(open)) {
            // That its file cannot be written now is no reason to lose this window too.
            if let Err(error) = self.seal_tables(&[table]) {
                tracing::warn!("a batch of {table} is not written yet: {error}");
            }
        }
        if !self.open.contains_key(&table) {
            let head = Head {
                table,
                origin: self.settings.origin.clone(),
                date: date_of(start),
                batch_start_unix_s: start,
                batch_end_unix_s: start + batch_s,
            };
            let id = self.next_id();
            let journal = Journal::create(&self.disk, &self.folder(JOURNAL), &id, head)?;
            let payloads = Vec::new();
            self.open.insert(table, Open { journal, payloads });
        }
        let open = self.open.get_mut(&table).expect("it was opened above");
        open.journal.add(&self.disk, &payload)?;
        open.payloads.push(payload);
        Ok(())
    }

    fn next_id(&mut self) -> String {
        self.last_id += 1;
        format!("{:016x}", self.last_id)
    }

    /// Makes files of the batches that ended by `now_unix_s`.
    pub fn seal_ended(&mut self, now_unix_s: i64) -> io::Result<()> {
        let ended = |open: &Open| open.journal.head.batch_end_unix_s <= now_unix_s;
        let tables = self.open.iter().filter(|(_, open)| ended(open));
        let tables: Vec<Table> = tables.map(|(table, _)| *table).collect();
        self.seal_tables(&tables)
    }

    /// Makes files of all batches, ended or not.
    pub fn seal_all(&mut self) -> io::Result<()> {
        let tables: Vec<Table> = self.open.keys().copied().collect();
        self.seal_tables(&tables)
    }

    /// From here on the batches take no more rows, even if their files cannot be written now: what a file of a batch
    /// holds must not depend on how often it was tried.
    fn seal_tables(&mut self, tables: &[Table]) -> io::Result<()> {
        for table in tables {
            self.sealing.extend(self.open.remove(table));
        }
        self.work_off()
    }

    /// Makes files of the batches that take no more rows. What fails is tried again at the next occasion.
    fn work_off(&mut self) -> io::Result<()> {
        let mut result = Ok(());
        for open in std::mem::take(&mut self.sealing) {
            if let Err(error) = self.seal(&open) {
                self.sealing.push(open);
                result = Err(error);
            }
        }
        result
    }

    fn seal(&mut self, open: &Open) -> io::Result<()> {
        let head = &open.journal.head;
        let folder = self.folder(READY);
        let is_there = self.ready()?.iter().any(|file| file.id == open.journal.id);
        if is_there {
            self.disk.sync(&folder)?;
        } else if !open.payloads.is_empty() {
            let encoded = head
                .table
                .encode(&open.payloads, &head.origin)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            self.make_room(encoded.bytes.len() as u64)?;
            let ready = Ready {
                id: open.journal.id.clone(),
                table: head.table,
                date: head.date.clone(),
                cluster: percent_encode(&head.origin.cluster),
                name: file_name(&head.origin.machine, encoded.first_unix_s, &encoded.bytes),
            };
            let partial = format!("{}.partial", open.journal.id);
            write_whole(
                &self.disk,
                &folder,
                &partial,
                &ready.file_name(),
                &encoded.bytes,
            )?;
        }
        self.remove_journal(&open.journal.path)
    }

    /// Files that wait for the store, the oldest first.
    pub fn ready(&self) -> io::Result<Vec<Ready>> {
        let names = self.disk.list(&self.folder(READY))?;
        Ok(names.iter().filter_map(|name| Ready::parse(name)).collect())
    }

    /// Drops the oldest files until `more` bytes fit.
    fn make_room(&mut self, more: u64) -> io::Result<()> {
        let folder = self.folder(READY);
        let in_flight = Arc::clone(&self.in_flight);
        let in_flight = in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sizes = Vec::new();
        for file in self.ready()? {
            let name = file.file_name();
            if in_flight.as_deref() == Some(name.as_str()) {
                continue;
            }
            let path = folder.join(name);
            // The uploader may just have taken it away.
            let bytes = self.disk.length(&path).unwrap_or(0);
            sizes.push((path, bytes));
        }
        let mut held: u64 = sizes.iter().map(|(_, bytes)| bytes).sum();
        let before = self.lost.clone();
        for (path, bytes) in sizes {
            if held + more <= self.settings.bound_bytes {
                break;
            }
            // Counted first: rows that are gone without a word are worse than some that are counted twice.
            self.lost.files += 1;
            self.lost.bytes += bytes;
            self.write_lost()?;
            self.disk.remove(&path)?;
            held -= bytes;
        }
        if self.lost != before {
            tracing::warn!(
                "the spool is full: {} files ({} bytes) were dropped before upload",
                self.lost.files - before.files,
                self.lost.bytes - before.bytes
            );
            self.disk.sync(&folder)?;
        }
        Ok(())
    }

    /// Notes that a window's rows could not be added.
    pub fn lose_window(&mut self) {
        self.lost.windows += 1;
        // Where even this cannot be written, the agent still reports the figure while it runs.
        let _ = self.write_lost();
    }

    fn write_lost(&self) -> io::Result<()> {
        let text = serde_json::to_vec(&self.lost)?;
        write_whole(
            &self.disk,
            &self.settings.folder,
            "lost.partial",
            LOST,
            &text,
        )
    }

    /// The disk that it is on.
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// What had to be given up so far.
    pub fn lost(&self) -> &Lost {
        &self.lost
    }

    /// Shared with the uploader.
    pub fn in_flight(&self) -> InFlight {
        Arc::clone(&self.in_flight)
    }

    /// Windows in journals, by table.
    pub fn waiting_windows(&self) -> BTreeMap<Table, usize> {
        self.open
            .iter()
            .map(|(table, open)| (*table, open.payloads.len()))
            .collect()
    }

    /// Bytes in journals.
    pub fn journal_bytes(&self) -> u64 {
        self.open.values().map(|open| open.journal.length()).sum()
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
