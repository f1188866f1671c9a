//! What goes between the processes of one load: a JSON object a line.
//!
//! Invariant: whatever a line holds, reading it gives a value or an error, and histograms have this engine's
//! bounds, so that they can be added.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};
use steelyard_record::LoadResult;

use crate::latency::{Latencies, histogram};

/// Longest line that is read, bytes.
pub const LINE_MAX: u64 = 256 << 20;

/// What the one process that commands tells another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "lowercase")]
pub enum Order {
    /// Make this load, up to the end of its warm-up.
    Load {
        /// The flags.
        arguments: Vec<String>,
        /// What differs from them.
        changes: Changes,
    },
    /// Begin to measure.
    Measure,
    /// End the load and tell what there is.
    Stop,
    /// Nothing but that somebody is there.
    Ping,
}

/// A process's part of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// Its offered rate, None in a closed loop.
    pub rate_per_s: Option<f64>,
    /// Its connections.
    pub connections: u32,
    /// Its seed.
    pub seed: u64,
    /// Least length of its warm-up, ns.
    pub warmup_ns: u64,
    /// Length of its measure phase, ns.
    pub duration_ns: u64,
    /// How long it awaits answers at the end, ns.
    pub drain_ns: u64,
    /// Length of its intervals, ns.
    pub interval_ns: u64,
    /// Most of its requests waiting or in flight.
    pub max_outstanding: u64,
    /// Whether it fills the server before.
    pub prefill: bool,
}

/// What a process tells the one that commands.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "lowercase")]
pub enum Report {
    /// It is there.
    Hello {
        /// Its version.
        version: String,
    },
    /// Its load has begun to warm up.
    Warm,
    /// Its load has ended.
    Share(Box<Share>),
    /// Its load could not be made.
    Failed {
        /// `connect`, `usage` or `other`.
        kind: String,
        /// Why, one line.
        why: String,
    },
}

/// What a process's load came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Share {
    /// Its result.
    pub result: LoadResult,
    /// From when the order to measure came until the measure phase began, ns, by its clock.
    pub began_after_ns: Option<u64>,
    /// The histograms of its measure phase.
    pub latencies: Packed,
    /// Its intervals.
    pub intervals: Vec<PackedInterval>,
}

/// Histograms as text: HdrHistogram V2, deflated, in base 64.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Packed {
    /// Response times.
    pub response: String,
    /// Service times.
    pub service: String,
    /// The generator's own lag.
    pub lag: String,
    /// Waits for a connection.
    pub queued: String,
}

/// The histograms of one interval, in the order of the result's series.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PackedInterval {
    /// Requests that became due.
    pub due: u64,
    /// Its histograms.
    pub latencies: Packed,
}

fn pack_one(histogram: &Histogram<u64>) -> String {
    if histogram.is_empty() {
        return String::new();
    }
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .expect("counts fit, and a vector takes every byte");
    STANDARD.encode(bytes)
}

fn unpack_one(text: &str) -> Result<Histogram<u64>, String> {
    let ours = histogram();
    if text.is_empty() {
        return Ok(ours);
    }
    let bytes = STANDARD
        .decode(text)
        .map_err(|error| format!("a histogram is not base 64: {error}"))?;
    let read: Histogram<u64> = Deserializer::new()
        .deserialize(&mut &bytes[..])
        .map_err(|error| format!("a histogram cannot be read: {error:?}"))?;
    if (read.low(), read.high(), read.sigfig()) != (ours.low(), ours.high(), ours.sigfig()) {
        return Err("a histogram has other bounds than ours".to_owned());
    }
    Ok(read)
}

impl Packed {
    /// The text of `latencies`.
    pub fn of(latencies: &Latencies) -> Self {
        Self {
            response: pack_one(&latencies.response),
            service: pack_one(&latencies.service),
            lag: pack_one(&latencies.lag),
            queued: pack_one(&latencies.queued),
        }
    }

    /// The latencies of the text.
    pub fn unpack(&self) -> Result<Latencies, String> {
        Ok(Latencies {
            response: unpack_one(&self.response)?,
            service: unpack_one(&self.service)?,
            lag: unpack_one(&self.lag)?,
            queued: unpack_one(&self.queued)?,
        })
    }
}

/// Reads a report.
pub fn read_report(line: &str) -> Result<Report, String> {
    serde_json::from_str(line).map_err(|error| format!("a report cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn histograms_go_over_the_wire_whole(values in proptest::collection::vec(0u64..4_000_000_000_000, 0..200)) {
            let mut latencies = Latencies::default();
            for &value in &values {
                latencies.answered(value, value / 2, 1);
                latencies.sent(value / 3, value / 5, 1);
            }
            let back = Packed::of(&latencies).unpack().unwrap();
            prop_assert_eq!(&back.response, &latencies.response);
            prop_assert_eq!(&back.service, &latencies.service);
            prop_assert_eq!(&back.lag, &latencies.lag);
            prop_assert_eq!(&back.queued, &latencies.queued);
        }

        #[test]
        fn any_line_is_read_or_refused(line in ".{0,200}") {
            let _ = read_report(&line);
            let _ = unpack_one(&line);
        }
    }

    #[test]
    fn histograms_of_other_bounds_are_refused() {
        let mut other = Histogram::<u64>::new_with_bounds(1, 1000, 2).unwrap();
        other.record(5).unwrap();
        assert!(unpack_one(&pack_one(&other)).is_err());
        assert!(unpack_one("AAAA").is_err());
        assert!(unpack_one("!").is_err());
    }
}
