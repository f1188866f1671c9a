//! What goes between the processes of one load: a JSON object a line.
//!
//! Invariant: whatever a line holds, reading it gives a value or an error, and histograms have this engine's
//! bounds, so that they can be added.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};
use steelyard_record::LoadResult;

use crate::control::{Counts, Interval, Phase};
use crate::latency::{Latencies, histogram};
use crate::settings::Turn;
use crate::tally::Tally;

/// Longest line that is read, bytes.
pub const LINE_MAX: u64 = 256 << 20;
/// No clock has run for 146 years: times below this can be subtracted as signed numbers.
const TIME_MAX_NS: u64 = 1 << 62;

/// Messages of the controlling process.
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
    /// End the load and report the results.
    Stop,
    /// A sign of life.
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
    /// Which of the arrivals are its.
    pub turn: Turn,
    /// The fingerprint of the recorded arrivals, None for other laws: its file must hold the same ones.
    pub recording: Option<u64>,
}

/// Messages to the controlling process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "lowercase")]
pub enum Report {
    /// It is there.
    Hello {
        /// Its version.
        version: String,
    },
    /// A sign of life, while there is nothing else to tell.
    Alive,
    /// An interval of its load is over.
    Interval(Box<PackedInterval>),
    /// Its measure phase has begun; comes before the phase's first interval.
    Begun {
        /// How long after the order to measure, ns, by its clock; None without an order.
        after_ns: Option<u64>,
    },
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
    /// Its result, without the series: its intervals have gone before.
    pub result: LoadResult,
    /// The histograms of its measure phase.
    pub latencies: Packed,
    /// The response times of each operation that was drawn.
    pub operations: BTreeMap<String, PackedHistogram>,
}

/// A histogram as text: HdrHistogram V2, deflated, in base 64; empty without values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PackedHistogram(pub String);

/// Histograms as text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Packed {
    /// Response times.
    pub response: PackedHistogram,
    /// Service times.
    pub service: PackedHistogram,
    /// The generator's own lag.
    pub lag: PackedHistogram,
    /// Waits for a connection.
    pub queued: PackedHistogram,
}

/// One interval of a process's load, over all of its threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PackedInterval {
    /// Start, by its clock, ns.
    pub begin_ns: u64,
    /// End.
    pub end_ns: u64,
    /// The phase that it lies in.
    pub phase: Phase,
    /// Counts.
    pub counts: Counts,
    /// What became, in it, of requests of the measure phase.
    pub tally: Tally,
    /// Histograms.
    pub latencies: Packed,
    /// The part of them that is of requests from before the phase that the interval lies in.
    pub foreign: Packed,
}

impl PackedInterval {
    /// The text of `interval`.
    pub fn of(interval: &Interval, phase: Phase) -> Self {
        Self {
            begin_ns: interval.begin_ns,
            end_ns: interval.end_ns,
            phase,
            counts: interval.counts,
            tally: interval.tally,
            latencies: Packed::of(&interval.latencies),
            foreign: Packed::of(&interval.foreign),
        }
    }
}

impl PackedHistogram {
    /// The text of `histogram`.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(histogram, &mut bytes)
            .expect("counts fit, and a vector takes every byte");
        Self(STANDARD.encode(bytes))
    }

    /// The histogram of the text.
    pub fn unpack(&self) -> Result<Histogram<u64>, String> {
        let ours = histogram();
        if self.0.is_empty() {
            return Ok(ours);
        }
        let bytes = STANDARD
            .decode(&self.0)
            .map_err(|error| format!("a histogram is not base 64: {error}"))?;
        let read: Histogram<u64> = Deserializer::new()
            .deserialize(&mut &bytes[..])
            .map_err(|error| format!("a histogram cannot be read: {error:?}"))?;
        if (read.low(), read.high(), read.sigfig()) != (ours.low(), ours.high(), ours.sigfig()) {
            return Err("a histogram has other bounds".to_owned());
        }
        Ok(read)
    }
}

impl Packed {
    /// The text of `latencies`.
    pub fn of(latencies: &Latencies) -> Self {
        Self {
            response: PackedHistogram::of(&latencies.response),
            service: PackedHistogram::of(&latencies.service),
            lag: PackedHistogram::of(&latencies.lag),
            queued: PackedHistogram::of(&latencies.queued),
        }
    }

    /// The latencies of the text.
    pub fn unpack(&self) -> Result<Latencies, String> {
        Ok(Latencies {
            response: self.response.unpack()?,
            service: self.service.unpack()?,
            lag: self.lag.unpack()?,
            queued: self.queued.unpack()?,
        })
    }
}

/// Reads a report.
pub fn read_report(line: &str) -> Result<Report, String> {
    let report =
        serde_json::from_str(line).map_err(|error| format!("a report cannot be read: {error}"))?;
    if let Report::Interval(interval) = &report
        && !(interval.begin_ns <= interval.end_ns && interval.end_ns < TIME_MAX_NS)
    {
        return Err(format!(
            "an interval from {} to {} ns is empty",
            interval.begin_ns, interval.end_ns
        ));
    }
    Ok(report)
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
            let _ = PackedHistogram(line).unpack();
        }
    }

    #[test]
    fn histograms_of_other_bounds_are_refused() {
        let mut other = Histogram::<u64>::new_with_bounds(1, 1000, 2).unwrap();
        other.record(5).unwrap();
        assert!(PackedHistogram::of(&other).unpack().is_err());
        assert!(PackedHistogram("AAAA".to_owned()).unpack().is_err());
        assert!(PackedHistogram("!".to_owned()).unpack().is_err());
    }

    #[test]
    fn intervals_that_end_before_they_begin_are_refused() {
        let mut interval = Interval::default();
        (interval.begin_ns, interval.end_ns) = (5, 7);
        interval.counts.due = 3;
        let line = |packed: PackedInterval| {
            serde_json::to_string(&Report::Interval(Box::new(packed))).unwrap()
        };
        let packed = PackedInterval::of(&interval, Phase::Measure);
        let Ok(Report::Interval(read)) = read_report(&line(packed.clone())) else {
            panic!("it is an interval");
        };
        assert_eq!(*read, packed);
        for (begin_ns, end_ns) in [(8, 7), (5, u64::MAX)] {
            let packed = PackedInterval {
                begin_ns,
                end_ns,
                ..packed.clone()
            };
            assert!(read_report(&line(packed)).is_err());
        }
    }
}
