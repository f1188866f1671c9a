use std::io;
use std::path::PathBuf;

/// What can go wrong between samples and a profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not what it was taken for.
    #[error("{path} is no {expected} that can be read: {reason}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What it was read as.
        expected: &'static str,
        /// Where it departs from that.
        reason: String,
    },
    /// The kernel lets nothing be sampled.
    #[error("cannot sample: {reason}")]
    Refused {
        /// What was attempted, and what the kernel said.
        reason: String,
        /// How to enable it.
        hint: String,
    },
    /// What is to be sampled is not there.
    #[error("{what}: {reason}")]
    Target {
        /// A process or control group.
        what: String,
        /// Why it cannot be sampled.
        reason: String,
    },
    /// The command could not be started.
    #[error("cannot start {command:?}: {source}")]
    Command {
        /// The program.
        command: String,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel refused something that recording cannot do without.
    #[error("cannot {what}: {source}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}
