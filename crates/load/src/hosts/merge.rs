//! One result of the results of several processes.
//!
//! Counts are summed, histograms added exactly and percentiles taken from the sums. Not here: how the processes
//! were reached, the series ([`super::rows`]), what is left of a load whose host was lost ([`super::partial`]).

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use steelyard_record::{
    Check, IntervalRow, Kind, Level, LoadCpu, LoadHost, LoadLatency, LoadOperations, LoadRequests,
    LoadResult, LoadSettings, LoadThread, Tool, Verdict,
};

use super::log::Log;
use super::rows::Parts;
use super::wire::Share;
use crate::LoadError;
use crate::capacity::evidence::Counts;
use crate::control::Phase;
use crate::latency::{Latencies, histogram, summary};
use crate::offer::{Offered, beyond, busy_ratio, count};
use crate::summary::{quotable, settings_record};
use crate::verdict;

/// What a load came to over all processes, but for its latencies and its series.
pub struct Sums {
    /// How bytes were moved.
    pub io: String,
    /// Generator threads.
    pub threads: u32,
    /// Length of the measure phase, ns.
    pub length_ns: u64,
    /// Whether it was stopped before its time.
    pub interrupted: bool,
    /// Counts.
    pub requests: LoadRequests,
    /// Counts and response times by operation.
    pub operations: BTreeMap<String, LoadOperations>,
    /// Completed requests per second.
    pub throughput_per_s: f64,
    /// Requests per second that the schedules asked for, None in a closed loop.
    pub offered_per_s: Option<f64>,
    /// Bytes written to the server.
    pub sent_bytes: u64,
    /// Bytes read from it.
    pub received_bytes: u64,
    /// One row a thread.
    pub thread_rows: Vec<LoadThread>,
    /// User CPU time, s.
    pub user_s: f64,
    /// System CPU time, s.
    pub system_s: f64,
    /// One row a host.
    pub hosts: Vec<LoadHost>,
}

impl Sums {
    /// What was achieved of the offered rate, None in a closed loop.
    fn rate(&self, parts: &Parts<'_>, latencies: &Latencies) -> Option<verdict::Rate> {
        self.offered_per_s.map(|_| verdict::Rate {
            requests: self.requests.clone(),
            response_mean_ns: latencies.response.mean(),
            length_ns: self.length_ns,
            warmup_ns: parts.settings.known_warmup_ns(),
        })
    }

