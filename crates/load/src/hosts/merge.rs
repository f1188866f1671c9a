//! One result of the results of several processes.
//!
//! Counts are summed, histograms added exactly and percentiles taken from the sums. Rows of the series are put
//! together by their time since the begin of each process's own measure phase. Not here: how the processes were
//! reached.

use std::collections::BTreeMap;

use steelyard_record::{
    Check, Clock, IntervalRow, Level, LoadCpu, LoadHost, LoadLatency, LoadOperations, LoadRequests,
    LoadResult, LoadThread, Verdict,
};

use super::wire::Share;
use crate::LoadError;
use crate::capacity::evidence::Counts;
use crate::latency::{Latencies, quantile, summary};
use crate::offer::{Offered, beyond, busy_ratio, count};
use crate::settings::Settings;
use crate::slo::Slo;
use crate::summary::{quotable, settings_record};
use crate::verdict::{ACHIEVED_RATIO_MIN, SAMPLES_BEYOND};

/// Share of the measure phase by which processes may begin apart.
const APART_RATIO_MAX: f64 = 0.05;

/// What is put together.
pub struct Parts<'a> {
    /// The whole load.
    pub settings: &'a Settings,
    /// What batches are counted by.
    pub slo: &'a Slo,
    /// Both clocks here at the start.
    pub clock: Clock,
    /// When the load was ordered, here.
    pub begin_ns: u64,
    /// The hosts.
    pub names: &'a [&'a str],
    /// When each was ordered to measure, here.
    pub sent_ns: &'a [u64],
    /// What each came to.
    pub shares: &'a [Share],
}

/// A row that is being put together.
#[derive(Default)]
struct Row {
    /// Begin and end since the begin of the measure phases, ns.
    span_ns: Option<(i64, i64)>,
    due: u64,
    completed: u64,
    errors: u64,
    hits: u64,
    misses: u64,
    sent_bytes: u64,
    received_bytes: u64,
    latencies: Latencies,
}

