//! Whether the generator vouches for a result: one check a question, each with its figure and its bound.

mod rate;

pub use rate::{Rate, achieved};

use steelyard_record::{Bounds, CONSTANTS, Check, Level, LoadRequests, Verdict};

use crate::tally::{Measured, Tally};

/// What the checks look at.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// Counts of the measure phase, as the record has them.
    pub requests: &'a LoadRequests,
    /// The same and more, as they were counted.
    pub measured: &'a Measured,
    /// Whether the offered rate was reached, None in a closed loop.
    pub rate: Option<Rate>,
    /// The busiest thread's share of its CPU.
    pub busy_ratio: f64,
    /// Whether the load was stopped before its time.
    pub interrupted: bool,
    /// 99th percentile of the generator's lag and median of the response time, None without answers.
    pub lag_and_response_ns: Option<(u64, u64)>,
    /// Share of the mean response time that passed in the generator, None without answers.
    pub lag_ratio: Option<f64>,
}

/// A check that has the level `bad` where it fails.
fn check(id: &str, bad: Level, fails: bool, claim: impl Into<String>) -> Check {
    Check::stated(id, if fails { bad } else { Level::Valid }, claim)
}

/// All checks and their verdict.
pub fn judge(evidence: &Evidence<'_>) -> Verdict {
    let measured = evidence.measured;
    let mut checks = vec![interrupted(evidence)];
    checks.extend(of_requests(evidence.requests));
    if let Some(rate) = &evidence.rate {
        checks.push(achieved(rate));
        checks.push(generator_late(evidence));
    }
    checks.push(generator_bound(evidence));
    checks.extend(generator_lag(evidence));
    checks.push(connections(measured));
    Verdict::of(checks)
}

fn interrupted(evidence: &Evidence<'_>) -> Check {
    let claim = if evidence.interrupted {
        "The load was interrupted."
    } else {
        "The load ran for its full duration."
    };
    check("interrupted", Level::Invalid, evidence.interrupted, claim)
}

/// The checks that follow from the counts of requests alone: those of a process, or of several together.
pub fn of_requests(requests: &LoadRequests) -> Vec<Check> {
    vec![
        errors(requests),
        unanswered(requests),
        unsent(requests),
        samples(requests),
    ]
}

fn errors(requests: &LoadRequests) -> Check {
    let errors = requests.errors;
    let finished = requests.completed + errors;
    let ratio = errors as f64 / finished.max(1) as f64;
    let claim = format!("{errors} of {finished} finished requests failed.");
    Check::measured("errors", ratio, claim)
}

fn unanswered(requests: &LoadRequests) -> Check {
    let (unanswered, sent) = (requests.outstanding_at_end, requests.sent);
    let ratio = unanswered as f64 / sent.max(1) as f64;
    let claim = format!("{unanswered} of {sent} sent requests were not answered by the end.");
    Check::measured("unanswered", ratio, claim)
}

fn unsent(requests: &LoadRequests) -> Check {
    let (unsent, due) = (requests.unsent, requests.intended);
    let claim = format!("{unsent} of {due} due requests were never sent.");
    Check::measured("unsent", unsent as f64, claim)
}

/// Asked in an open loop only: in a closed one nothing is due.
fn generator_late(evidence: &Evidence<'_>) -> Check {
    let Tally {
        due,
        noticed_late: late,
        ..
    } = evidence.measured.tally;
    let ratio = late as f64 / due.max(1) as f64;
    // A millisecond spoils a response time of one, not one of a hundred.
    let matters = evidence.lag_and_response_ns.is_none_or(|(lag, response)| {
        lag as f64 > CONSTANTS.generator_lag_of_response_ratio * response as f64
    });
    let consequence = if matters || late == 0 {
        ": the generator lacked CPU time."
    } else {
        ", which is small beside their response time."
    };
    let claim =
        format!("{late} of {due} due requests were noticed more than 1 ms late{consequence}");
    let mut found = Check::measured("generator-late", ratio, claim);
    if !matters {
        found.level = Level::Valid;
    }
    found
}

/// A busy generator sets the rate of a closed loop, and delays the requests of an open one.
fn generator_bound(evidence: &Evidence<'_>) -> Check {
    let open = evidence.rate.is_some();
    let busy = evidence.busy_ratio;
    let claim = format!(
        "The busiest generator thread used {:.0} % of its CPU.",
        busy * 100.0
    );
    let mut bounds = Bounds::of("generator-bound");
    if open {
        bounds = Bounds {
            suspect: None,
            invalid: bounds.suspect,
        };
    }
    Check::against("generator-bound", bounds, busy, claim)
}

/// Lag is response time that is not the server's. In an open loop it spoils the latencies, which are the result; in a
/// closed one it keeps requests from the server, whose throughput is the result unless it was busy all the same, which
/// only measuring the server can show.
fn generator_lag(evidence: &Evidence<'_>) -> Option<Check> {
    let ratio = evidence.lag_ratio?;
    let open = evidence.rate.is_some();
    let mut bounds = Bounds::of("generator-lag");
    if !open {
        bounds.invalid = None;
    }
    let claim = format!(
        "{:.1} % of the response time was spent in the generator.",
        100.0 * ratio
    );
    Some(Check::against("generator-lag", bounds, ratio, claim))
}

fn samples(requests: &LoadRequests) -> Check {
    let (completed, needed) = (
        requests.completed,
        CONSTANTS.samples_beyond_percentile * 100,
    );
    let claim = format!("{completed} completed requests; the 99th percentile needs {needed}.");
    let bounds = Bounds {
        suspect: Some(needed as f64),
        invalid: Some(1.0),
    };
    Check::against("samples", bounds, completed as f64, claim)
}

