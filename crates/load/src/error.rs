use std::io;
use std::path::PathBuf;

/// What can go wrong in the load engine.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A setting has a value that cannot be used.
    #[error("{name}: {why}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A file could not be read or written.
    #[error("{path}")]
    File {
        /// The file concerned.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A distribution file does not hold a distribution.
    #[error("{path}: {why}")]
    Distribution {
        /// The file concerned.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The target could not be reached at the start.
    #[error("cannot connect to {target}")]
    Connect {
        /// The address.
        target: String,
        /// What the system said.
        source: io::Error,
    },
    /// The target was reached and then did not play its part before the first request.
    #[error("{target}: {why}")]
    Handshake {
        /// The address.
        target: String,
        /// What happened.
        why: String,
    },
    /// The machine does not offer what was asked for.
    #[error("{what}")]
    Environment {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// Moving bytes failed in a way that is not the server's doing.
    #[error("{what}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The keys could not be brought into the server before the load.
    #[error("prefill: {why}")]
    Prefill {
        /// What happened.
        why: String,
    },
    /// A generator thread ended without a result.
    #[error("a generator thread failed: {why}")]
    Thread {
        /// What is known about it.
        why: String,
    },
    /// A process of the load on some host cannot be reached, or has gone.
    #[error("host {host}: {why}")]
    Host {
        /// The host.
        host: String,
        /// What is known about it.
        why: String,
    },
}

impl LoadError {
    /// A setting that cannot be used, and why.
    pub fn setting(name: &'static str, why: impl Into<String>) -> Self {
        let why = why.into();
        Self::Setting { name, why }
    }

    /// Whether no connection came up and no protocol reported why: once loads have run, the server has gone.
    pub fn is_unreachable(&self) -> bool {
        match self {
            Self::Connect { .. } => true,
            // What a protocol tells is a sentence, what became of a connection one word.
            Self::Handshake { why, .. } => !why.contains(' '),
            _ => false,
        }
    }
}
