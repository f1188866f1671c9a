//! What is left of a load of several processes when one of them is lost: what all had reported until then.
//!
//! In: the intervals that the processes reported during the load. Out: a record of the measure phase up to the
//! last report of every process, marked interrupted, with what had become by then of the requests that were due in it. What
//! a process reports only at its end (operations, threads, kinds of errors) is left out. Not here: noticing that a process is lost ([`super::member`]).

use std::collections::BTreeMap;

use steelyard_record::{Check, Level, LoadHost, LoadRequests, Verdict};

use super::log::Log;
use super::merge::{Sums, together};
use super::rows::{Part, Parts};
use crate::LoadError;
use crate::control::{Counts, Phase};
use crate::latency::{Latencies, quantile};
use crate::offer::{Lost, Offered, count};
use crate::tally::Tally;

/// The process that was lost.
#[derive(Debug)]
pub struct Loss {
    /// Its number.
    pub index: usize,
    /// What is known about it.
    pub why: String,
}

/// The record of what was measured until a process was lost.
pub fn merge(
    parts: &Parts<'_>,
    lost: &Loss,
    log: Option<&mut Log<'_>>,
) -> Result<Offered, LoadError> {
    let until_ns = parts.members.iter().map(measured_ns).min().unwrap_or(0);
    let members: Vec<Part<'_>> = parts
        .members
        .iter()
        .map(|part| Part {
            intervals: until(part, until_ns),
            ..*part
        })
        .collect();
    let parts = &Parts {
        members: &members,
        ..*parts
    };
    let mut latencies = Latencies::default();
    let (mut counts, mut tally) = (Counts::default(), Tally::default());
    let mut hosts = Vec::new();
    for (index, part) in members.iter().enumerate() {
        let (of_host, tally_of_host, latencies_of_host) = measured(part)?;
        counts.add(&of_host);
        tally.add(&tally_of_host);
        latencies.add(&latencies_of_host);
        let why = (index == lost.index).then(|| lost.why.clone());
        let row = host_row(parts, index, until_ns, &of_host, &latencies_of_host, why);
        hosts.push(LoadHost {
            offered_per_s: row
                .offered_per_s
                .map(|_| per_second(tally_of_host.due, until_ns)),
            completed: tally_of_host.completed,
            errors: tally_of_host.errors,
            ..row
        });
    }
    latencies.complete();
    let host = members[lost.index].name;
    let series = parts.series(log)?;
    let verdict = verdict(host, lost, together(parts, &hosts));
    let sums = sums(parts, until_ns, (&counts, &tally), hosts);
    let result = sums.record(parts, &latencies, series, verdict);
    let counted = count(&result, &latencies, parts.slo, Vec::new());
    Ok(Offered {
        result,
        latencies,
        counted,
        lost: Some(Lost {
            host: host.to_owned(),
            why: lost.why.clone(),
        }),
    })
}

/// How much of its measure phase a process has reported, ns.
fn measured_ns(part: &Part<'_>) -> i64 {
    let mut intervals = part.intervals.iter().rev();
    let last = intervals.find(|interval| interval.phase == Phase::Measure);
    last.map_or(0, |last| last.end_ns as i64 - part.origin_ns())
}

/// The intervals up to `until_ns` after the begin of its measure phase.
fn until<'a>(part: &Part<'a>, until_ns: i64) -> &'a [super::wire::PackedInterval] {
    let end_ns = part.origin_ns() + until_ns;
    let ends = |interval: &super::wire::PackedInterval| interval.end_ns as i64 <= end_ns;
    &part.intervals[..part.intervals.partition_point(ends)]
}

/// Counts and latencies of a process's measure phase, as far as it was reported.
fn measured(part: &Part<'_>) -> Result<(Counts, Tally, Latencies), LoadError> {
    let (mut counts, mut tally) = (Counts::default(), Tally::default());
    let mut latencies = Latencies::default();
    let intervals = part.intervals.iter();
    for interval in intervals.filter(|interval| interval.phase == Phase::Measure) {
        counts.add(&interval.counts);
        tally.add(&interval.tally);
        let all = interval.latencies.unpack();
        let mut own = all.map_err(|why| part.error(why))?;
        let foreign = interval.foreign.unpack();
        own.take_out(&foreign.map_err(|why| part.error(why))?)
            .map_err(|why| part.error(why))?;
        latencies.add(&own);
    }
    Ok((counts, tally, latencies))
}

