//! The record of a search: its answer in words, and the checks of its verdict.

use steelyard_record::{
    Bounds, CapacityChanging, CapacityCollapse, CapacityInterval, CapacityPoint, CapacityResult,
    CapacityTried, Check, Clock, Kind, Level, Tool, Verdict,
};

use super::collapse::Overload;
use super::measure::{Capacity, End, Trail};
use super::search::{Answer, Ended, Purpose, Search, Unable};
use crate::offer::Lost;
use crate::summary::settings_record;

/// Points of the fitted curve.
const POINTS: usize = 40;

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
            time_s: Some(capacity.time_s()),
            collapse: answer.and_then(collapse),
            changing: answer.and_then(changing),
            tried: self.search.as_ref().zip(answer).map(tried),
            curve: self
                .search
                .as_ref()
                .filter(|_| {
                    word == "interval" && answer.is_some_and(|one| one.collapse().is_none())
                })
                .map_or_else(Vec::new, curve),
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
    Some(CapacityInterval {
        low_per_s: Some(answer.low_per_s?),
        high_per_s: answer.high_per_s,
        confidence: answer.confidence,
        low_edge: None,
        high_edge: None,
    })
}

fn collapse(answer: Answer) -> Option<CapacityCollapse> {
    let collapse = answer.collapse()?;
    Some(CapacityCollapse {
        held_per_s: collapse.held_per_s,
        lost_per_s: collapse.lost_per_s,
        served_per_s: collapse.served_per_s,
        back_per_s: collapse.back_per_s,
    })
}

fn changing(answer: Answer) -> Option<CapacityChanging> {
    let changing = answer.changing?;
    Some(CapacityChanging {
        slow_per_s: changing.slow_per_s,
        fast_per_s: changing.fast_per_s,
        lasts_s: changing.lasts_s,
    })
}

fn tried((search, answer): (&Search, Answer)) -> CapacityTried {
    let unloaded = |met| {
        let mut seen = search.seen().iter();
        seen.any(|seen| seen.probe.purpose == Purpose::Unloaded && seen.judgement.met == met)
    };
    CapacityTried {
        met_per_s: answer.met_per_s,
        unmet_per_s: answer.unmet_per_s,
        unloaded_met: (unloaded(true) || unloaded(false)).then(|| unloaded(true)),
    }
}

/// The fitted curve over the rates that were probed and the interval, in equal ratios.
fn curve(search: &Search) -> Vec<CapacityPoint> {
    let rates = search.seen().iter().map(|seen| seen.probe.rate_per_s);
    let answer = search.answer();
    let rates: Vec<f64> = rates
        .chain(answer.low_per_s)
        .chain(answer.high_per_s)
        .collect();
    let low = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let high = rates.iter().copied().fold(0.0, f64::max);
    let point = |index: usize| {
        let rate_per_s = low * (high / low).powf(index as f64 / (POINTS - 1) as f64);
        let [low_ratio, ratio, high_ratio] = search.share_ratio(rate_per_s);
        CapacityPoint {
            rate_per_s,
            ratio,
            low_ratio,
            high_ratio,
        }
    };
    (0..POINTS).map(point).collect()
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
    let unable = trail
        .search
        .as_ref()
        .and_then(|search| search.answer().unable);
    match (trail.end, unable) {
        (
            End::Search(Ended::Used),
            Some(Unable::Short {
                probes,
                needed,
                measure_s,
            }),
        ) => {
            return format!(
                "There is no interval: this objective needs {needed} probes of {measure_s:.1} s each, and {probes} lasted so long. Give the search more time."
            );
        }
        (End::Search(Ended::Used), Some(Unable::Wide(factor))) => {
            return format!(
                "There is no interval: the capacity is known only to a factor of {factor:.1}. Give the search more time."
            );
        }
        _ => {}
    }
    match trail.end {
        End::Search(Ended::Narrow) => "The interval is narrow enough.",
        End::Search(Ended::Used) if trail.probes.iter().all(|probe| probe.outcome == "met") => {
            "All probes or all time is used, and every probe met the objective."
        }
        End::Search(Ended::Used) => "All probes or all time is used.",
        End::Search(Ended::NeverMet) if unloaded(trail) => {
            "The server does not meet the objective even at very low load."
        }
        End::Search(Ended::NeverMet) => "The objective was met at no offered rate.",
        End::Search(Ended::GeneratorBound) => "The generator reached its limit before the server.",
        End::Interrupted => "The search was interrupted.",
        End::HostLost => "A host was lost.",
        End::Lost => "The server has stopped answering.",
    }
    .to_owned()
}

