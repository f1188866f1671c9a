//! One load at one rate, counted so that an objective can be held against it.
//!
//! In: settings whose rate is replaced. Out: the load's result, its histograms, and its counts in batches by
//! time. Invariant: a request that never came back counts as slower than any bound. Not here: which rate.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hdrhistogram::Histogram;
use steelyard_record::LoadResult;

use crate::LoadError;
use crate::capacity::evidence::{Counted, Counts};
use crate::control::Phase;
use crate::latency::Latencies;
use crate::progress::Progress;
use crate::runner::{Surroundings, Whole, run_whole};
use crate::settings::Settings;
use crate::slo::{PercentileBound, Slo};

/// A load that was offered.
#[derive(Debug)]
pub struct Offered {
    /// Its result.
    pub result: LoadResult,
    /// The histograms behind the result's percentiles.
    pub latencies: Latencies,
    /// Its counts, whole and in batches.
    pub counted: Counted,
    /// The host that was lost before the end; then the others hold what was measured until then.
    pub lost: Option<Lost>,
}

/// A host that was lost in the middle of a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// The host.
    pub host: String,
    /// What is known about it.
    pub why: String,
}

impl From<Lost> for LoadError {
    fn from(Lost { host, why }: Lost) -> Self {
        Self::Host { host, why }
    }
}

/// What loads can be offered with: this process, or several.
pub trait Offer {
    /// Offers `settings`, whose rate and lengths are those wanted, and counts by the bounds of `slo`.
    fn offer(&mut self, settings: &Settings, slo: &Slo) -> Result<Offered, LoadError>;
}

/// Offers loads from this process.
#[derive(Debug)]
pub struct Here<'a> {
    /// Lines while a load runs.
    pub progress: Progress,
    /// Set from outside to stop a load early.
    pub stop: &'a AtomicBool,
}

impl Offer for Here<'_> {
    fn offer(&mut self, settings: &Settings, slo: &Slo) -> Result<Offered, LoadError> {
        let mut batches = Vec::new();
        let mut watch = |interval: &crate::control::Interval, phase: Phase| {
            if phase == Phase::Measure {
                batches.push(Counts {
                    due: interval.counts.due,
                    completed: interval.counts.completed,
                    errors: interval.counts.errors,
                    unanswered: 0,
                    beyond: beyond(&interval.latencies.response, &slo.percentiles),
                });
            }
            ControlFlow::Continue(())
        };
        let surroundings = Surroundings {
            command: Vec::new(),
            hlog: None,
            progress: self.progress,
            stop: self.stop,
            input: None,
            watch: Some(&mut watch),
        };
        let Whole {
            result, latencies, ..
        } = run_whole(settings, surroundings)?;
        let counted = count(&result, &latencies, slo, batches);
        Ok(Offered {
            result,
            latencies,
            counted,
            lost: None,
        })
    }
}

/// The counts of a load, with the batches that were counted while it ran.
pub fn count(
    result: &LoadResult,
    latencies: &Latencies,
    slo: &Slo,
    batches: Vec<Counts>,
) -> Counted {
    let requests = &result.requests;
    Counted {
        whole: Counts {
            due: requests.intended,
            completed: requests.completed,
            errors: requests.errors,
            unanswered: requests.outstanding_at_end + requests.unsent,
            beyond: beyond(&latencies.response, &slo.percentiles),
        },
        achieved_ratio: result.achieved_ratio.unwrap_or(1.0),
        batches,
    }
}

/// For each bound, how many values lie beyond it, at the histogram's resolution.
pub fn beyond(histogram: &Histogram<u64>, bounds: &[PercentileBound]) -> Vec<u64> {
    let mut counts = vec![0; bounds.len()];
    for step in histogram.iter_recorded() {
        let value_ns = step.value_iterated_to().min(histogram.max());
        for (count, bound) in counts.iter_mut().zip(bounds) {
            if value_ns > bound.at_most_ns {
                *count += step.count_at_value();
            }
        }
    }
    counts
}

/// Whether a server listens at the target.
pub fn is_there(settings: &Settings) -> bool {
    settings.target.are_open(Duration::from_secs(2))
}

/// The busiest generator thread's share of its CPU.
pub fn busy_ratio(result: &LoadResult) -> f64 {
    result
        .threads
        .iter()
        .map(|thread| thread.busy_ratio)
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::{histogram, quantile};
    use proptest::prelude::*;

    proptest! {
        /// The share beyond a bound and the percentile agree.
        #[test]
        fn counts_agree_with_percentiles(
            values in proptest::collection::vec(1u64..5_000_000_000, 1..400),
            bound_ns in 1u64..5_000_000_000,
        ) {
            let mut histogram = histogram();
            for &value in &values {
                histogram.saturating_record(value);
            }
            let slo: Slo = format!("p95<={bound_ns}ns").parse().unwrap();
            let beyond = beyond(&histogram, &slo.percentiles)[0];
            let allowed = (0.05 * values.len() as f64 + 1e-9).floor() as u64;
            prop_assert_eq!(beyond <= allowed, quantile(&histogram, 0.95).unwrap() <= bound_ns);
        }
    }
}