/// `count` over a time, per second; 0 where no time has passed.
fn per_second(count: u64, length_ns: i64) -> f64 {
    if length_ns > 0 {
        count as f64 * 1e9 / length_ns as f64
    } else {
        0.0
    }
}

fn host_row(
    parts: &Parts<'_>,
    index: usize,
    length_ns: i64,
    counts: &Counts,
    latencies: &Latencies,
    lost: Option<String>,
) -> LoadHost {
    let part = &parts.members[index];
    let cpu_ns = counts.cpu_user_ns + counts.cpu_system_ns;
    let worked_ns = cpu_ns.saturating_sub(counts.spin_ns);
    let threads = f64::from(parts.settings.threads);
    let offers = parts.settings.offers_per_s().is_some();
    LoadHost {
        name: part.name.to_owned(),
        began_after_ns: parts.begins_ns()[index] - parts.begin_ns(),
        connections: part.connections,
        offered_per_s: offers.then(|| per_second(counts.due, length_ns)),
        throughput_per_s: per_second(counts.completed, length_ns),
        completed: counts.completed,
        errors: counts.errors,
        response_p50_ns: quantile(&latencies.response, 0.5),
        response_p99_ns: quantile(&latencies.response, 0.99),
        busy_ratio: (per_second(worked_ns, length_ns) / 1e9 / threads).min(1.0),
        verdict: Level::Invalid,
        lost,
    }
}

fn sums(
    parts: &Parts<'_>,
    length_ns: i64,
    (counts, tally): (&Counts, &Tally),
    hosts: Vec<LoadHost>,
) -> Sums {
    let offers = parts.settings.offers_per_s().is_some();
    let mut errors_by_kind = BTreeMap::new();
    if tally.errors > 0 {
        errors_by_kind.insert("unknown".to_owned(), tally.errors);
    }
    Sums {
        io: "unknown".to_owned(),
        threads: parts.settings.threads * parts.members.len() as u32,
        length_ns: length_ns.max(0) as u64,
        interrupted: true,
        requests: LoadRequests {
            intended: tally.due,
            sent: tally.sent,
            completed: tally.completed,
            errors: tally.errors,
            errors_by_kind,
            answers_by_class: None,
            outstanding_at_end: tally.sent.saturating_sub(tally.completed + tally.errors),
            unsent: tally.due.saturating_sub(tally.sent),
            completed_after: Some(tally.completed_after),
            completed_from_before: Some(tally.completed_from_before),
            errors_after: Some(tally.errors_after),
            errors_from_before: Some(tally.errors_from_before),
        },
        operations: BTreeMap::new(),
        throughput_per_s: per_second(counts.completed, length_ns),
        offered_per_s: offers.then(|| per_second(tally.due, length_ns)),
        sent_bytes: counts.sent_bytes,
        received_bytes: counts.received_bytes,
        thread_rows: Vec::new(),
        user_s: counts.cpu_user_ns as f64 / 1e9,
        system_s: counts.cpu_system_ns as f64 / 1e9,
        hosts,
    }
}

fn verdict(host: &str, lost: &Loss, together: Check) -> Verdict {
    let claim = format!(
        "Host {host} was lost: {}. The record ends with the last report of every host.",
        lost.why
    );
    let interrupted = Check::stated("interrupted", Level::Invalid, claim);
    Verdict::of(vec![interrupted, together])
}

#[cfg(test)]
mod tests {
    use steelyard_record::Clock;

    use super::super::member::MemberLoad;
    use super::super::wire::PackedInterval;
    use super::*;
    use crate::control::Interval;
    use crate::slo::Slo;

