//! Whether the generator vouches for a result: one check a question, each with its figure and its bound.

use steelyard_record::{BOUNDS, Check, Level, Levels, Verdict};

use crate::control::Measured;

/// What the checks look at.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// Counts of the measure phase.
    pub measured: &'a Measured,
    /// Completed over offered, None in a closed loop.
    pub achieved_ratio: Option<f64>,
    /// Requests that are under way at any moment, the mean.
    pub under_way: f64,
    /// The busiest thread's share of its CPU.
    pub busy_ratio: f64,
    /// Whether the load was stopped before its time.
    pub interrupted: bool,
    /// 99th percentile of the generator's lag and median of the response time, None without answers.
    pub lag_and_response_ns: Option<(u64, u64)>,
    /// Share of the mean response time that passed in the generator, None without answers.
    pub lag_ratio: Option<f64>,
}

fn check(id: &str, bad: Level, fails: bool, claim: String, value: f64, bound: f64) -> Check {
    Check {
        id: id.to_owned(),
        level: if fails { bad } else { Level::Valid },
        claim,
        value: Some(value),
        bound: Some(bound),
        unit: Some("1".to_owned()),
    }
}

/// A check of a value that is suspect above one bound and invalid above another.
fn above(id: &str, bounds: Levels, claim: String, value: f64) -> Check {
    let level = bounds.level(value);
    check(id, level, true, claim, value, bounds.suspect)
}

/// All checks and their verdict.
pub fn judge(evidence: &Evidence<'_>) -> Verdict {
    let measured = evidence.measured;
    let mut checks = vec![
        interrupted(evidence),
        errors(measured),
        unanswered(measured),
        unsent(measured),
    ];
    if let Some(achieved_ratio) = evidence.achieved_ratio {
        checks.push(achieved(
            achieved_ratio,
            evidence.under_way,
            measured.intended,
        ));
        checks.push(generator_late(evidence));
    }
    checks.push(generator_bound(evidence));
    checks.extend(generator_lag(evidence));
    checks.push(samples(measured));
    checks.push(connections(measured));
    Verdict::of(checks)
}

fn interrupted(evidence: &Evidence<'_>) -> Check {
    let claim = if evidence.interrupted {
        "The load was interrupted."
    } else {
        "The load ran for its full duration."
    };
    check(
        "interrupted",
        Level::Invalid,
        evidence.interrupted,
        claim.to_owned(),
        f64::from(u8::from(evidence.interrupted)),
        0.0,
    )
}

fn errors(measured: &Measured) -> Check {
    let ended = measured.completed + measured.errors;
    let ratio = measured.errors as f64 / ended.max(1) as f64;
    let claim = format!("{} of {ended} requests failed.", measured.errors);
    above("errors", BOUNDS.error_ratio, claim, ratio)
}

fn unanswered(measured: &Measured) -> Check {
    let ratio = measured.outstanding as f64 / measured.intended.max(1) as f64;
    let level = if ratio > BOUNDS.error_ratio.invalid {
        Level::Invalid
    } else {
        Level::Suspect
    };
    let claim = format!(
        "{} requests were not answered by the end.",
        measured.outstanding
    );
    let fails = measured.outstanding > 0;
    check("unanswered", level, fails, claim, ratio, 0.0)
}

fn unsent(measured: &Measured) -> Check {
    let claim = format!(
        "{} of {} due requests were never sent.",
        measured.unsent, measured.intended
    );
    let (fails, value) = (measured.unsent > 0, measured.unsent as f64);
    check("unsent", Level::Invalid, fails, claim, value, 0.0)
}

/// Requests that are under way at any moment: Little's law over `achieved_ratio` of `due` requests.
pub fn under_way(achieved_ratio: f64, due: u64, response_mean_ns: f64, length_ns: u64) -> f64 {
    achieved_ratio * due as f64 * response_mean_ns / length_ns.max(1) as f64
}