    /// The record of it.
    pub fn record(
        self,
        parts: &Parts<'_>,
        latencies: &Latencies,
        series: Vec<IntervalRow>,
        verdict: Verdict,
    ) -> LoadResult {
        let begin_ns = parts.begin_ns();
        let cpu_s = self.user_s + self.system_s;
        let completed = self.throughput_per_s * self.length_ns as f64 / 1e9;
        LoadResult {
            kind: Kind::of::<LoadResult>(),
            tool: Tool {
                name: "steelyard-load".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            command: Vec::new(),
            clock: parts.clock,
            settings: LoadSettings {
                threads: self.threads,
                ..settings_record(parts.settings, &self.io)
            },
            begin_ns,
            end_ns: begin_ns + self.length_ns,
            interrupted: self.interrupted,
            achieved_ratio: self
                .rate(parts, latencies)
                .map(|rate| rate.achieved_ratio()),
            requests: self.requests,
            operations: self.operations,
            throughput_per_s: self.throughput_per_s,
            offered_per_s: self.offered_per_s,
            sent_bytes: self.sent_bytes,
            received_bytes: self.received_bytes,
            latency: LoadLatency {
                response: quotable(summary(&latencies.response)),
                service: quotable(summary(&latencies.service)),
                lag: quotable(summary(&latencies.lag)),
                queued: Some(quotable(summary(&latencies.queued))),
            },
            series,
            threads: self.thread_rows,
            cpu: LoadCpu {
                user_s: self.user_s,
                system_s: self.system_s,
                requests_per_cpu_s: (cpu_s > 0.0).then(|| completed / cpu_s),
            },
            verdict,
            hosts: Some(self.hosts),
        }
    }
}

/// The result of the whole load, from the results of all processes.
pub fn merge(parts: &Parts<'_>, log: Option<&mut Log<'_>>) -> Result<Offered, LoadError> {
    let shares: Vec<&Share> = parts
        .members
        .iter()
        .filter_map(|part| part.load.share.as_ref())
        .collect();
    assert_eq!(shares.len(), parts.members.len(), "every load is over");
    let mut latencies = Latencies::default();
    for (part, share) in parts.members.iter().zip(&shares) {
        let of_host = share.latencies.unpack();
        latencies.add(&of_host.map_err(|why| part.error(why))?);
    }
    latencies.complete();
    let sums = sums(parts, &shares)?;
    let verdict = whole_verdict(parts, &shares, &sums, &latencies);
    let series = parts.series(log)?;
    let batches = batches(parts)?;
    let result = sums.record(parts, &latencies, series, verdict);
    let counted = count(&result, &latencies, parts.slo, batches);
    Ok(Offered {
        result,
        latencies,
        counted,
        lost: None,
    })
}

/// The counts of the measure phase in batches by time.
fn batches(parts: &Parts<'_>) -> Result<Vec<Counts>, LoadError> {
    let length_ns = (parts.settings.duration_ns / 20).clamp(100_000_000, 1_000_000_000);
    let mut batches = Vec::new();
    parts.rows(length_ns, &mut |row, phase| {
        if phase == Phase::Measure {
            batches.push(Counts {
                due: row.counts.due,
                completed: row.counts.completed,
                errors: row.counts.errors,
                unanswered: 0,
                beyond: beyond(&row.latencies.response, &parts.slo.percentiles),
            });
        }
        Ok(())
    })?;
    Ok(batches)
}

fn sums(parts: &Parts<'_>, shares: &[&Share]) -> Result<Sums, LoadError> {
    let results: Vec<&LoadResult> = shares.iter().map(|share| &share.result).collect();
    let sum = |of: fn(&LoadResult) -> f64| results.iter().map(|result| of(result)).sum::<f64>();
    let offers = parts.settings.offers_per_s().is_some();
    let lengths = results.iter().map(|result| result.end_ns - result.begin_ns);
    let begin_ns = parts.begin_ns();
    let begins = parts.begins_ns().into_iter();
    Ok(Sums {
        io: results[0].settings.io.clone(),
        threads: results.iter().map(|result| result.settings.threads).sum(),
        length_ns: lengths.max().unwrap_or(0),
        interrupted: results.iter().any(|result| result.interrupted),
        requests: requests(&results),
        operations: operations(parts, shares)?,
        throughput_per_s: sum(|result| result.throughput_per_s),
        offered_per_s: offers.then(|| sum(|result| result.offered_per_s.unwrap_or(0.0))),
        sent_bytes: results.iter().map(|result| result.sent_bytes).sum(),
        received_bytes: results.iter().map(|result| result.received_bytes).sum(),
        thread_rows: threads(&results),
        user_s: sum(|result| result.cpu.user_s),
        system_s: sum(|result| result.cpu.system_s),
        hosts: begins
            .zip(&results)
            .zip(parts.members)
            .map(|((at_ns, result), part)| row_of(part.name, result, at_ns - begin_ns))
            .collect(),
    })
}

fn row_of(name: &str, result: &LoadResult, began_after_ns: u64) -> LoadHost {
    LoadHost {
        name: name.to_owned(),
        began_after_ns,
        connections: result.settings.connections,
        offered_per_s: result.offered_per_s,
        throughput_per_s: result.throughput_per_s,
        completed: result.requests.completed,
        errors: result.requests.errors,
        response_p50_ns: result.latency.response.p50_ns,
        response_p99_ns: result.latency.response.p99_ns,
        busy_ratio: busy_ratio(result),
        verdict: result.verdict.level,
        lost: None,
    }
}

fn requests(results: &[&LoadResult]) -> LoadRequests {
    let sum =
        |of: fn(&LoadRequests) -> u64| results.iter().map(|result| of(&result.requests)).sum();
    let mut errors_by_kind = BTreeMap::new();
    let has_classes = |result: &&LoadResult| result.requests.answers_by_class.is_some();
    let mut classes: BTreeMap<String, u64> = BTreeMap::new();
    for result in results {
        for (kind, count) in &result.requests.errors_by_kind {
            *errors_by_kind.entry(kind.clone()).or_default() += count;
        }
        for (class, count) in result.requests.answers_by_class.iter().flatten() {
            *classes.entry(class.clone()).or_default() += count;
        }
    }
    LoadRequests {
        intended: sum(|requests| requests.intended),
        sent: sum(|requests| requests.sent),
        completed: sum(|requests| requests.completed),
        errors: sum(|requests| requests.errors),
        errors_by_kind,
        answers_by_class: results.iter().all(has_classes).then_some(classes),
        outstanding_at_end: sum(|requests| requests.outstanding_at_end),
        unsent: sum(|requests| requests.unsent),
        completed_after: Some(sum(|requests| requests.completed_after.unwrap_or(0))),
        completed_from_before: Some(sum(|requests| requests.completed_from_before.unwrap_or(0))),
        errors_after: Some(sum(|requests| requests.errors_after.unwrap_or(0))),
        errors_from_before: Some(sum(|requests| requests.errors_from_before.unwrap_or(0))),
    }
}

fn operations(
    parts: &Parts<'_>,
    shares: &[&Share],
) -> Result<BTreeMap<String, LoadOperations>, LoadError> {
    let mut operations: BTreeMap<String, LoadOperations> = BTreeMap::new();
    let mut responses: BTreeMap<String, Histogram<u64>> = BTreeMap::new();
    for (part, share) in parts.members.iter().zip(shares) {
        for (name, of_host) in &share.result.operations {
            let sum = operations.entry(name.clone()).or_insert(LoadOperations {
                completed: 0,
                hits: of_host.hits.map(|_| 0),
                misses: of_host.misses.map(|_| 0),
                response: None,
            });
            sum.completed += of_host.completed;
            sum.hits = sum.hits.zip(of_host.hits).map(|(a, b)| a + b);
            sum.misses = sum.misses.zip(of_host.misses).map(|(a, b)| a + b);
        }
        for (name, packed) in &share.operations {
            let of_host = packed.unpack().map_err(|why| part.error(why))?;
            let sum = responses.entry(name.clone()).or_insert_with(histogram);
            sum.add(&of_host)
                .expect("all latency histograms have the same bounds");
        }
    }
    for (name, operation) in &mut operations {
        let responses = responses.get(name);
        operation.response = responses.map(|responses| quotable(summary(responses)));
    }
    Ok(operations)
}

fn threads(results: &[&LoadResult]) -> Vec<LoadThread> {
    let all = results.iter().flat_map(|result| &result.threads);
    all.enumerate()
        .map(|(index, thread)| LoadThread {
            index: index as u32,
            ..thread.clone()
        })
        .collect()
}

/// The worst of each check over the hosts, but for those that the whole load answers better.
fn whole_verdict(
    parts: &Parts<'_>,
    shares: &[&Share],
    sums: &Sums,
    latencies: &Latencies,
) -> Verdict {
    let mut checks: Vec<Check> = Vec::new();
    for (part, share) in parts.members.iter().zip(shares) {
        for check in &share.result.verdict.checks {
            let mut check = check.clone();
            if check.level != Level::Valid {
                check.claim = format!("{}: {}", part.name, check.claim);
            }
            match checks.iter_mut().find(|known| known.id == check.id) {
                Some(known) if known.level < check.level => *known = check,
                Some(_) => {}
                None => checks.push(check),
            }
        }
    }
    let mut whole = verdict::of_requests(&sums.requests);
    whole.extend(sums.rate(parts, latencies).as_ref().map(verdict::achieved));
    for check in &mut checks {
        if let Some(better) = whole.iter().find(|better| better.id == check.id) {
            *check = better.clone();
        }
    }
    checks.push(together(parts, &sums.hosts));
    Verdict::of(checks)
}

/// Whether the hosts measured at the same time.
pub fn together(parts: &Parts<'_>, hosts: &[LoadHost]) -> Check {
    let last = hosts.iter().max_by_key(|host| host.began_after_ns);
    let apart_ns = last.map_or(0, |host| host.began_after_ns);
    let ratio = apart_ns as f64 / parts.settings.duration_ns.max(1) as f64;
    let claim = format!(
        "{} began to measure {:.0} ms after the first host.",
        last.map_or("none", |host| &host.name),
        apart_ns as f64 / 1e6
    );
    Check::measured("hosts-together", ratio, claim)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use steelyard_record::Clock;

    use super::super::member::MemberLoad;
    use super::super::rows::Part;
    use super::super::wire::PackedHistogram;
    use super::*;
    use crate::slo::Slo;

    fn share(completed: u64, values: &[u64]) -> Share {
        let golden = include_str!("../../../../schemas/golden/load_result.json");
        let mut result: LoadResult = serde_json::from_str(golden).unwrap();
        result.series.clear();
        result.operations.retain(|name, _| name == "get");
        result.operations.get_mut("get").unwrap().completed = completed;
        let mut responses = histogram();
        for &value in values {
            responses.saturating_record(value);
        }
        Share {
            result,
            latencies: super::super::wire::Packed::default(),
            operations: BTreeMap::from([("get".to_owned(), PackedHistogram::of(&responses))]),
        }
    }

    proptest! {
        // Histograms of the engine's bounds take their time without optimisation.
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn an_operations_percentiles_are_those_of_all_its_answers(
            left in proptest::collection::vec(1u64..4_000_000_000, 0..100),
            right in proptest::collection::vec(1u64..4_000_000_000, 0..100),
        ) {
            let loads = [&left, &right].map(|values| MemberLoad {
                share: Some(share(values.len() as u64, values)),
                ..MemberLoad::default()
            });
            let members = [&loads[0], &loads[1]].map(|load| Part {
                name: "host",
                connections: 1,
                load,
                intervals: &[],
            });
            let settings = crate::settings::tests::settings();
            let parts = Parts {
                settings: &settings,
                slo: &Slo::nothing(),
                clock: Clock::now(),
                members: &members,
            };
            let merged = merge(&parts, None).unwrap().result.operations;
            let mut together = histogram();
            for value in left.iter().chain(&right) {
                together.saturating_record(*value);
            }
            prop_assert_eq!(merged["get"].completed, (left.len() + right.len()) as u64);
            prop_assert_eq!(merged["get"].response.clone(), Some(quotable(summary(&together))));
        }
    }
}
