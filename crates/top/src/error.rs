use std::io;

/// What can go wrong while looking at a machine.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// There is nothing to look at.
    #[error("{path} has no processes")]
    NoProcesses {
        /// Where processes were looked for.
        path: String,
    },
    /// A process that was named is not there.
    #[error("process {pid} does not exist")]
    NoProcess {
        /// Its id.
        pid: u32,
    },
    /// The terminal does not do what is asked of it.
    #[error("cannot {what} the terminal: {source}")]
    Terminal {
        /// What was attempted.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The output cannot be written.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
}