fn unloaded(trail: &Trail) -> bool {
    let mut probes = trail.probes.iter();
    probes.any(|probe| probe.purpose == Purpose::Unloaded.name())
}

fn check(id: &str, bad: Level, fails: bool, claim: impl Into<String>) -> Check {
    Check::stated(id, if fails { bad } else { Level::Valid }, claim)
}

fn checks(capacity: &Capacity, trail: &Trail, answer: Option<&Answer>, word: &str) -> Vec<Check> {
    let whole = matches!(trail.end, End::Search(_));
    let claim = sentence(trail);
    let mut checks = vec![check("whole", Level::Invalid, !whole, claim)];
    if whole && word == "unknown" {
        let claim = sentence(trail);
        checks.push(check("no-interval", Level::Invalid, true, claim));
    }
    let Some(answer) = answer.filter(|_| word == "interval" || word == "at-least") else {
        return checks;
    };
    if word == "at-least" {
        checks.push(no_upper_end(trail.end, answer.unmet_per_s));
    } else {
        checks.push(confidence(capacity, answer));
        checks.extend(overloaded(answer));
        checks.extend(changes(answer));
        if answer.collapse().is_some() {
            // Why it is wide, and a lower rate fails, is said.
            return checks;
        }
        checks.push(tried_check(answer));
        checks.extend(width(answer));
    }
    checks.push(monotone(trail, answer));
    checks
}

/// Why there is a lower end alone: the generator, or probes that do not show the server's limit.
fn no_upper_end(end: End, unmet_per_s: Option<f64>) -> Check {
    let claim = |why: &str| {
        format!(
            "{why}, so that the limit of the server is not known: its capacity is at least the lower end."
        )
    };
    if matches!(end, End::Search(Ended::GeneratorBound)) {
        let claim = claim("The generator reached its limit");
        return check("generator-bound", Level::Suspect, true, claim);
    }
    let claim = claim(match unmet_per_s {
        None => "Every probe met the objective",
        Some(_) => "The probes are too few or too short",
    });
    check("no-limit", Level::Suspect, true, claim)
}

fn confidence(capacity: &Capacity, answer: &Answer) -> Check {
    let claim = format!(
        "The capacity lies in the interval with a probability of {:.1} %.",
        answer.confidence * 100.0
    );
    // The interval is cut on a grid.
    let fails = answer.confidence < capacity.confidence - 0.001;
    let bounds = Bounds {
        suspect: Some(capacity.confidence),
        ..Bounds::default()
    };
    check("confidence", Level::Suspect, fails, claim)
        .of(answer.confidence)
        .within(bounds)
}

/// Whether what was tried agrees with the interval: it is no contradiction that one probe of a noisy rate says
/// otherwise, but one far outside is.
fn tried_check(answer: &Answer) -> Check {
    let far = 1.0 + 2.0 * answer.spread_ratio;
    let (low, high) = (answer.low_per_s, answer.high_per_s);
    let above = answer.met_per_s > high.map(|high| high * far);
    let below = answer.unmet_per_s.is_some() && answer.unmet_per_s < low.map(|low| low / far);
    let claim = match (above, below) {
        (false, false) => "What the probes met and did not meet agrees with the interval.",
        (true, _) => "A probe met the objective far above the interval.",
        (false, true) => "A probe did not meet the objective far below the interval.",
    };
    check("tried", Level::Suspect, above || below, claim)
}