    /// Reports of a process that warms up for one interval from `start_ns` on, then measures for `measured`.
    fn load_from(start_ns: u64, measured: u64) -> MemberLoad {
        const LENGTH_NS: u64 = 100_000_000;
        let intervals = (0..=measured).map(|index| {
            let mut interval = Interval::default();
            interval.begin_ns = start_ns + index * LENGTH_NS;
            interval.end_ns = interval.begin_ns + LENGTH_NS;
            interval.counts.due = 10;
            interval.counts.completed = 9;
            interval.counts.errors = 1;
            // The first interval of the phase completes four requests of the warm-up, and leaves two of its own.
            let foreign = if index == 1 { 4 } else { 0 };
            if index > 0 {
                interval.tally = Tally {
                    due: 10,
                    sent: 10 - foreign / 4,
                    completed: 9 - foreign,
                    errors: 1,
                    completed_from_before: foreign,
                    ..Tally::default()
                };
            }
            interval.latencies.sent(5, 0, 10 - foreign / 4);
            interval.latencies.answered(1_000 + index, 900, 9 - foreign);
            interval.foreign.answered(9_000, 8_000, foreign);
            interval.fold();
            let phase = if index == 0 {
                Phase::Warmup
            } else {
                Phase::Measure
            };
            PackedInterval::of(&interval, phase)
        });
        MemberLoad {
            intervals: intervals.collect(),
            ..MemberLoad::default()
        }
    }

    fn partial(measured: [u64; 2]) -> steelyard_record::LoadResult {
        let loads = [
            load_from(7_000, measured[0]),
            load_from(99_000_000_000, measured[1]),
        ];
        let members = [("near", &loads[0]), ("far", &loads[1])].map(|(name, load)| Part {
            name,
            connections: 3,
            load,
            intervals: &load.intervals,
        });
        let settings = crate::settings::tests::settings();
        let parts = Parts {
            settings: &settings,
            slo: &Slo::nothing(),
            clock: Clock::now(),
            members: &members,
        };
        let lost = Loss {
            index: 1,
            why: "it is gone".to_owned(),
        };
        let offered = merge(&parts, &lost, None).unwrap();
        assert_eq!(offered.lost.unwrap().host, "far");
        offered.result
    }

    #[test]
    fn the_record_ends_with_the_last_report_of_the_lost_host() {
        let result = partial([8, 5]);
        assert_eq!(result.end_ns - result.begin_ns, 500_000_000);
        let requests = &result.requests;
        assert_eq!((requests.intended, requests.sent), (100, 98));
        assert_eq!((requests.completed, requests.errors), (82, 10));
        assert_eq!((requests.outstanding_at_end, requests.unsent), (6, 2));
        assert_eq!(requests.completed_from_before, Some(8));
        assert_eq!(requests.errors_by_kind["unknown"], 10);
        assert!((result.throughput_per_s - 180.0).abs() < 1e-9);
        assert_eq!(result.latency.response.count, 82);
        assert_eq!(result.latency.lag.count, 98);
        assert_eq!(result.latency.response.max_ns, Some(1_005));
        let hosts = result.hosts.unwrap();
        assert_eq!((hosts[0].completed, hosts[1].completed), (41, 41));
        assert_eq!(hosts[0].lost, None);
        assert_eq!(hosts[1].lost.as_deref(), Some("it is gone"));
        assert_eq!(result.verdict.level, Level::Invalid);
        let rows: Vec<(&str, u64)> = result
            .series
            .iter()
            .map(|row| (row.phase.as_str(), row.completed))
            .collect();
        assert_eq!(rows, [("warmup", 18), ("measure", 90)]);
    }

    #[test]
    fn a_host_lost_in_the_warm_up_leaves_a_record_of_nothing() {
        let result = partial([2, 0]);
        assert_eq!(result.end_ns, result.begin_ns);
        assert_eq!(
            (result.requests.intended, result.throughput_per_s),
            (0, 0.0)
        );
        assert_eq!(result.latency.response.p50_ns, None);
        assert!(result.series.iter().all(|row| row.phase == "warmup"));
    }
}
