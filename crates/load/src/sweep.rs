//! Latency over throughput: one load at each of several rates, up to and past what the server can do.
//!
//! In: settings of a load, rates or a number of points. Out: a [`SweepResult`], lowest rate first. The rates are
//! offered in an order shuffled by the seed, so that a machine that warms up or fills up while the sweep goes on
//! does not bend the curve; ascending order is for servers that an overload leaves in another state.
//!
//! Not here: which rate is the highest that meets an objective ([`crate::capacity`]).

use std::sync::atomic::{AtomicBool, Ordering};

use steelyard_record::{
    Bounds, Check, Clock, Kind, Level, LoadSettings, SweepPoint, SweepResult, Tool, Verdict,
    monotonic_ns,
};

use crate::LoadError;
use crate::offer::{Lost, Offer, Offered, busy_ratio, is_there};
use crate::progress::Progress;
use crate::random::Purpose;
use crate::settings::Settings;
use crate::slo::Slo;
use crate::summary::settings_record;

/// Highest rate of a sweep whose rates follow from a closed loop, as a share of its throughput.
const PAST: f64 = 1.15;
/// Where the points are, when a closed loop says what can be done: closer together near the end.
const BEND: f64 = 0.7;

/// What a sweep is to be.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// The load; its rate is replaced.
    pub settings: Settings,
    /// Rates to offer; empty: `points` rates up to a little more than a closed loop completes.
    pub rates_per_s: Vec<f64>,
    /// How many, when no rates are given.
    pub points: usize,
    /// Whether the rates are offered in ascending order.
    pub ascending: bool,
}

/// How a sweep ended.
#[derive(Debug)]
pub struct Swept {
    /// The record, with the points that were measured.
    pub result: SweepResult,
    /// Whether the server has gone before the end.
    pub lost: bool,
    /// The host that has gone before the end.
    pub host: Option<Lost>,
}

/// How far a sweep has come.
#[derive(Debug, Default)]
struct Course {
    /// How bytes were moved; None before the first load.
    io: Option<String>,
    /// What the closed loop completed, if there was one.
    closed_loop_per_s: Option<f64>,
    /// The points that were measured, in the order in which their rates were offered.
    points: Vec<SweepPoint>,
    /// Whether it was interrupted.
    interrupted: bool,
    /// Whether the server has gone.
    lost: bool,
    /// The host that has gone.
    host: Option<Lost>,
}

impl Sweep {
    /// Refuses what cannot be swept.
    pub fn check(&self) -> Result<(), LoadError> {
        let wrong = |name, why: &str| Err(LoadError::setting(name, why));
        let usable = |rate: &f64| rate.is_finite() && *rate > 0.0 && *rate <= 1e9;
        if !self.rates_per_s.iter().all(usable) {
            return wrong("--rates", "must be above 0 and at most 1e9 per second");
        }
        if self.rates_per_s.is_empty() && !(2..=1000).contains(&self.points) {
            return wrong("--points", "must be between 2 and 1000");
        }
        if self.settings.arrival.mean_rate_per_s().is_some() {
            return wrong("--arrival", "must be constant or poisson in a sweep");
        }
        self.settings.check()
    }

    /// Runs the sweep. An error is one of the first load; later ones end the sweep.
    pub fn run(
        &self,
        offer: &mut dyn Offer,
        stop: &AtomicBool,
        progress: Progress,
        command: Vec<String>,
    ) -> Result<Swept, LoadError> {
        self.check()?;
        let clock = Clock::now();
        let mut course = Course::default();
        let rates = if self.rates_per_s.is_empty() {
            self.explore(offer, &progress, &mut course)?
        } else {
            self.rates_per_s.clone()
        };
        self.follow(rates, offer, stop, &progress, &mut course)?;
        Ok(self.conclude(course, clock, command))
    }

    /// Lets a closed loop say what can be done, and spreads the rates over it.
    fn explore(
        &self,
        offer: &mut dyn Offer,
        progress: &Progress,
        course: &mut Course,
    ) -> Result<Vec<f64>, LoadError> {
        let offered = offer.offer(&self.closed(), &Slo::nothing())?;
        let throughput_per_s = offered.result.throughput_per_s;
        course.io = Some(offered.result.settings.io);
        course.interrupted = offered.result.interrupted;
        course.host = offered.lost;
        progress.closed_loop(throughput_per_s);
        course.closed_loop_per_s = Some(throughput_per_s);
        let rates = spread(throughput_per_s, self.points);
        course.lost = rates.is_empty() && course.host.is_none();
        Ok(rates)
    }

