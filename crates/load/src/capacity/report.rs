//! The record of a search: its answer in words, and the checks of its verdict.

use steelyard_record::{
    CapacityEdge, CapacityInterval, CapacityResult, Check, Clock, Kind, Level, Tool, Verdict,
};

use super::measure::{Capacity, End, Trail};
use super::search::{Answer, Edge, Ended};
use crate::offer::Lost;
use crate::summary::settings_record;
use crate::verdict::SAMPLES_BEYOND;

/// Wider than this share of the capacity, an interval is of little use.
const WIDE_RATIO: f64 = 0.2;

impl Trail {
    /// The record of the search that `capacity` described, from `begin` to `end_ns`.
    pub fn record(
        self,
        capacity: &Capacity,
        command: Vec<String>,
        begin: Clock,
        end_ns: u64,
    ) -> CapacityResult {
        let answer = self.search.as_ref().map(super::search::Search::answer);
        let interval = answer.as_ref().and_then(interval);
        let word = word(self.end, interval.as_ref());
        let checks = checks(capacity, &self, answer.as_ref(), word);
        let estimate_per_s = answer.as_ref().and_then(|answer| answer.estimate_per_s);
        let ended = sentence(&self);
        let io = self.io.as_deref().unwrap_or("none");
        CapacityResult {
            kind: Kind::of::<CapacityResult>(),
            tool: Tool {
                name: "steelyard-load".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            command,
            clock: begin,
            settings: steelyard_record::LoadSettings {
                rate_per_s: None,
                ..settings_record(&capacity.settings, io)
            },
            slo: capacity.slo.to_string(),
            begin_ns: begin.monotonic_ns,
            end_ns,
            interrupted: matches!(self.end, End::Interrupted | End::HostLost),
            closed_loop: self.closed_loop,
            interval,
            estimate_per_s,
            spread_ratio: estimate_per_s.and(answer.map(|answer| answer.spread_ratio)),
            answer: word.to_owned(),
            ended,
            verdict: Verdict::of(checks),
            probes: self.probes,
        }
    }
}

fn interval(answer: &Answer) -> Option<CapacityInterval> {
    let low_per_s = answer.low_per_s?;
    let edge = |edge: Edge| CapacityEdge {
        rate_per_s: edge.rate_per_s,
        repeats: edge.repeats as u32,
        agreed: edge.agreed as u32,
        confirmed: edge.is_confirmed(),
    };
    Some(CapacityInterval {
        low_per_s: Some(low_per_s),
        high_per_s: answer.high_per_s,
        confidence: answer.confidence,
        low_edge: answer.edges.map(|(low, _)| edge(low)),
        high_edge: answer
            .edges
            .filter(|_| answer.high_per_s.is_some())
            .map(|(_, high)| edge(high)),
    })
}

fn word(end: End, interval: Option<&CapacityInterval>) -> &'static str {
    match (end, interval) {
        (End::Search(Ended::NeverMet), _) => "never",
        (_, Some(interval)) if interval.high_per_s.is_some() => "interval",
        (_, Some(_)) => "at-least",
        (_, None) => "unknown",
    }
}

fn sentence(trail: &Trail) -> String {
    if let Some(Lost { host, why }) = &trail.host {
        return format!("Host {host} was lost: {why}.");
    }
    match trail.end {
        End::Search(Ended::Confirmed) => {
            "Both ends are confirmed, and the interval is narrow enough."
        }
        End::Search(Ended::ProbesUsed)
            if trail.probes.iter().all(|probe| probe.outcome == "met") =>
        {
            "All probes are used, and every one met the objective."
        }
        End::Search(Ended::ProbesUsed) => "All probes are used.",
        End::Search(Ended::NeverMet) => "The objective is not met at any rate that was offered.",
        End::Search(Ended::GeneratorBound) => {
            "The generator can offer no more than the server takes."
        }
        End::Interrupted => "The search was stopped before its time.",
        End::HostLost => "A host was lost.",
        End::Lost => "The server has stopped answering.",
    }
    .to_owned()
}

fn check(
    id: &str,
    bad: Level,
    fails: bool,
    claim: String,
    value: Option<f64>,
    bound: Option<f64>,
) -> Check {
    Check {
        id: id.to_owned(),
        level: if fails { bad } else { Level::Valid },
        claim,
        unit: value.map(|_| "1".to_owned()),
        value,
        bound,
    }
}

