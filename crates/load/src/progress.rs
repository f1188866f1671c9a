//! Progress lines on standard error, for a program or for a person.

use std::io::Write;

use serde_json::json;
use steelyard_record::{CapacityCriterion, CapacityProbe, SweepPoint};

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

impl Progress {
    /// The closed loop of a search or a sweep has ended.
    pub fn closed_loop(self, throughput_per_s: f64) {
        match self {
            Self::None => {}
            Self::Text => say(&format!("closed loop: {throughput_per_s:.0} requests/s")),
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
            Self::Text => {
                let ms = |ns: Option<u64>| {
                    ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.3}", ns as f64 / 1e6))
                };
                let response = &point.latency.response;
                say(&format!(
                    "point {:>2} {:>12.1} requests/s  {:>12.1} done  p50 {:>9} ms  p99 {:>9} ms",
                    point.position + 1,
                    point.rate_per_s,
                    point.throughput_per_s,
                    ms(response.p50_ns),
                    ms(response.p99_ns),
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
            Self::Text => {
                let criterion = |criterion: &CapacityCriterion| {
                    let value = criterion.value.map_or_else(
                        || "-".to_owned(),
                        |value| match criterion.unit.as_str() {
                            "ns" => format!("{:.3} ms", value / 1e6),
                            _ => format!("{:.2} %", value * 100.0),
                        },
                    );
                    let mark = if criterion.met { "" } else { " (!)" };
                    format!("{} {value}{mark}", criterion.name)
                };
                let criteria: Vec<String> = probe.criteria.iter().map(criterion).collect();
                say(&format!(
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

/// Writes one line; a reader that has gone away is no reason to stop the load.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