    /// Offers one rate after the other, until the last or until the course has ended before it.
    fn follow(
        &self,
        rates: Vec<f64>,
        offer: &mut dyn Offer,
        stop: &AtomicBool,
        progress: &Progress,
        course: &mut Course,
    ) -> Result<(), LoadError> {
        for (position, rate_per_s) in self.ordered(rates).into_iter().enumerate() {
            if course.interrupted || course.lost || stop.load(Ordering::Relaxed) {
                course.interrupted |= !course.lost;
                break;
            }
            let settings = self.open(rate_per_s, position, course.io.is_none());
            let offered = match offer.offer(&settings, &Slo::nothing()) {
                Ok(offered) => offered,
                Err(error) if course.io.is_some() && error.is_unreachable() => {
                    course.lost = true;
                    break;
                }
                Err(LoadError::Host { host, why }) if course.io.is_some() => {
                    (course.interrupted, course.host) = (true, Some(Lost { host, why }));
                    break;
                }
                Err(error) => return Err(error),
            };
            course.interrupted = offered.result.interrupted;
            if offered.lost.is_some() {
                course.host = offered.lost;
                break;
            }
            course.io = Some(offered.result.settings.io.clone());
            course.lost = offered.counted.whole.completed == 0 && !is_there(&self.settings);
            if !course.interrupted && !course.lost {
                let point = point(position, rate_per_s, offered);
                progress.point(&point);
                course.points.push(point);
            }
        }
        Ok(())
    }

