//! Progress lines on standard error, for a program or for a person.

use std::io::{IsTerminal, Write};

use serde_json::json;
use steelyard_record::{CapacityCriterion, CapacityProbe, SweepPoint};

use crate::control::{Interval, Phase};
use crate::latency::quantile;

/// What kind of lines to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// None.
    None,
    /// For a person: a line for each interval.
    Text,
    /// For a person at a terminal: one line that is written over.
    Live,
    /// One JSON object a line.
    Json,
}

/// A time for people, in the unit that gives it three digits: `203 µs`, `1.52 ms`; `-` where there is none.
///
/// ```
/// use steelyard_load::progress::time;
/// assert_eq!(time(Some(202_700)), "203 µs");
/// assert_eq!(time(Some(1_523_000)), "1.52 ms");
/// assert_eq!(time(Some(999_960)), "1.00 ms");
/// assert_eq!(time(None), "-");
/// ```
pub fn time(ns: Option<u64>) -> String {
    let Some(ns) = ns else { return "-".to_owned() };
    // What rounds up to 1000 belongs to the next unit.
    for (unit, size) in [("ns", 1.0), ("µs", 1e3), ("ms", 1e6)] {
        let value = ns as f64 / size;
        if value < 999.5 {
            return format!("{} {unit}", digits(value, unit == "ns"));
        }
    }
    format!("{} s", digits(ns as f64 / 1e9, false))
}

fn digits(value: f64, is_whole: bool) -> String {
    match value {
        value if is_whole || value >= 99.95 => format!("{value:.0}"),
        value if value >= 9.995 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

impl Progress {
    /// Whether standard error is a terminal that can write over a line.
    pub fn has_terminal() -> bool {
        std::io::stderr().is_terminal()
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
    }

    /// No more lines come: one that would be written over goes.
    pub fn end(self) {
        if self == Self::Live {
            over("");
        }
    }

    /// Writes a line for a person that stays.
    fn keep(self, line: &str) {
        match self {
            Self::Live => say(&format!("\r{line}\x1b[K")),
            _ => say(line),
        }
    }

    /// A phase has begun; the prefill is reported as a phase too.
    pub fn phase(self, name: &str, begin_ns: u64) {
        match self {
            Self::None => {}
            Self::Text => say(name),
            Self::Live => over(name),
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
            Self::Text | Self::Live => {
                let line = format!(
                    "{:8} {:>10.0} requests/s  {:>6} errors  p50 {:>8}  p99 {:>8}",
                    phase.name(),
                    interval.counts.completed as f64 / seconds,
                    interval.counts.errors,
                    time(p50),
                    time(p99),
                );
                if self == Self::Live {
                    over(&line);
                } else {
                    say(&line);
                }
            }
            Self::Json => say(&json!({
                "event": "interval",
                "begin_ns": interval.begin_ns,
                "end_ns": interval.end_ns,
                "phase": phase.name(),
                "completed": interval.counts.completed,
                "errors": interval.counts.errors,
                "response_p50_ns": p50,
                "response_p99_ns": p99,
                "lag_p99_ns": quantile(&interval.latencies.lag, 0.99),
            })
            .to_string()),
        }
    }
}

impl Progress {
    /// The closed loop of a search or a sweep has ended.
    pub fn closed_loop(self, throughput_per_s: f64) {
        match self {
            Self::None => {}
            Self::Text | Self::Live => {
                self.keep(&format!("closed loop: {throughput_per_s:.0} requests/s"));
            }
            Self::Json => {
                say(
                    &json!({"event": "closed_loop", "throughput_per_s": throughput_per_s})
                        .to_string(),
                );
            }
        }
    }

    /// A point of a sweep has been measured.
    pub fn point(self, point: &SweepPoint) {
        match self {
            Self::None => {}
            Self::Text | Self::Live => {
                let response = &point.latency.response;
                self.keep(&format!(
                    "point {:>2} {:>12.1} requests/s  {:>12.1} done  p50 {:>8}  p99 {:>8}",
                    point.position + 1,
                    point.rate_per_s,
                    point.throughput_per_s,
                    time(response.p50_ns),
                    time(response.p99_ns),
                ));
            }
            Self::Json => say(&json!({
                "event": "point",
                "position": point.position,
                "rate_per_s": point.rate_per_s,
                "throughput_per_s": point.throughput_per_s,
                "response_p50_ns": point.latency.response.p50_ns,
                "response_p99_ns": point.latency.response.p99_ns,
            })
            .to_string()),
        }
    }

    /// A probe of a capacity search has ended; it is the `number`-th.
    pub fn probe(self, number: usize, probe: &CapacityProbe) {
        match self {
            Self::None => {}
            Self::Text | Self::Live => {
                let criterion = |criterion: &CapacityCriterion| {
                    let value = criterion.value.map_or_else(
                        || "-".to_owned(),
                        |value| match criterion.unit.as_str() {
                            "ns" => time(Some(value as u64)),
                            _ => format!("{:.2} %", value * 100.0),
                        },
                    );
                    let mark = if criterion.met { "" } else { " (!)" };
                    format!("{} {value}{mark}", criterion.name)
                };
                let criteria: Vec<String> = probe.criteria.iter().map(criterion).collect();
                self.keep(&format!(
                    "probe {number:>2} {:12} {:>12.1} requests/s  {:9} {}",
                    probe.purpose,
                    probe.rate_per_s,
                    probe.outcome,
                    criteria.join("  ")
                ));
            }
            Self::Json => say(&json!({
                "event": "probe",
                "number": number,
                "purpose": probe.purpose,
                "rate_per_s": probe.rate_per_s,
                "throughput_per_s": probe.throughput_per_s,
                "outcome": probe.outcome,
                "criteria": probe.criteria,
            })
            .to_string()),
        }
    }
}

/// Writes a line over the one before, and stays on it; what is too long for the terminal is cut (DECAWM off).
fn over(line: &str) {
    let mut error = std::io::stderr().lock();
    let _ = write!(error, "\r\x1b[?7l{line}\x1b[K\x1b[?7h").and_then(|()| error.flush());
}

/// Writes one line; a reader that has gone away is no reason to stop the load.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
