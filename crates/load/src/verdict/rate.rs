//! Whether an open loop reached its rate.
//!
//! In: the counts of the measure phase. Out: the check `achieved`, with what became of the requests that are missing.

use steelyard_record::{CONSTANTS, Check, Level, LoadRequests};

/// What an open loop achieved of its rate.
#[derive(Debug, Clone)]
pub struct Rate {
    /// The requests that were due in the measure phase.
    pub requests: LoadRequests,
    /// Mean response time of the requests, ns.
    pub response_mean_ns: f64,
    /// Length of the phase, ns.
    pub length_ns: u64,
    /// Length of the warm-up, ns.
    pub warmup_ns: u64,
}

impl Rate {
    /// Requests that were completed in the phase, whenever due.
    fn completed_in_phase(&self) -> u64 {
        let requests = &self.requests;
        requests.completed - requests.completed_after.unwrap_or(0)
            + requests.completed_from_before.unwrap_or(0)
    }

    /// Completed in the phase over due in it.
    pub fn achieved_ratio(&self) -> f64 {
        self.completed_in_phase() as f64 / self.requests.intended.max(1) as f64
    }

    /// Requests that are under way at any moment: Little's law over those that were completed.
    fn under_way(&self) -> f64 {
        self.completed_in_phase() as f64 * self.response_mean_ns / self.length_ns.max(1) as f64
    }

    /// What became of those due that were not completed in the phase.
    fn others(&self) -> String {
        let requests = &self.requests;
        let others = [
            (requests.errors, "failed"),
            (requests.outstanding_at_end, "unanswered"),
            (requests.unsent, "never sent"),
            (requests.completed_after.unwrap_or(0), "completed later"),
        ];
        let others = others.iter().filter(|(count, _)| *count > 0);
        let others: Vec<String> = others
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        match others.is_empty() {
            true => String::new(),
            false => format!(" ({})", others.join(", ")),
        }
    }

    /// Whether answers that only came after the phase are all that is missing, and there was no time for them before.
    fn is_cold(&self) -> bool {
        self.requests.completed == self.requests.intended
            && (self.warmup_ns as f64) < self.response_mean_ns
    }
}

/// Whether the rate was reached. What is under way at the end was due and is not complete, what was under way at the
/// begin is complete and was not due: their difference is chance, of a standard deviation of the root of their sum.
pub fn achieved(rate: &Rate) -> Check {
    let (due, under_way) = (rate.requests.intended, rate.under_way());
    let ratio = rate.achieved_ratio();
    let chance = 3.0 * (2.0 * under_way + 2.0).sqrt() / due.max(1) as f64;
    let is_short = ratio < CONSTANTS.achieved_ratio;
    let is_explained = is_short && ratio + chance >= CONSTANTS.achieved_ratio;
    let explained = match (is_explained, is_short && rate.is_cold()) {
        (true, _) => format!(
            "; the {:.0} requests that are under way at any time explain the rest",
            under_way.max(1.0)
        ),
        (_, true) => "; the warm-up is shorter than the mean response time".to_owned(),
        _ => String::new(),
    };
    let before = match rate.requests.completed_from_before.unwrap_or(0) {
        0 => String::new(),
        before => format!(" ({before} of them due before)"),
    };
    let claim = format!(
        "{:.2} % of the offered rate was achieved: {} completed{before} for {due} due{}{explained}.",
        ratio * 100.0,
        rate.completed_in_phase(),
        rate.others(),
    );
    let level = match is_short && !is_explained {
        true => Level::Invalid,
        false => Level::Valid,
    };
    Check::stated("achieved", level, claim).of(ratio)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::protocol::Protocol;
    use crate::summary::requests;
    use crate::tally::{Measured, Tally};

    /// A rate of which `late` of `due` requests were completed after the phase only.
    pub fn rate(due: u64, late: u64, response_mean_ns: f64) -> Rate {
        let tally = Tally {
            due,
            sent: due,
            completed: due,
            completed_after: late,
            ..Tally::default()
        };
        let measured = Measured {
            tally,
            ..Measured::default()
        };
        Rate {
            requests: requests(Protocol::Memcached, &measured),
            response_mean_ns,
            length_ns: 5_000_000_000,
            warmup_ns: u64::MAX,
        }
    }

    #[test]
    fn what_is_under_way_at_both_ends_is_no_missed_rate() {
        let level = |due, late, mean_ns| achieved(&rate(due, late, mean_ns)).level;
        // 50 requests a second of 200 ms for 5 s: ten under way, about 4.5 more or less at each end.
        let ten = rate(281, 9, 2e8).under_way();
        assert!((ten - 10.9).abs() < 0.1, "{ten}");
        assert_eq!(level(281, 9, 2e8), Level::Valid);
        assert_eq!(level(10_000, 200, 5e4), Level::Invalid);
        // Ten of 10,000 explain no missing hundred, nor does a queue that grows for the whole time.
        assert_eq!(level(10_000, 200, 5e6), Level::Invalid);
        assert_eq!(level(1010, 606, 1.5e9), Level::Invalid);
    }

    #[test]
    fn a_rate_that_was_missed_says_what_became_of_the_requests() {
        let mut half = rate(900, 350, 1e5);
        (half.requests.completed, half.requests.errors) = (550, 350);
        half.requests.completed_after = Some(0);
        assert_eq!(
            achieved(&half).claim,
            "61.11 % of the offered rate was achieved: 550 completed for 900 due (350 failed)."
        );
        let mut cold = rate(100, 40, 4e8);
        cold.warmup_ns = 0;
        let claim = achieved(&cold).claim;
        let end = "(40 completed later); the warm-up is shorter than the mean response time.";
        assert!(claim.ends_with(end), "{claim}");
    }
}
