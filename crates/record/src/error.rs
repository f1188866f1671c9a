use std::path::PathBuf;

/// What can go wrong between a record and its file.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file concerned.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The text is not JSON of the expected shape.
    #[error("{path}: not a {kind} record: {source}")]
    Shape {
        /// The file concerned.
        path: PathBuf,
        /// The kind that was expected.
        kind: &'static str,
        /// Where the text departs from it.
        source: serde_json::Error,
    },
    /// The record is of another kind.
    #[error("{path}: this is a {found:?} record, expected {expected:?}")]
    Kind {
        /// The file concerned.
        path: PathBuf,
        /// What the file says it is.
        found: String,
        /// What the reader asked for.
        expected: &'static str,
    },
    /// The record was written by a Steelyard with another major version of this schema.
    #[error(
        "{path}: schema version {found} of {kind} is not supported (this program reads {supported}.x): \
         use the Steelyard that wrote it, or a newer one"
    )]
    Version {
        /// The file concerned.
        path: PathBuf,
        /// The kind of record.
        kind: &'static str,
        /// What the file says.
        found: String,
        /// The major version that this program reads.
        supported: u32,
    },
}