fn connections(measured: &Measured) -> Check {
    let (lost, hang) = (measured.connections_lost, measured.outstanding_from_before);
    let hanging = match hang {
        0 => String::new(),
        hang => format!(" {hang} requests that were due before the phase were never answered."),
    };
    let claim = format!(
        "{lost} connections were lost, those of the warm-up and of timeouts among them; {} attempts to connect again \
         failed.{hanging}",
        measured.connects_failed
    );
    let fails = lost > 0 || hang > 0;
    check("connections", Level::Suspect, fails, claim).of(lost as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Protocol;
    use crate::summary::requests;

    fn good() -> Measured {
        of(Tally {
            due: 100_000,
            sent: 100_000,
            completed: 100_000,
            ..Tally::default()
        })
    }

    fn of(tally: Tally) -> Measured {
        Measured {
            tally,
            ..Measured::default()
        }
    }

    fn failing(
        measured: &Measured,
        late: Option<u64>,
        busy_ratio: f64,
        interrupted: bool,
    ) -> Vec<(String, Level)> {
        let verdict = judge(&Evidence {
            requests: &requests(Protocol::Memcached, measured),
            measured,
            rate: late.map(|late| rate::tests::rate(100_000, late, 0.0)),
            busy_ratio,
            interrupted,
            lag_and_response_ns: None,
            lag_ratio: Some(0.01),
        });
        verdict
            .checks
            .into_iter()
            .filter(|c| c.level != Level::Valid)
            .map(|c| (c.id, c.level))
            .collect()
    }

    #[test]
    fn lag_objects_by_its_share_of_the_response_time() {
        let measured = good();
        let level = |is_open: bool, lag_ratio| {
            let verdict = judge(&Evidence {
                requests: &requests(Protocol::Memcached, &measured),
                measured: &measured,
                rate: is_open.then(|| rate::tests::rate(100_000, 0, 0.0)),
                busy_ratio: 0.5,
                interrupted: false,
                lag_and_response_ns: None,
                lag_ratio,
            });
            let found = verdict.checks.into_iter().find(|c| c.id == "generator-lag");
            found.map(|c| c.level)
        };
        assert_eq!(level(true, None), None);
        assert_eq!(level(true, Some(0.05)), Some(Level::Valid));
        assert_eq!(level(true, Some(0.06)), Some(Level::Suspect));
        assert_eq!(level(true, Some(0.21)), Some(Level::Invalid));
        assert_eq!(level(false, Some(0.05)), Some(Level::Valid));
        assert_eq!(level(false, Some(0.57)), Some(Level::Suspect));
    }

    #[test]
    fn each_check_fails_alone() {
        let one = |id: &str, level| vec![(id.to_owned(), level)];
        assert_eq!(failing(&good(), None, 0.5, false), []);
        assert_eq!(failing(&good(), Some(0), 0.5, false), []);
        assert_eq!(
            failing(&good(), Some(1_100), 0.5, false),
            one("achieved", Level::Invalid)
        );
        assert_eq!(
            failing(&good(), None, 0.95, false),
            one("generator-bound", Level::Suspect)
        );
        assert_eq!(
            failing(&good(), Some(0), 0.95, false),
            one("generator-bound", Level::Invalid)
        );
        assert_eq!(
            failing(&good(), None, 0.5, true),
            one("interrupted", Level::Invalid)
        );
        let mut measured = good();
        measured.tally.errors = 101;
        assert_eq!(
            failing(&measured, None, 0.5, false),
            one("errors", Level::Invalid)
        );
        let mut measured = good();
        measured.tally.errors = 99;
        assert_eq!(
            failing(&measured, None, 0.5, false),
            one("errors", Level::Suspect)
        );
        let mut measured = good();
        measured.tally.errors = 1;
        assert_eq!(failing(&measured, None, 0.5, false), []);
        let mut measured = good();
        measured.tally.noticed_late = 200;
        assert_eq!(
            failing(&measured, Some(0), 0.5, false),
            one("generator-late", Level::Suspect)
        );
        let late_by = |lag_and_response_ns| {
            let verdict = judge(&Evidence {
                requests: &requests(Protocol::Memcached, &measured),
                measured: &measured,
                rate: Some(rate::tests::rate(100_000, 0, 0.0)),
                busy_ratio: 0.5,
                interrupted: false,
                lag_and_response_ns,
                lag_ratio: None,
            });
            verdict.level
        };
        assert_eq!(late_by(Some((2_000_000, 100_000_000))), Level::Suspect);
        assert_eq!(late_by(Some((900_000, 100_000_000))), Level::Valid);
        let measured = Measured {
            unsent: 1,
            ..good()
        };
        assert_eq!(
            failing(&measured, None, 0.5, false),
            one("unsent", Level::Invalid)
        );
        let measured = Measured {
            outstanding: 1,
            ..good()
        };
        assert_eq!(
            failing(&measured, None, 0.5, false),
            one("unanswered", Level::Suspect)
        );
        let measured = Measured {
            outstanding: 5_000,
            ..good()
        };
        assert_eq!(
            failing(&measured, None, 0.5, false),
            one("unanswered", Level::Invalid)
        );
        let mut measured = good();
        measured.tally.completed = 999;
        assert_eq!(
            failing(&measured, None, 0.5, false),
            one("samples", Level::Suspect)
        );
        let mut measured = good();
        measured.tally.completed = 0;
        assert_eq!(
            failing(&measured, None, 0.5, false),
            one("samples", Level::Invalid)
        );
        for (connections_lost, outstanding_from_before) in [(1, 0), (0, 1)] {
            let measured = Measured {
                connections_lost,
                outstanding_from_before,
                ..good()
            };
            assert_eq!(
                failing(&measured, None, 0.5, false),
                one("connections", Level::Suspect)
            );
        }
    }
}