/// Whether the rate was reached. What is under way at the end was due and is not complete, what was under way at the
/// begin is complete and was not due: their difference is chance, of a standard deviation of the root of their sum.
pub fn achieved(ratio: f64, under_way: f64, due: u64) -> Check {
    let chance = 3.0 * (2.0 * under_way + 2.0).sqrt() / due.max(1) as f64;
    let is_short = ratio < BOUNDS.achieved_ratio;
    let explained = match is_short && ratio + chance >= BOUNDS.achieved_ratio {
        true => format!(
            "; the {:.0} requests that are under way at any time explain the rest",
            under_way.max(1.0)
        ),
        false => String::new(),
    };
    check(
        "achieved",
        Level::Invalid,
        is_short && explained.is_empty(),
        format!(
            "Answers came at {:.2} % of the offered rate{explained}.",
            ratio * 100.0
        ),
        ratio,
        BOUNDS.achieved_ratio,
    )
}

/// Asked in an open loop only: in a closed one nothing is due.
fn generator_late(evidence: &Evidence<'_>) -> Check {
    let late = evidence.measured.noticed_late;
    let ratio = late as f64 / evidence.measured.intended.max(1) as f64;
    // A millisecond spoils a response time of one, not one of a hundred.
    let matters = evidence.lag_and_response_ns.is_none_or(|(lag, response)| {
        lag as f64 > BOUNDS.generator_lag_of_response_ratio * response as f64
    });
    let consequence = if matters || late == 0 {
        ": the generator lacked CPU time."
    } else {
        ", which is small beside their response time."
    };
    check(
        "generator-late",
        Level::Suspect,
        ratio > BOUNDS.generator_late_ratio && matters,
        format!("{late} requests were started more than 1 ms late{consequence}"),
        ratio,
        BOUNDS.generator_late_ratio,
    )
}

/// A busy generator sets the rate of a closed loop, and delays the requests of an open one.
fn generator_bound(evidence: &Evidence<'_>) -> Check {
    let open = evidence.achieved_ratio.is_some();
    let busy = evidence.busy_ratio;
    let claim = format!(
        "The busiest generator thread used {:.0} % of its CPU.",
        busy * 100.0
    );
    check(
        "generator-bound",
        if open { Level::Invalid } else { Level::Suspect },
        busy > BOUNDS.generator_busy_ratio,
        claim,
        busy,
        BOUNDS.generator_busy_ratio,
    )
}

/// Lag is response time that is not the server's. In an open loop it spoils the latencies, which are the result; in a
/// closed one it keeps requests from the server, whose throughput is the result unless it was busy all the same, which
/// only measuring the server can show.
fn generator_lag(evidence: &Evidence<'_>) -> Option<Check> {
    let ratio = evidence.lag_ratio?;
    let open = evidence.achieved_ratio.is_some();
    let mut bounds = BOUNDS.headline_ratio;
    if !open {
        bounds.invalid = f64::INFINITY;
    }
    let claim = format!(
        "{:.1} % of the response time was spent in the generator.",
        100.0 * ratio
    );
    Some(above("generator-lag", bounds, claim, ratio))
}

fn samples(measured: &Measured) -> Check {
    let (answers, bound) = (measured.completed, BOUNDS.samples_beyond_percentile * 100);
    let level = if answers == 0 {
        Level::Invalid
    } else {
        Level::Suspect
    };
    check(
        "samples",
        level,
        answers < bound,
        format!("{answers} answers; the 99th percentile needs {bound}."),
        answers as f64,
        bound as f64,
    )
}

