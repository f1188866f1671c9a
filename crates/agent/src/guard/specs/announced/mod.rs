//! What a Parquet file of another machine announces, checked before the `parquet` library reads it.
//!
//! The library believes what it reads: it reserves memory for announced numbers of elements, passes over a list of booleans
//! element by element without taking a byte, and takes a field for what its number says, whatever its type. A file of 109
//! bytes kept it busy for 14 s.
//!
//! In: the file's bytes and, for pages, the metadata that the library read from a checked footer. Out: nothing, or why the file
//! is refused.
//!
//! Invariants: work is proportional to the bytes; what the library does and reserves after both checks is bounded by the
//! constants here. Not here: whether values are right, and columns that are not read.

mod lengths;
mod pages;
mod schema;
mod structures;
#[cfg(test)]
mod tests;
mod walk;

use std::ops::Range;

use steelyard_thrift::{Reader, ThriftError};

pub use pages::check_pages;
use schema::Schema;
use structures::{COLUMN_CHUNK, FILE_METADATA, SCHEMA_ELEMENT};
use walk::{Event, walk};

/// Most bytes of metadata: 100,000 chunks of columns take about 10 MB.
const METADATA_BYTES_MAX: i64 = 16 << 20;
/// Most elements of a list in the metadata, and most chunks of columns in the file.
const ELEMENTS_MAX: i64 = 100_000;

/// Why a file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnnouncedError {
    /// Not a Parquet file.
    #[error("not a Parquet file: {0}")]
    Form(&'static str),
    /// Bytes that are not Thrift's compact protocol.
    #[error("malformed Parquet: {structure}: {source}")]
    Protocol {
        /// Structure of the Parquet format.
        structure: &'static str,
        /// What is wrong with the bytes.
        source: ThriftError,
    },
    /// A field of another type than the format's.
    #[error("malformed Parquet: {structure}: field {id} has the wrong type")]
    Type {
        /// Structure of the Parquet format.
        structure: &'static str,
        /// Number of the field.
        id: i16,
    },
    /// A field that comes twice.
    #[error("malformed Parquet: {structure}: field {id} comes twice")]
    Twice {
        /// Structure of the Parquet format.
        structure: &'static str,
        /// Number of the field.
        id: i16,
    },
    /// A union without a member, or with several.
    #[error("malformed Parquet: {0} has {1} members instead of one")]
    Members(&'static str, usize),
    /// A number outside its bounds.
    #[error("{what}: {value} is outside {min} to {max}")]
    Bound {
        /// What is counted.
        what: &'static str,
        /// The number.
        value: i64,
        /// Lowest value.
        min: i64,
        /// Highest value.
        max: i64,
    },
    /// Parts that contradict each other.
    #[error("malformed Parquet: {0}")]
    Contradiction(&'static str),
    /// A page that the library cannot read.
    #[error("{0}")]
    Page(String),
    /// An encoding of text that is not read.
    #[error("text in the encoding {0} is not read")]
    Encoding(&'static str),
}

/// An error unless `value` is from `min` to `max`.
fn within(what: &'static str, value: i64, min: i64, max: i64) -> Result<(), AnnouncedError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(AnnouncedError::Bound {
        what,
        value,
        min,
        max,
    })
}

/// Checks the footer of the file `bytes`.
///
/// # Errors
/// Why the library may not read it.
pub fn check_footer(bytes: &[u8]) -> Result<(), AnnouncedError> {
    let mut reader = Reader::new(&bytes[metadata_range(bytes)?]);
    let mut schema = Schema::default();
    let mut chunks = 0;
    walk(&mut reader, &FILE_METADATA, &mut |structure, event| {
        if structure.is(&SCHEMA_ELEMENT) {
            return schema.meet(event);
        }
        if structure.is(&COLUMN_CHUNK) && event == Event::End {
            chunks += 1;
        }
        within("chunks of columns", chunks, 0, ELEMENTS_MAX)
    })?;
    schema.end()
}

/// Where the metadata is: before their length in 4 bytes, and the file's last 4.
fn metadata_range(bytes: &[u8]) -> Result<Range<usize>, AnnouncedError> {
    let short = AnnouncedError::Form("too short");
    let Some((rest, magic)) = bytes.split_last_chunk::<4>() else {
        return Err(short);
    };
    if magic != b"PAR1" {
        return Err(AnnouncedError::Form("no PAR1 at its end"));
    }
    let Some((rest, length)) = rest.split_last_chunk() else {
        return Err(short);
    };
    let length = u32::from_le_bytes(*length);
    within(
        "bytes of metadata",
        i64::from(length),
        0,
        METADATA_BYTES_MAX,
    )?;
    let start = rest.len().checked_sub(length as usize).ok_or(short)?;
    Ok(start..rest.len())
}