    fn conclude(&self, mut course: Course, clock: Clock, command: Vec<String>) -> Swept {
        course
            .points
            .sort_by(|a, b| a.rate_per_s.total_cmp(&b.rate_per_s));
        let verdict = verdict(&course);
        let io = course.io.as_deref().unwrap_or("none");
        let result = SweepResult {
            kind: Kind::of::<SweepResult>(),
            tool: Tool {
                name: "steelyard-load".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            command,
            clock,
            settings: LoadSettings {
                rate_per_s: None,
                ..settings_record(&self.settings, io)
            },
            order: if self.ascending {
                "ascending"
            } else {
                "shuffled"
            }
            .to_owned(),
            begin_ns: clock.monotonic_ns,
            end_ns: monotonic_ns(),
            interrupted: course.interrupted,
            closed_loop_per_s: course.closed_loop_per_s,
            points: course.points,
            verdict,
        };
        Swept {
            result,
            lost: course.lost,
            host: course.host,
        }
    }

    fn closed(&self) -> Settings {
        Settings {
            rate_per_s: None,
            duration_ns: (self.settings.duration_ns / 2).max(1_000_000_000),
            ..self.settings.clone()
        }
    }

    fn open(&self, rate_per_s: f64, position: usize, first: bool) -> Settings {
        Settings {
            rate_per_s: Some(rate_per_s),
            seed: self.settings.seed.wrapping_add(position as u64 + 1),
            prefill: self.settings.prefill.filter(|_| first),
            ..self.settings.clone()
        }
    }

    /// The rates in the order in which they are offered.
    fn ordered(&self, mut rates: Vec<f64>) -> Vec<f64> {
        rates.sort_by(f64::total_cmp);
        if !self.ascending {
            let mut random = Purpose::Arrivals.stream(self.settings.seed, 1 << 41);
            for last in (1..rates.len()).rev() {
                rates.swap(last, random.below(last as u64 + 1) as usize);
            }
        }
        rates
    }
}

/// Rates from a tenth of what a closed loop completed to a little more; none when it completed nothing.
fn spread(throughput_per_s: f64, points: usize) -> Vec<f64> {
    if throughput_per_s <= 0.0 {
        return Vec::new();
    }
    let (first, last) = (0.1 * throughput_per_s, PAST * throughput_per_s);
    let share = |index: usize| (index as f64 / (points - 1) as f64).powf(BEND);
    (0..points)
        .map(|index| first + (last - first) * share(index))
        .collect()
}

fn point(position: usize, rate_per_s: f64, offered: Offered) -> SweepPoint {
    let result = offered.result;
    SweepPoint {
        position: position as u32,
        rate_per_s,
        begin_ns: result.begin_ns,
        end_ns: result.end_ns,
        busy_ratio: busy_ratio(&result),
        requests: result.requests,
        offered_per_s: result.offered_per_s.unwrap_or(rate_per_s),
        throughput_per_s: result.throughput_per_s,
        achieved_ratio: result.achieved_ratio.unwrap_or(0.0),
        latency: result.latency,
        verdict: result.verdict,
    }
}

/// At how many points more requests failed than may.
fn errors(points: &[SweepPoint]) -> Check {
    let failed = points.iter().filter(|point| {
        let mut checks = point.verdict.checks.iter();
        let is_silent = point.requests.completed == 0 && point.requests.intended > 0;
        is_silent || checks.any(|check| check.id == "errors" && check.level == Level::Invalid)
    });
    let failed = failed.count();
    let (level, claim) = match failed {
        0 => (
            Level::Valid,
            "Hardly a request failed at any rate.".to_owned(),
        ),
        // Beyond its capacity a server may refuse.
        _ if failed < points.len() => (
            Level::Valid,
            format!(
                "At {failed} of {} rates more requests failed than may, or none was answered.",
                points.len()
            ),
        ),
        _ => (
            Level::Invalid,
            "At every rate more requests failed than may, or none was answered.".to_owned(),
        ),
    };
    // Invalid only where it is every rate.
    let bounds = Bounds {
        invalid: Some(points.len().saturating_sub(1) as f64),
        ..Bounds::default()
    };
    let check = Check::stated("rates-errors", level, claim);
    check.of(failed as f64).within(bounds)
}

fn verdict(course: &Course) -> Verdict {
    let invalid = |claim: &str| (Level::Invalid, claim.to_owned());
    let (level, claim) = match (&course.host, course.interrupted, course.lost) {
        (Some(Lost { host, why }), ..) => invalid(&format!("Host {host} was lost: {why}.")),
        (_, _, true) => invalid("The server has stopped answering."),
        (_, true, _) => invalid("The sweep was interrupted."),
        _ => (Level::Valid, "Every rate was offered.".to_owned()),
    };
    Verdict::of(vec![
        Check::stated("whole", level, claim),
        errors(&course.points),
        of_points(
            "rates-generator-bound",
            &course.points,
            "The generator kept up at every rate.",
            "the generator was at its limit: these points do not show the server",
        ),
        of_points(
            "rates-generator-late",
            &course.points,
            "The generator noticed due requests in time at every rate.",
            "the generator noticed due requests late, which adds to their latency",
        ),
        of_points(
            "rates-generator-lag",
            &course.points,
            "Little of the response time was spent in the generator at any rate.",
            "much of the response time was spent in the generator",
        ),
        of_points(
            "rates-samples",
            &course.points,
            "Every rate has requests enough for its 99th percentile.",
            "there are too few requests for the 99th percentile",
        ),
    ])
}

/// At how many points the check fails that `id` is named after, which no overload of the server explains: suspect,
/// and invalid where it makes every point invalid.
fn of_points(id: &str, points: &[SweepPoint], good: &str, bad: &str) -> Check {
    let of_a_point = id.trim_start_matches("rates-");
    let level_of = |point: &SweepPoint| {
        let mut checks = point.verdict.checks.iter();
        checks
            .find(|check| check.id == of_a_point)
            .map_or(Level::Valid, |check| check.level)
    };
    let count =
        |fails: fn(Level) -> bool| points.iter().filter(|point| fails(level_of(point))).count();
    let doubtful = count(|level| level != Level::Valid);
    let lost = count(|level| level == Level::Invalid);
    let (level, claim) = match doubtful {
        0 => (Level::Valid, good.to_owned()),
        _ => (
            if lost == points.len() {
                Level::Invalid
            } else {
                Level::Suspect
            },
            format!("At {doubtful} of {} rates {bad}.", points.len()),
        ),
    };
    Check::stated(id, level, claim).of(doubtful as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubts_of_points_are_those_of_the_sweep() {
        let golden = include_str!("../../../schemas/golden/sweep_result.json");
        let mut swept: SweepResult = serde_json::from_str(golden).unwrap();
        let mut course = Course::default();
        let mut levels = Vec::new();
        for of_the_points in [
            [Level::Valid, Level::Valid],
            [Level::Suspect, Level::Valid],
            [Level::Suspect, Level::Invalid],
            [Level::Invalid, Level::Invalid],
        ] {
            let point = swept.points[0].clone();
            swept.points = of_the_points
                .map(|level| {
                    let mut point = point.clone();
                    let mut check = point.verdict.checks[0].clone();
                    (check.id, check.level) = ("samples".to_owned(), level);
                    point.verdict = Verdict::of(vec![check]);
                    point
                })
                .to_vec();
            course.points = swept.points.clone();
            let verdict = verdict(&course);
            let mut checks = verdict.checks.iter();
            let samples = checks.find(|check| check.id == "rates-samples");
            levels.push((samples.unwrap().level, verdict.level));
        }
        let (valid, suspect, invalid) = (Level::Valid, Level::Suspect, Level::Invalid);
        let expected = [valid, suspect, suspect, invalid].map(|level| (level, level));
        assert_eq!(levels, expected);
    }

    #[test]
    fn rates_reach_past_the_throughput_and_lie_closer_near_it() {
        let rates = spread(1000.0, 8);
        assert_eq!(rates.len(), 8);
        assert!((rates[0] - 100.0).abs() < 1e-9 && (rates[7] - 1150.0).abs() < 1e-9);
        let steps: Vec<f64> = rates.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps.windows(2).all(|pair| pair[1] < pair[0]), "{steps:?}");
        assert!(spread(0.0, 8).is_empty());
    }
}
