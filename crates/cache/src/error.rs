use std::io;
use std::path::PathBuf;

use steelyard_serve::{CgroupTooSmall, StatsFileError};

/// What can keep a server from starting or running.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The address is in use or not ours.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// What was asked for.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The memory limit cannot hold the largest values.
    #[error(
        "a memory limit of {memory_bytes} bytes is below the {least_bytes} that values of {max_value_bytes} bytes need"
    )]
    MemoryTooSmall {
        /// What was asked for.
        memory_bytes: u64,
        /// The least that works.
        least_bytes: u64,
        /// The longest value.
        max_value_bytes: usize,
    },
    /// The cgroup would kill the server before its cache is full.
    #[error(transparent)]
    CgroupTooSmall(#[from] CgroupTooSmall),
    /// A file of object sizes does not hold a distribution.
    #[error("{path}: {reason}")]
    ObjectSizes {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
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

impl CacheError {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