fn checks(capacity: &Capacity, trail: &Trail, answer: Option<&Answer>, word: &str) -> Vec<Check> {
    let whole = matches!(trail.end, End::Search(_));
    let claim = sentence(trail);
    let mut checks = vec![check("whole", Level::Invalid, !whole, claim, None, None)];
    let Some(answer) = answer.filter(|_| word == "interval" || word == "at-least") else {
        return checks;
    };
    if word == "at-least" {
        let claim =
            "No probe showed the limit of the server: its capacity is at least the lower end.";
        checks.push(check(
            "generator-bound",
            Level::Suspect,
            true,
            claim.to_owned(),
            None,
            None,
        ));
    } else {
        checks.push(confidence(capacity, answer));
        checks.push(edges(answer));
        checks.extend(width(answer));
    }
    checks.push(samples(capacity, answer));
    checks.push(monotone(trail, answer));
    checks
}

fn confidence(capacity: &Capacity, answer: &Answer) -> Check {
    let claim = format!(
        "The capacity lies in the interval with a probability of {:.1} %.",
        answer.confidence * 100.0
    );
    let (value, bound) = (Some(answer.confidence), Some(capacity.confidence));
    // The interval is cut on a grid.
    let fails = answer.confidence < capacity.confidence - 0.001;
    check("confidence", Level::Suspect, fails, claim, value, bound)
}

fn edges(answer: &Answer) -> Check {
    let (low, high) = answer.edges.map_or((false, false), |(low, high)| {
        (low.is_confirmed(), high.is_confirmed())
    });
    let claim = match (low, high) {
        (true, true) => "Fresh probes confirmed both ends.",
        (true, false) => "Fresh probes confirmed the lower end, not the upper.",
        (false, true) => "Fresh probes confirmed the upper end, not the lower.",
        (false, false) => "No fresh probes confirmed the ends.",
    };
    check(
        "edges",
        Level::Suspect,
        !(low && high),
        claim.to_owned(),
        None,
        None,
    )
}

fn width(answer: &Answer) -> Option<Check> {
    let (low, high) = (answer.low_per_s?, answer.high_per_s?);
    let ratio = (high - low) / answer.estimate_per_s?;
    let claim = format!(
        "The interval is {:.1} % of the capacity wide; longer probes make it narrower.",
        ratio * 100.0
    );
    Some(check(
        "width",
        Level::Suspect,
        ratio > WIDE_RATIO,
        claim,
        Some(ratio),
        Some(WIDE_RATIO),
    ))
}

fn samples(capacity: &Capacity, answer: &Answer) -> Check {
    let rate = answer.estimate_per_s.or(answer.low_per_s).unwrap_or(0.0);
    let requests = rate * capacity.settings.duration_ns as f64 / 1e9;
    let needed = SAMPLES_BEYOND as f64 / capacity.slo.rarest_ratio().unwrap_or(0.01);
    let claim = format!("A probe makes {requests:.0} requests; the objective needs {needed:.0}.");
    check(
        "samples",
        Level::Suspect,
        requests < needed,
        claim,
        Some(requests),
        Some(needed),
    )
}

/// Whether a probe far below one that met the objective did not.
fn monotone(trail: &Trail, answer: &Answer) -> Check {
    let seen = trail
        .search
        .as_ref()
        .map_or(&[][..], |search| search.seen());
    let far = 1.0 + 4.0 * answer.spread_ratio;
    let upside_down = seen.iter().filter(|unmet| {
        unmet.said.met_probability < 0.05
            && seen.iter().any(|met| {
                met.said.met_probability > 0.95 && met.rate_per_s > unmet.rate_per_s * far
            })
    });
    let count = upside_down.count();
    let claim = if count == 0 {
        "No probe contradicts one at a higher rate."
    } else {
        "A probe did not meet the objective that a higher rate met: something else disturbed it, or the server is slower under less load."
    };
    check(
        "monotone",
        Level::Suspect,
        count > 0,
        claim.to_owned(),
        Some(count as f64),
        Some(0.0),
    )
}
