//! Rows to Parquet, table by table.
//!
//! In: a table's rows and where they come from. Out: the bytes of a Parquet file of the store, and its name.
//!
//! Invariants: columns, types and order are those of `schemas/store.json`, which a test compares; the same rows make
//! the same bytes; rows are sorted by window.

mod columns;
mod key;
mod machines;
mod profiles;
mod tasks;

use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::Compression;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use self::columns::Columns;
pub use self::key::{date_of, file_name, key, percent_encode};
use crate::rows::{Incident, Machine, MachineSample, Origin, ProfileRow, TaskSample};

/// Version of a store that is made today.
pub const SCHEMA_VERSION: &str = "2.0";
/// The first major version of a store that today's files may be put into.
pub const FIRST_MAJOR: u32 = 1;

/// A table of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    /// What machines are.
    Machines,
    /// What machines did.
    MachineSamples,
    /// What tasks did.
    TaskSamples,
    /// Where time went.
    Profiles,
    /// Interference.
    Incidents,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Machines,
        Self::MachineSamples,
        Self::TaskSamples,
        Self::Profiles,
        Self::Incidents,
    ];

    /// Its name in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Machines => Machine::NAME,
            Self::MachineSamples => MachineSample::NAME,
            Self::TaskSamples => TaskSample::NAME,
            Self::Profiles => ProfileRow::NAME,
            Self::Incidents => Incident::NAME,
        }
    }

    /// Major version of its files.
    pub fn major(self) -> u32 {
        match self {
            Self::MachineSamples | Self::TaskSamples => 2,
            Self::Machines | Self::Profiles | Self::Incidents => 1,
        }
    }

    /// The table that a name stands for.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    /// The Parquet file of the rows in `payloads`, each a JSON list of this table's rows.
    pub fn encode(self, payloads: &[Vec<u8>], origin: &Origin) -> Result<Encoded, TableError> {
        match self {
            Self::Machines => encode::<Machine>(payloads, origin),
            Self::MachineSamples => encode::<MachineSample>(payloads, origin),
            Self::TaskSamples => encode::<TaskSample>(payloads, origin),
            Self::Profiles => encode::<ProfileRow>(payloads, origin),
            Self::Incidents => encode::<Incident>(payloads, origin),
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// A row of one table.
pub trait Row: Serialize + DeserializeOwned {
    /// The table.
    const TABLE: Table;
    /// Its name in the store.
    const NAME: &'static str;
    /// The time that the row is sorted, named and dated by.
    fn time_unix_s(&self) -> i64;
    /// Adds every column of the table, in its order.
    fn columns(rows: &[Self], origin: &Origin, columns: &mut Columns);
}

/// A Parquet file in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its rows.
    pub rows: usize,
    /// The time of the first.
    pub first_unix_s: i64,
}

/// Why rows did not become a file: a bug or a journal that another program wrote, never the world.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// A payload that is not rows of the table.
    #[error("rows of table {table} cannot be read back: {source}")]
    Rows {
        /// The table.
        table: &'static str,
        /// What JSON says.
        source: serde_json::Error,
    },
    /// Arrow or Parquet refuse them.
    #[error("rows of table {table} cannot be written as Parquet: {reason}")]
    Parquet {
        /// The table.
        table: &'static str,
        /// What the library says.
        reason: String,
    },
    /// Nothing to write.
    #[error("table {table}: no rows")]
    Empty {
        /// The table.
        table: &'static str,
    },
}

/// The columns of `rows` as one batch.
pub fn batch<R: Row>(rows: &[R], origin: &Origin) -> Result<RecordBatch, arrow_schema::ArrowError> {
    let mut columns = Columns::default();
    R::columns(rows, origin, &mut columns);
    columns.batch()
}

fn encode<R: Row>(payloads: &[Vec<u8>], origin: &Origin) -> Result<Encoded, TableError> {
    let table = R::NAME;
    let mut rows: Vec<R> = Vec::new();
    for payload in payloads {
        let more: Vec<R> =
            serde_json::from_slice(payload).map_err(|source| TableError::Rows { table, source })?;
        rows.extend(more);
    }
    rows.sort_by_key(Row::time_unix_s);
    let first_unix_s = rows
        .first()
        .ok_or(TableError::Empty { table })?
        .time_unix_s();
    let refuse = |reason: String| TableError::Parquet { table, reason };
    let batch = batch(&rows, origin).map_err(|error| refuse(error.to_string()))?;
    let bytes = parquet(&batch, R::TABLE).map_err(|error| refuse(error.to_string()))?;
    Ok(Encoded {
        bytes,
        rows: rows.len(),
        first_unix_s,
    })
}

fn parquet(batch: &RecordBatch, table: Table) -> Result<Vec<u8>, parquet::errors::ParquetError> {
    let metadata = [
        ("steelyard.table", table.name().to_owned()),
        ("steelyard.schema_version", format!("{}.0", table.major())),
    ];
    let metadata = metadata.map(|(key, value)| KeyValue::new(key.to_owned(), value));
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(true)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by(format!("steelyard-agent {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(metadata.to_vec()))
        .build();
    // The Arrow schema would be there a second time, for readers that want Arrow's own types back; these are Parquet's.
    let options = ArrowWriterOptions::new()
        .with_properties(properties)
        .with_skip_arrow_metadata(true);
    let mut bytes = Vec::new();
    let mut writer =
        ArrowWriter::try_new_with_options(&mut bytes, Arc::clone(&batch.schema()), options)?;
    writer.write(batch)?;
    writer.close()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
