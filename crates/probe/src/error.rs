use std::io;
use std::path::PathBuf;

/// What can go wrong between a source and its file.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// A name that is no source.
    #[error("no source is called {name:?}; there are: {known}")]
    UnknownSource {
        /// The name asked for.
        name: String,
        /// All names.
        known: String,
    },
    /// A source that is recorded only with settings of its own.
    #[error("source {name} needs --counters PLAN")]
    Unsettled {
        /// The source.
        name: String,
    },
    /// A file that is no plan of events.
    #[error("{path}: not a counter plan: {reason}")]
    Plan {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A program to watch that is not there.
    #[error("{what}")]
    NoTarget {
        /// What is not there.
        what: String,
    },
    /// None of the sources asked for can be read here.
    #[error("nothing to record: {reasons}")]
    NothingToRecord {
        /// Each source with its reason.
        reasons: String,
    },
    /// The output directory cannot be used.
    #[error("cannot record into {path}: {source}")]
    Output {
        /// The directory or file concerned.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Writing failed in the middle of a recording.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file concerned.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A recording's file could not be read or encoded.
    #[error("{path}: {source}")]
    Arrow {
        /// The file concerned.
        path: PathBuf,
        /// What the library said.
        source: arrow_schema::ArrowError,
    },
    /// A Parquet file could not be written.
    #[error("cannot write {path}: {source}")]
    Parquet {
        /// The file concerned.
        path: PathBuf,
        /// What the library said.
        source: parquet::errors::ParquetError,
    },
    /// The recorded command could not be started.
    #[error("cannot start {command:?}: {source}")]
    Command {
        /// The program.
        command: String,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel refused a timer or a signal descriptor.
    #[error("cannot {what}: {source}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// `telemetry.json` could not be read or written.
    #[error(transparent)]
    Record(#[from] steelyard_record::RecordError),
    /// A directory that holds no recording.
    #[error("{path} has no recording: no telemetry.json and no .arrows file")]
    NoRecording {
        /// The directory.
        path: PathBuf,
    },
}