/// The result of the whole load.
pub fn merge(parts: &Parts<'_>) -> Result<Offered, LoadError> {
    let host = |index: usize, why: String| LoadError::Host {
        host: parts.names[index].to_owned(),
        why,
    };
    let mut latencies = Latencies::default();
    for (index, share) in parts.shares.iter().enumerate() {
        latencies.add(&share.latencies.unpack().map_err(|why| host(index, why))?);
    }
    latencies.complete();
    // Here's time of the begin of each process's measure phase, late by what the order took on its way.
    let begins: Vec<u64> = parts
        .shares
        .iter()
        .zip(parts.sent_ns)
        .map(|(share, sent_ns)| sent_ns.max(&parts.begin_ns) + share.began_after_ns.unwrap_or(0))
        .collect();
    let begin_ns = begins.iter().copied().min().unwrap_or(parts.begin_ns);
    let rows = rows(parts, parts.settings.interval_ns).map_err(|(index, why)| host(index, why))?;
    let fine_ns = (parts.settings.duration_ns / 20).clamp(100_000_000, 1_000_000_000);
    let batches = self::rows(parts, fine_ns).map_err(|(index, why)| host(index, why))?;
    let batches = batches
        .into_iter()
        .filter(|((phase, _), _)| *phase == Phase::Measure)
        .map(|(_, row)| Counts {
            due: row.due,
            completed: row.completed,
            errors: row.errors,
            unanswered: 0,
            beyond: beyond(&row.latencies.response, &parts.slo.percentiles),
        })
        .collect();
    let result = result(parts, &latencies, begin_ns, &begins, rows);
    let counted = count(&result, &latencies, parts.slo, batches);
    Ok(Offered {
        result,
        latencies,
        counted,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Warmup,
    Measure,
    Drain,
}

impl Phase {
    fn of(name: &str) -> Self {
        match name {
            "measure" => Self::Measure,
            "drain" => Self::Drain,
            _ => Self::Warmup,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Warmup => "warmup",
            Self::Measure => "measure",
            Self::Drain => "drain",
        }
    }
}

type Rows = BTreeMap<(Phase, i64), Row>;

/// The processes' intervals, by the number of lengths since the begin of their measure phases.
fn rows(parts: &Parts<'_>, length_ns: u64) -> Result<Rows, (usize, String)> {
    let mut rows = Rows::new();
    for (index, share) in parts.shares.iter().enumerate() {
        let result = &share.result;
        if share.intervals.len() != result.series.len() {
            return Err((index, "it has other histograms than intervals".to_owned()));
        }
        for (interval, packed) in result.series.iter().zip(&share.intervals) {
            let phase = Phase::of(&interval.phase);
            let since_ns = interval.begin_ns as i64 - result.begin_ns as i64;
            let row = rows
                .entry((phase, since_ns.div_euclid(length_ns as i64)))
                .or_default();
            let until_ns = interval.end_ns as i64 - result.begin_ns as i64;
            let (begin, end) = row.span_ns.unwrap_or((since_ns, until_ns));
            row.span_ns = Some((begin.min(since_ns), end.max(until_ns)));
            row.due += packed.due;
            row.completed += interval.completed;
            row.errors += interval.errors;
            row.hits += interval.hits;
            row.misses += interval.misses;
            row.sent_bytes += interval.sent_bytes;
            row.received_bytes += interval.received_bytes;
            row.latencies
                .add(&packed.latencies.unpack().map_err(|why| (index, why))?);
        }
    }
    Ok(rows)
}

fn series(rows: Rows, begin_ns: u64) -> Vec<IntervalRow> {
    let at = |since_ns: i64| (begin_ns as i64 + since_ns).max(0) as u64;
    rows.into_iter()
        .map(|((phase, _), row)| {
            let latencies = &row.latencies;
            let (since_ns, until_ns) = row.span_ns.unwrap_or_default();
            IntervalRow {
                begin_ns: at(since_ns),
                end_ns: at(until_ns),
                phase: phase.name().to_owned(),
                completed: row.completed,
                errors: row.errors,
                hits: row.hits,
                misses: row.misses,
                sent_bytes: row.sent_bytes,
                received_bytes: row.received_bytes,
                response_p50_ns: quantile(&latencies.response, 0.5),
                response_p99_ns: quantile(&latencies.response, 0.99),
                response_p999_ns: quantile(&latencies.response, 0.999),
                service_p50_ns: quantile(&latencies.service, 0.5),
                service_p99_ns: quantile(&latencies.service, 0.99),
                lag_p99_ns: quantile(&latencies.lag, 0.99),
                lag_p999_ns: quantile(&latencies.lag, 0.999),
            }
        })
        .collect()
}

fn result(
    parts: &Parts<'_>,
    latencies: &Latencies,
    begin_ns: u64,
    begins: &[u64],
    rows: Rows,
) -> LoadResult {
    let results: Vec<&LoadResult> = parts.shares.iter().map(|share| &share.result).collect();
    let sum = |of: fn(&LoadResult) -> f64| results.iter().map(|result| of(result)).sum::<f64>();
    let throughput_per_s = sum(|result| result.throughput_per_s);
    let offered_per_s = parts
        .settings
        .rate_per_s
        .map(|_| sum(|result| result.offered_per_s.unwrap_or(0.0)));
    let achieved_ratio = offered_per_s.map(|offered| {
        if offered > 0.0 {
            throughput_per_s / offered
        } else {
            0.0
        }
    });
    let hosts: Vec<LoadHost> = results
        .iter()
        .enumerate()
        .map(|(index, result)| row_of(parts.names[index], result, begins[index] - begin_ns))
        .collect();
    let interrupted = results.iter().any(|result| result.interrupted);
    let length_ns = results
        .iter()
        .map(|result| result.end_ns - result.begin_ns)
        .max()
        .unwrap_or(0);
    let (user_s, system_s) = (
        sum(|result| result.cpu.user_s),
        sum(|result| result.cpu.system_s),
    );
    let cpu_s = user_s + system_s;
    let completed = throughput_per_s * length_ns as f64 / 1e9;
    let io = &results[0].settings.io;
    LoadResult {
        kind: results[0].kind.clone(),
        tool: results[0].tool.clone(),
        command: Vec::new(),
        clock: parts.clock,
        settings: steelyard_record::LoadSettings {
            threads: results.iter().map(|result| result.settings.threads).sum(),
            ..settings_record(parts.settings, io)
        },
        begin_ns,
        end_ns: begin_ns + length_ns,
        interrupted,
        requests: requests(&results),
        operations: operations(&results),
        throughput_per_s,
        offered_per_s,
        achieved_ratio,
        sent_bytes: results.iter().map(|result| result.sent_bytes).sum(),
        received_bytes: results.iter().map(|result| result.received_bytes).sum(),
        latency: LoadLatency {
            response: quotable(summary(&latencies.response)),
            service: quotable(summary(&latencies.service)),
            lag: quotable(summary(&latencies.lag)),
            queued: Some(quotable(summary(&latencies.queued))),
        },
        series: series(rows, begin_ns),
        threads: threads(&results),
        cpu: LoadCpu {
            user_s,
            system_s,
            requests_per_cpu_s: (cpu_s > 0.0).then(|| completed / cpu_s),
        },
        verdict: verdict(parts, &results, &hosts, achieved_ratio),
        hosts: Some(hosts),
    }
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
    }
}

fn requests(results: &[&LoadResult]) -> LoadRequests {
    let sum =
        |of: fn(&LoadRequests) -> u64| results.iter().map(|result| of(&result.requests)).sum();
    let mut errors_by_kind = BTreeMap::new();
    let mut answers_by_class: Option<BTreeMap<String, u64>> = None;
    for result in results {
        for (kind, count) in &result.requests.errors_by_kind {
            *errors_by_kind.entry(kind.clone()).or_default() += count;
        }
        for (class, count) in result.requests.answers_by_class.iter().flatten() {
            let classes = answers_by_class.get_or_insert_default();
            *classes.entry(class.clone()).or_default() += count;
        }
    }
    LoadRequests {
        intended: sum(|requests| requests.intended),
        sent: sum(|requests| requests.sent),
        completed: sum(|requests| requests.completed),
        errors: sum(|requests| requests.errors),
        errors_by_kind,
        answers_by_class,
        outstanding_at_end: sum(|requests| requests.outstanding_at_end),
        unsent: sum(|requests| requests.unsent),
    }
}

fn operations(results: &[&LoadResult]) -> BTreeMap<String, LoadOperations> {
    let mut operations: BTreeMap<String, LoadOperations> = BTreeMap::new();
    for (name, of_host) in results.iter().flat_map(|result| &result.operations) {
        let sum = operations.entry(name.clone()).or_insert(LoadOperations {
            completed: 0,
            hits: of_host.hits.map(|_| 0),
            misses: of_host.misses.map(|_| 0),
            // Operations' histograms stay with their processes.
            response: None,
        });
        sum.completed += of_host.completed;
        sum.hits = sum.hits.zip(of_host.hits).map(|(a, b)| a + b);
        sum.misses = sum.misses.zip(of_host.misses).map(|(a, b)| a + b);
    }
    operations
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
fn verdict(
    parts: &Parts<'_>,
    results: &[&LoadResult],
    hosts: &[LoadHost],
    achieved_ratio: Option<f64>,
) -> Verdict {
    let mut checks: Vec<Check> = Vec::new();
    for (name, result) in parts.names.iter().zip(results) {
        for check in &result.verdict.checks {
            let mut check = check.clone();
            if check.level != Level::Valid {
                check.claim = format!("{name}: {}", check.claim);
            }
            match checks.iter_mut().find(|known| known.id == check.id) {
                Some(known) if known.level < check.level => *known = check,
                Some(_) => {}
                None => checks.push(check),
            }
        }
    }
    let completed: u64 = hosts.iter().map(|host| host.completed).sum();
    for check in &mut checks {
        match (check.id.as_str(), achieved_ratio) {
            ("samples", _) if completed >= SAMPLES_BEYOND * 100 => {
                check.level = Level::Valid;
                check.claim = format!("{completed} answers on all hosts.");
                check.value = Some(completed as f64);
            }
            ("achieved", Some(achieved)) => {
                let fails = achieved < ACHIEVED_RATIO_MIN;
                check.level = if fails { Level::Invalid } else { Level::Valid };
                check.claim = format!(
                    "{:.2} % of the offered rate was completed.",
                    achieved * 100.0
                );
                check.value = Some(achieved);
            }
            _ => {}
        }
    }
    checks.push(together(parts, hosts));
    Verdict::of(checks)
}

/// Whether the hosts measured at the same time.
fn together(parts: &Parts<'_>, hosts: &[LoadHost]) -> Check {
    let last = hosts.iter().max_by_key(|host| host.began_after_ns);
    let apart_ns = last.map_or(0, |host| host.began_after_ns);
    let ratio = apart_ns as f64 / parts.settings.duration_ns.max(1) as f64;
    let claim = format!(
        "{} began to measure {:.0} ms after the first host.",
        last.map_or("none", |host| &host.name),
        apart_ns as f64 / 1e6
    );
    let fails = ratio > APART_RATIO_MAX;
    Check {
        id: "hosts-together".to_owned(),
        level: if fails { Level::Suspect } else { Level::Valid },
        claim,
        value: Some(ratio),
        bound: Some(APART_RATIO_MAX),
        unit: Some("1".to_owned()),
    }
}