/// That the server answers less under overload than before it.
fn overloaded(answer: &Answer) -> Option<Check> {
    let claim = match answer.overload {
        Overload::Steady => return None,
        Overload::Suspected {
            held_per_s,
            served_per_s,
            ..
        } => format!(
            "The server may collapse under overload: it held {held_per_s:.1}/s, and completed {served_per_s:.1}/s when more was offered. Give the search more time."
        ),
        Overload::Collapsed(collapse) => {
            let back = collapse.back_per_s.map_or_else(
                || "No probe showed at which rate it comes back.".to_owned(),
                |back| format!("It came back at {back:.1}/s."),
            );
            format!(
                "The server collapses under overload: it held {:.1}/s, and completed {:.1}/s when more was offered. {back} Between the ends of the interval it depends on chance when it collapses.",
                collapse.held_per_s, collapse.served_per_s
            )
        }
    };
    Some(check("collapse", Level::Suspect, true, claim))
}

/// That its speed changes while it is loaded.
fn changes(answer: &Answer) -> Option<Check> {
    let changing = answer.changing?;
    let claim = format!(
        "The server's speed changes under load: {:.1}/s for a while, {:.1}/s for a while, each about {:.0} s. The interval reaches down to the slower speed. Give the search more time.",
        changing.slow_per_s, changing.fast_per_s, changing.lasts_s
    );
    Some(check("speed", Level::Suspect, true, claim))
}

fn width(answer: &Answer) -> Option<Check> {
    answer.width_ratio().map(width_check)
}

fn width_check(ratio: f64) -> Check {
    let claim = format!(
        "The interval is {:.1} % of the capacity wide; longer probes make it narrower.",
        ratio * 100.0
    );
    Check::measured("width", ratio, claim)
}

/// Whether a probe far below one that met the objective did not.
fn monotone(trail: &Trail, answer: &Answer) -> Check {
    let seen = trail
        .search
        .as_ref()
        .map_or(&[][..], |search| search.seen());
    let far = 1.0 + 4.0 * answer.spread_ratio;
    let upside_down = seen.iter().filter(|unmet| {
        unmet.judgement.met_probability < 0.05
            && seen.iter().any(|met| {
                met.judgement.met_probability > 0.95
                    && met.probe.rate_per_s > unmet.probe.rate_per_s * far
            })
    });
    let count = upside_down.count();
    let claim = if count == 0 {
        "No probe contradicts one at a higher rate."
    } else {
        "A probe did not meet the objective that a higher rate met: something else disturbed it, or the server is slower under less load."
    };
    Check::measured("monotone", count as f64, claim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_bound_only_where_it_reached_its_limit() {
        let used = End::Search(Ended::Used);
        let busy = no_upper_end(End::Search(Ended::GeneratorBound), Some(900.0));
        assert_eq!(busy.id, "generator-bound");
        let short = [no_upper_end(used, None), no_upper_end(used, Some(90.0))];
        assert!(
            short.iter().all(|check| check.id == "no-limit"),
            "{short:?}"
        );
        assert!(short[0].claim.starts_with("Every probe met"), "{short:?}");
        assert!(
            short[1].claim.starts_with("The probes are too few"),
            "{short:?}"
        );
    }

    #[test]
    fn an_interval_that_says_little_is_suspect_and_one_that_says_nothing_invalid() {
        let levels = [0.1, 0.2, 0.21, 0.4, 0.41, 0.63].map(|ratio| width_check(ratio).level);
        let (valid, suspect, invalid) = (Level::Valid, Level::Suspect, Level::Invalid);
        assert_eq!(levels, [valid, valid, suspect, suspect, invalid, invalid]);
    }
}
