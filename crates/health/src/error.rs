use std::io;
use std::path::PathBuf;

/// Why a health check, or a part of it, could not be done.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    /// A setting that does not fit.
    #[error("{name}: {why}")]
    Setting {
        /// Flag.
        name: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The machine or its kernel does not allow it; a part with this error is null with it as the reason.
    #[error("{0}")]
    Unavailable(String),
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A file of /proc or /sys that the check needs cannot be read.
    #[error("{path}: {source}")]
    File {
        /// File.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A measured result is not what the work must give: nothing that was measured can be believed.
    #[error("{0}: the result is wrong, so that memory, CPU or this program is faulty")]
    Wrong(String),
    /// SIGINT or SIGTERM.
    #[error("interrupted")]
    Interrupted,
}

impl HealthError {
    /// The last error of the C library, with what was tried.
    pub(crate) fn last(what: impl Into<String>) -> Self {
        Self::Io {
            what: what.into(),
            source: io::Error::last_os_error(),
        }
    }

    /// Turns an I/O error into one that says what was tried.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
