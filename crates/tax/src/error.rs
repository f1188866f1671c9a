use std::io;
use std::path::PathBuf;

/// What can go wrong in a microbenchmark or around it.
#[derive(Debug, thiserror::Error)]
pub enum TaxError {
    /// A setting has a value that cannot be used.
    #[error("{name}: {why}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The machine does not offer what a benchmark needs.
    #[error("{what}")]
    Environment {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// A benchmark's work went wrong: what it computed is not what it should be.
    #[error("{benchmark}: {why}")]
    Work {
        /// The benchmark.
        benchmark: String,
        /// What was found.
        why: String,
    },
    /// A measuring thread ended without a result.
    #[error("a measuring thread failed: {why}")]
    Thread {
        /// What is known about it.
        why: String,
    },
    /// A file could not be written.
    #[error("{path}")]
    File {
        /// The file concerned.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Stopped by a signal before there was anything to report.
    #[error("interrupted before the first round was complete")]
    Stopped,
}
