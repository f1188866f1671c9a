//! Latencies in HDR histograms (three significant digits, 1 ns to 1 h) and their summaries.

use hdrhistogram::Histogram;
use steelyard_record::{LatencySummary, QuantileValue};

/// Longest latency that is resolved: 1 h.
const LONGEST_NS: u64 = 3_600_000_000_000;
const DIGITS: u8 = 3;

/// An empty histogram of latencies.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("the bounds are constants that fit")
}

/// The latencies of a set of requests.
///
/// From the intended time to the send is `lag` plus `queued`; from there to the answer is `service`; all of it is
/// `response`. A request is queued from when the generator has noticed that it is due until a connection has
/// room for it; whatever else passes before the send is the generator's own doing, and lag.
#[derive(Debug, Clone)]
pub struct Latencies {
    /// From the intended time to the answer, ns.
    pub response: Histogram<u64>,
    /// From the send to the answer, ns.
    pub service: Histogram<u64>,
    /// What the generator itself took from the intended time to the send, ns.
    pub lag: Histogram<u64>,
    /// How long a request had to wait for a connection with room, ns; those that did not have to are
    /// counted, as zeros, by `complete`.
    pub queued: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            response: histogram(),
            service: histogram(),
            lag: histogram(),
            queued: histogram(),
        }
    }
}

impl Latencies {
    /// Counts `count` requests that were answered.
    #[inline]
    pub fn answered(&mut self, response_ns: u64, service_ns: u64, count: u64) {
        self.response.saturating_record_n(response_ns, count);
        self.service.saturating_record_n(service_ns, count);
    }

    /// Counts `count` requests that were sent.
    #[inline]
    pub fn sent(&mut self, lag_ns: u64, queued_ns: u64, count: u64) {
        self.lag.saturating_record_n(lag_ns, count);
        if queued_ns > 0 {
            self.queued.saturating_record_n(queued_ns, count);
        }
    }

    /// Counts as not queued the requests that were sent and not counted so far.
    pub fn complete(&mut self) {
        let at_once = self.lag.len().saturating_sub(self.queued.len());
        self.queued.saturating_record_n(0, at_once);
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        self.add_in_pieces(other, &mut || ());
    }

    /// Adds the counts of `other`, and calls `between` after each histogram that had any.
    pub fn add_in_pieces(&mut self, other: &Self, between: &mut dyn FnMut()) {
        for (to, from) in [
            (&mut self.response, &other.response),
            (&mut self.service, &other.service),
            (&mut self.lag, &other.lag),
            (&mut self.queued, &other.queued),
        ] {
            if from.is_empty() {
                continue;
            }
            to.add(from)
                .expect("all latency histograms have the same bounds");
            between();
        }
    }

    /// Takes out the counts of `other`, which were added before; an error says that they were not.
    pub fn take_out(&mut self, other: &Self) -> Result<(), String> {
        for (from, out) in [
            (&mut self.response, &other.response),
            (&mut self.service, &other.service),
            (&mut self.lag, &other.lag),
            (&mut self.queued, &other.queued),
        ] {
            from.subtract(out)
                .map_err(|error| format!("a histogram lacks a part of it: {error}"))?;
        }
        Ok(())
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        // An empty histogram is left alone: clearing touches all of its memory.
        for histogram in [
            &mut self.response,
            &mut self.service,
            &mut self.lag,
            &mut self.queued,
        ] {
            if !histogram.is_empty() {
                histogram.reset();
            }
        }
    }
}

/// The value at `quantile`, None when nothing was counted.
pub fn quantile(histogram: &Histogram<u64>, quantile: f64) -> Option<u64> {
    (!histogram.is_empty()).then(|| histogram.value_at_quantile(quantile).min(histogram.max()))
}

/// The distribution in figures.
pub fn summary(histogram: &Histogram<u64>) -> LatencySummary {
    let some = !histogram.is_empty();
    let at = |q| quantile(histogram, q);
    LatencySummary {
        count: histogram.len(),
        min_ns: some.then(|| histogram.min()),
        max_ns: some.then(|| histogram.max()),
        mean_ns: some.then(|| histogram.mean()),
        stdev_ns: some.then(|| histogram.stdev()),
        p50_ns: at(0.5),
        p90_ns: at(0.9),
        p95_ns: at(0.95),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        p9999_ns: at(0.9999),
        curve: curve(histogram),
    }
}

/// Ten points for every halving of the distance to 1, as percentile plots are drawn, to the largest value.
fn curve(histogram: &Histogram<u64>) -> Vec<QuantileValue> {
    if histogram.is_empty() {
        return Vec::new();
    }
    let mut points: Vec<QuantileValue> = histogram
        .iter_quantiles(10)
        .map(|step| QuantileValue {
            quantile: step.quantile(),
            value_ns: step.value_iterated_to().min(histogram.max()),
        })
        .collect();
    points.dedup_by(|b, a| a.value_ns == b.value_ns && a.quantile == b.quantile);
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_distribution_has_no_figures() {
        let summary = summary(&histogram());
        assert_eq!(
            (summary.count, summary.p50_ns, summary.mean_ns),
            (0, None, None)
        );
        assert!(summary.curve.is_empty());
    }

    #[test]
    fn requests_that_were_not_queued_count_as_zeros() {
        let mut latencies = Latencies::default();
        for index in 0..100 {
            latencies.sent(1_000, if index < 10 { 5_000 } else { 0 }, 1);
        }
        for _ in 0..2 {
            latencies.complete();
            assert_eq!(latencies.queued.len(), 100);
            assert_eq!(quantile(&latencies.queued, 0.9), Some(0));
            assert_eq!(quantile(&latencies.queued, 0.91), Some(5_003));
        }
    }

    proptest! {
        #[test]
        fn merging_equals_recording_together(
            left in proptest::collection::vec(1u64..4_000_000_000_000, 0..200),
            right in proptest::collection::vec(1u64..4_000_000_000_000, 0..200),
        ) {
            let record = |values: &[u64]| {
                let mut latencies = Latencies::default();
                for &value in values {
                    latencies.answered(value, value / 2, 1);
                    latencies.sent(value / 3, value / 5, 1);
                }
                latencies
            };
            let mut merged = record(&left);
            merged.add(&record(&right));
            let together = record(&[left, right].concat());
            prop_assert_eq!(&merged.response, &together.response);
            prop_assert_eq!(&merged.service, &together.service);
            prop_assert_eq!(&merged.lag, &together.lag);
            prop_assert_eq!(&merged.queued, &together.queued);
        }

        #[test]
        fn quantiles_are_within_the_precision(mut values in proptest::collection::vec(1u64..10_000_000_000, 1..300)) {
            let mut histogram = histogram();
            for &value in &values {
                histogram.saturating_record(value);
            }
            values.sort_unstable();
            for q in [0.0, 0.5, 0.9, 1.0] {
                let exact = values[((q * values.len() as f64).ceil() as usize).max(1) - 1];
                let found = quantile(&histogram, q).unwrap();
                prop_assert!(found.abs_diff(exact) as f64 <= exact as f64 * 1e-3 + 1.0, "{} {}", found, exact);
            }
            let curve = curve(&histogram);
            prop_assert!(curve.windows(2).all(|w| w[0].value_ns <= w[1].value_ns && w[0].quantile <= w[1].quantile));
            prop_assert_eq!(curve.last().unwrap().value_ns, histogram.max());
        }
    }
}