fn connections(measured: &Measured) -> Check {
    let lost = measured.connections_lost;
    let claim = format!(
        "{lost} connections were lost, those of the warm-up and of timeouts among them; {} attempts to connect again \
         failed.",
        measured.connects_failed
    );
    let (fails, value) = (lost > 0, lost as f64);
    check("connections", Level::Suspect, fails, claim, value, 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Measured {
        Measured {
            intended: 100_000,
            sent: 100_000,
            completed: 100_000,
            ..Measured::default()
        }
    }

    fn failing(
        measured: &Measured,
        achieved_ratio: Option<f64>,
        busy_ratio: f64,
        interrupted: bool,
    ) -> Vec<(String, Level)> {
        let verdict = judge(&Evidence {
            measured,
            achieved_ratio,
            under_way: 0.0,
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
    fn what_is_under_way_at_both_ends_is_no_missed_rate() {
        let level = |ratio, under_way, due| achieved(ratio, under_way, due).level;
        // 50 requests a second of 200 ms for 5 s: ten under way, about 4.5 more or less at each end.
        let ten = under_way(0.968, 281, 2e8, 5_000_000_000);
        assert!((ten - 10.9).abs() < 0.1, "{ten}");
        assert_eq!(level(0.968, ten, 281), Level::Valid);
        assert_eq!(level(0.98, 0.1, 10_000), Level::Invalid);
        // Ten of 10,000 explain no missing hundred, nor does a queue that grows for the whole time.
        assert_eq!(level(0.98, 10.0, 10_000), Level::Invalid);
        assert_eq!(
            level(0.4, under_way(0.4, 1010, 1.5e9, 5_000_000_000), 1010),
            Level::Invalid
        );
    }

    #[test]
    fn lag_objects_by_its_share_of_the_response_time() {
        let measured = good();
        let level = |achieved_ratio, lag_ratio| {
            let verdict = judge(&Evidence {
                measured: &measured,
                achieved_ratio,
                under_way: 0.0,
                busy_ratio: 0.5,
                interrupted: false,
                lag_and_response_ns: None,
                lag_ratio,
            });
            let found = verdict.checks.into_iter().find(|c| c.id == "generator-lag");
            found.map(|c| c.level)
        };
        assert_eq!(level(Some(1.0), None), None);
        assert_eq!(level(Some(1.0), Some(0.05)), Some(Level::Valid));
        assert_eq!(level(Some(1.0), Some(0.06)), Some(Level::Suspect));
        assert_eq!(level(Some(1.0), Some(0.21)), Some(Level::Invalid));
        assert_eq!(level(None, Some(0.05)), Some(Level::Valid));
        assert_eq!(level(None, Some(0.57)), Some(Level::Suspect));
    }

    #[test]
    fn each_check_fails_alone() {
        let one = |id: &str, level| vec![(id.to_owned(), level)];
        assert_eq!(failing(&good(), None, 0.5, false), []);
        assert_eq!(failing(&good(), Some(1.0), 0.5, false), []);
        assert_eq!(
            failing(&good(), Some(0.989), 0.5, false),
            one("achieved", Level::Invalid)
        );
        assert_eq!(
            failing(&good(), None, 0.95, false),
            one("generator-bound", Level::Suspect)
        );
        assert_eq!(
            failing(&good(), Some(1.0), 0.95, false),
            one("generator-bound", Level::Invalid)
        );
        assert_eq!(
            failing(&good(), None, 0.5, true),
            one("interrupted", Level::Invalid)
        );
        let measured = Measured {
            errors: 101,
            ..good()
        };
        assert_eq!(
            failing(&measured, None, 0.5, false),
            one("errors", Level::Invalid)
        );
        let measured = Measured {
            errors: 99,
            ..good()
        };
        assert_eq!(
            failing(&measured, None, 0.5, false),
            one("errors", Level::Suspect)
        );
        let measured = Measured {
            errors: 1,
            ..good()
        };
        assert_eq!(failing(&measured, None, 0.5, false), []);
        let measured = Measured {
            noticed_late: 200,
            ..good()
        };
        assert_eq!(
            failing(&measured, Some(1.0), 0.5, false),
            one("generator-late", Level::Suspect)
        );
        let late_by = |lag_and_response_ns| {
            let verdict = judge(&Evidence {
                measured: &measured,
                achieved_ratio: Some(1.0),
                under_way: 0.0,
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
        let measured = Measured {
            completed: 999,
            ..good()
        };
        assert_eq!(
            failing(&measured, None, 0.5, false),
            one("samples", Level::Suspect)
        );
        let measured = Measured {
            completed: 0,
            ..good()
        };
        assert_eq!(
            failing(&measured, None, 0.5, false),
            one("samples", Level::Invalid)
        );
        let measured = Measured {
            connections_lost: 1,
            ..good()
        };
        assert_eq!(
            failing(&measured, None, 0.5, false),
            one("connections", Level::Suspect)
        );
    }
}
