//! What a long run says on standard error.

use std::io::Write;

/// Format of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// A line of JSON a second.
    Json,
    /// One line, rewritten, for a person.
    Text,
    /// Nothing.
    None,
}

impl Progress {
    /// Tells that `rounds` rounds took `elapsed_s` of `time_s`.
    pub(crate) fn round(self, rounds: u64, elapsed_s: f64, time_s: f64) {
        let mut out = std::io::stderr().lock();
        // Nobody may be reading; the run goes on.
        let _ = match self {
            Self::Json => writeln!(
                out,
                "{}",
                serde_json::json!({
                    "event": "progress", "rounds": rounds, "elapsed_s": elapsed_s, "time_s": time_s,
                })
            ),
            Self::Text => {
                write!(
                    out,
                    "\r{rounds} rounds, {elapsed_s:.0} of {time_s:.0} s\x1b[K"
                )
            }
            Self::None => Ok(()),
        };
        let _ = out.flush();
    }

    /// Tells what is being done before the rounds.
    pub(crate) fn step(self, what: &str) {
        let mut out = std::io::stderr().lock();
        let _ = match self {
            Self::Json => writeln!(
                out,
                "{}",
                serde_json::json!({ "event": "step", "what": what })
            ),
            Self::Text => write!(out, "\r{what}\x1b[K"),
            Self::None => Ok(()),
        };
        let _ = out.flush();
    }

    /// Tells that the rounds begin.
    pub(crate) fn measure(self, begin_ns: u64) {
        if self == Self::Json {
            let line =
                serde_json::json!({ "event": "phase", "name": "measure", "begin_ns": begin_ns });
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }

    /// Ends the rewritten line.
    pub(crate) fn end(self) {
        if self == Self::Text {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
