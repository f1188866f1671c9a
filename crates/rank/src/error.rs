use std::io;
use std::path::PathBuf;

use steelyard_serve::{CgroupTooSmall, StatsFileError, TooLittleMemory};

/// What can keep a service from starting or running.
#[derive(Debug, thiserror::Error)]
pub enum RankError {
    /// The address is in use or not ours.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// What was asked for.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// A leaf's address leads nowhere.
    #[error("cannot reach the leaf {address}: {source}")]
    Leaf {
        /// What was asked for.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The cgroup would kill the service.
    #[error(transparent)]
    CgroupTooSmall(#[from] CgroupTooSmall),
    /// The machine lacks the memory for the tables.
    #[error(transparent)]
    TooLittleMemory(#[from] TooLittleMemory),
    /// More extractors are wanted than this build has.
    #[error("{wanted} feature functions are wanted and this build has {available}")]
    FeatureFunctions {
        /// What was asked for.
        wanted: usize,
        /// What there is.
        available: usize,
    },
    /// A file with keys or certificates is not what it should be.
    #[error("{path}: {reason}")]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The system refused something that every server needs.
    #[error("{what}: {source}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The statistics could not be written.
    #[error(transparent)]
    StatsFile(#[from] StatsFileError),
}

impl RankError {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
