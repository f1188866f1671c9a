//! Progress lines on standard error, for a program or for a person.

use std::io::Write;

use serde_json::json;

use crate::control::{Interval, Phase};
use crate::latency::quantile;

/// What kind of lines to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// None.
    None,
    /// For a person.
    Text,
    /// One JSON object a line.
    Json,
}

impl Progress {
    /// A phase has begun; the prefill is told as a phase too.
    pub fn phase(self, name: &str, begin_ns: u64) {
        match self {
            Self::None => {}
            Self::Text => say(name),
            Self::Json => {
                say(&json!({"event": "phase", "name": name, "begin_ns": begin_ns}).to_string())
            }
        }
    }

    /// An interval is complete.
    pub fn interval(self, interval: &Interval, phase: Phase) {
        let seconds = (interval.end_ns - interval.begin_ns) as f64 / 1e9;
        let (p50, p99) = (
            quantile(&interval.latencies.response, 0.5),
            quantile(&interval.latencies.response, 0.99),
        );
        match self {
            Self::None => {}
            Self::Text => say(&format!(
                "{:8} {:>10.0} requests/s  {:>6} errors  p50 {:>9} us  p99 {:>9} us",
                phase.name(),
                interval.counts.completed as f64 / seconds,
                interval.counts.errors,
                p50.map_or_else(|| "-".to_owned(), |ns| format!("{:.1}", ns as f64 / 1e3)),
                p99.map_or_else(|| "-".to_owned(), |ns| format!("{:.1}", ns as f64 / 1e3)),
            )),
            Self::Json => say(&json!({
                "event": "interval",
                "begin_ns": interval.begin_ns,
                "end_ns": interval.end_ns,
                "phase": phase.name(),
                "completed": interval.counts.completed,
                "errors": interval.counts.errors,
                "response_p50_ns": p50,
                "response_p99_ns": p99,
            })
            .to_string()),
        }
    }
}

/// Writes one line; a reader that has gone away is no reason to stop the load.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
