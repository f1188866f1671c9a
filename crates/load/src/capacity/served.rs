//! How much a load completed, and what that says of the server.
//!
//! While requests wait all the time, a server completes what it can in all, and the counts of equal windows scatter
//! by how much services vary. Both bound the capacity: it lies below what is served in all, by more the more
//! arrivals and services vary (in heavy traffic the wait's mean is the sum of their indices of dispersion over twice
//! the idle share; Kingman 1961; Whitt 2002). Such counts are much surer than the share of slow
//! requests, which a queue near its limit shows only after many seconds.
//!
//! In: the counts of a probe in batches. Out: [`Served`], and its likelihood on a curve. Not here: a server that
//! completes less under overload than at its capacity ([`super::collapse`]).

use super::curve::{Bound, Curve};
use super::evidence::{Counted, Counts};

/// Share of slow requests from which on a batch shows that requests waited all the time.
const WAITING: f64 = 0.9;
/// Windows needed for their scatter to tell.
const WINDOWS: usize = 4;
/// What else differs between loads, as a ratio.
const ELSE_RATIO: f64 = 0.02;
/// How far the variance of services may be from that of the theory, and how likely that is thought.
const SLACK: [(f64, f64); 3] = [(0.5, 0.25), (1.0, 0.5), (2.0, 0.25)];
/// Likelihood of any scatter where it says nothing of the curve.
const UNINFORMATIVE: f64 = 0.3;
/// Indices of dispersion: of Poisson arrivals, and the least of services.
const ARRIVALS: f64 = 1.0;
const LEAST: f64 = 0.25;

/// What a load completed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Served {
    /// Completed requests.
    pub completed: f64,
    /// Completed per second.
    pub per_s: f64,
    /// Whether requests waited all that time, so that this is all that the server can do.
    pub busy: bool,
    /// The same for the later half of that time: what it completes once it has been overloaded for a while.
    pub late_completed: f64,
    /// Completed per second in that half.
    pub late_per_s: f64,
    /// Windows of equal length in that time, and their index of dispersion: variance over mean.
    pub windows: usize,
    /// Index of dispersion of the counts of the windows.
    pub dispersion: f64,
    /// How the counts of its batches follow each other.
    pub course: Course,
}

/// How what is served in one batch follows what was served in the batch before.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Course {
    /// Batches.
    pub batches: f64,
    /// Sums of the squares of their deviations from the mean, and of products of neighbours.
    pub squares: f64,
    /// Sum of the products of neighbouring deviations.
    pub products: f64,
    /// Requests, and batches, below the mean; and length of a batch.
    pub slow: (f64, f64),
    /// The same above it.
    pub fast: (f64, f64),
    /// Length of a batch.
    pub batch_s: f64,
}

/// A server whose speed changes while it is loaded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Changing {
    /// What it serves while it is slow.
    pub slow_per_s: f64,
    /// What it serves while it is fast.
    pub fast_per_s: f64,
    /// How long a speed lasts, about.
    pub lasts_s: f64,
}

/// Standard deviations by which neighbours must be alike, and by how much counts must scatter, for a speed to change.
const ALIKE: f64 = 2.5;
const SCATTER: f64 = 2.0;

/// Whether the server's speed changes within loads, by all batches in which requests waited all the time.
pub fn changing<'a>(served: impl Iterator<Item = &'a Served>) -> Option<Changing> {
    let mut all = Course::default();
    let (mut completed, mut length_s) = (0.0, 0.0);
    for one in served.filter(|one| one.busy) {
        let course = one.course;
        all.batches += course.batches;
        all.squares += course.squares;
        all.products += course.products;
        all.slow = (
            all.slow.0 + course.slow.0,
            all.slow.1 + course.slow.1 * course.batch_s,
        );
        all.fast = (
            all.fast.0 + course.fast.0,
            all.fast.1 + course.fast.1 * course.batch_s,
        );
        length_s += course.batches * course.batch_s;
        completed += one.completed;
    }
    if all.batches < 8.0 || completed <= 0.0 || all.squares <= 0.0 {
        return None;
    }
    let alike = all.products / all.squares;
    // Squares are of counts of a batch, whose mean is this.
    let mean = completed / all.batches;
    let scatter = all.squares / all.batches / mean;
    if alike * all.batches.sqrt() < ALIKE || scatter < SCATTER {
        return None;
    }
    let batch_s = length_s / all.batches;
    Some(Changing {
        slow_per_s: all.slow.0 / all.slow.1.max(1e-9),
        fast_per_s: all.fast.0 / all.fast.1.max(1e-9),
        // Of two states in turn, the autocorrelation falls as exp(-2 t / length).
        lasts_s: 2.0 * batch_s / -alike.clamp(0.05, 0.95).ln(),
    })
}

impl Course {
    fn of(runs: &[&[Counts]], per_batch: f64, batch_s: f64) -> Self {
        let mut course = Self {
            batch_s,
            ..Self::default()
        };
        for run in runs {
            let off: Vec<f64> = run
                .iter()
                .map(|batch| batch.completed as f64 - per_batch)
                .collect();
            course.batches += off.len() as f64;
            course.squares += off.iter().map(|off| off * off).sum::<f64>();
            course.products += off.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>();
            for off in off {
                let side = if off < 0.0 {
                    &mut course.slow
                } else {
                    &mut course.fast
                };
                side.0 += off + per_batch;
                side.1 += 1.0;
            }
        }
        course
    }
}

fn waited(batch: &Counts) -> bool {
    let slow = batch.beyond.iter().copied().min().unwrap_or(0);
    batch.completed > 0 && slow as f64 >= WAITING * batch.completed as f64
}

impl Served {
    /// What a probe of `measure_s` completed: while requests waited all the time if it has so much, else in all.
    pub fn of(counted: &Counted, measure_s: f64, bound: &Bound) -> Self {
        let batch_s = measure_s / counted.batches.len().max(1) as f64;
        let runs: Vec<&[Counts]> = counted
            .batches
            .split(|batch| !waited(batch))
            .filter(|run| run.len() > 1)
            .collect();
        let batches: usize = runs.iter().map(|run| run.len()).sum();
        let sum =
            |batches: &[Counts]| batches.iter().map(|batch| batch.completed).sum::<u64>() as f64;
        if batches < WINDOWS {
            let all = sum(&counted.batches);
            return Self {
                completed: all,
                per_s: all / measure_s,
                late_completed: all,
                late_per_s: all / measure_s,
                ..Self::default()
            };
        }
        let completed: f64 = runs.iter().map(|run| sum(run)).sum();
        let last = runs.last().map_or(&[][..], |run| &run[run.len() / 2..]);
        let late = sum(last);
        let busy = Self {
            late_completed: late,
            late_per_s: late / (last.len().max(1) as f64 * batch_s),
            completed,
            per_s: completed / (batches as f64 * batch_s),
            busy: true,
            course: Course::of(&runs, completed / batches as f64, batch_s),
            ..Self::default()
        };
        // Windows as long as the bound, or as long as there are enough of them.
        let mut length = (bound.at_most_s / batch_s).ceil().max(1.0) as usize;
        loop {
            let counts: Vec<f64> = runs
                .iter()
                .flat_map(|run| run.chunks_exact(length))
                .map(sum)
                .collect();
            let n = counts.len() as f64;
            if counts.len() >= WINDOWS {
                let mean = counts.iter().sum::<f64>() / n;
                let squares: f64 = counts.iter().map(|count| (count - mean).powi(2)).sum();
                return Self {
                    windows: counts.len(),
                    dispersion: squares / (n - 1.0) / mean.max(1e-9),
                    ..busy
                };
            }
            if length == 1 {
                return busy;
            }
            length = (length / 2).max(1);
        }
    }

    /// How likely this is at `rate_per_s` on a curve where the server serves `room` more than that in all, as a
    /// logarithm; relative to the likeliest.
    pub fn likelihood(&self, rate_per_s: f64, room: f64, curve: &Curve, bound: &Bound) -> f64 {
        let all_per_s = rate_per_s * room.exp();
        let services = (curve.variability(bound, all_per_s) - ARRIVALS).max(LEAST);
        let mean = if self.busy { room } else { room.min(0.0) };
        let arrivals = if self.busy { 0.0 } else { ARRIVALS };
        let error = ((services + arrivals) / self.completed.max(1.0) + ELSE_RATIO.powi(2)).sqrt();
        let z = ((self.per_s / rate_per_s).max(1e-9).ln() - mean) / error;
        let count = (-0.5 * z * z).exp() / error;
        if self.windows < WINDOWS {
            return count;
        }
        if curve.headroom > 1.0 {
            // What makes it slow before it is busy is not its scatter.
            return count * UNINFORMATIVE;
        }
        let freedom = self.windows as f64 - 1.0;
        let scatter = |slack: f64| {
            let x = self.dispersion.max(1e-3) / (services * slack);
            (0.5 * freedom * (x.ln() + 1.0 - x)).exp()
        };
        count
            * SLACK
                .iter()
                .map(|(slack, weight)| weight * scatter(*slack))
                .sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    const BOUND: Bound = Bound {
        ratio: 0.05,
        at_most_s: 0.5,
    };

    /// Batches of half a second, all of whose requests waited, from the rates of each.
    fn batches(rates: &[f64]) -> Counted {
        let mut random = Purpose::Requests.stream(5, 1);
        let mut batch = |rate: f64| {
            let (mut at, mut completed) = (random.exponential() / rate, 0);
            while at < 0.5 {
                completed += 1;
                at += random.exponential() / rate;
            }
            Counts {
                completed,
                beyond: vec![completed],
                ..Counts::default()
            }
        };
        Counted {
            batches: rates.iter().map(|&rate| batch(rate)).collect(),
            ..Counted::default()
        }
    }

    #[test]
    fn a_steady_server_is_distinguished_from_one_whose_speed_changes() {
        let steady = Served::of(&batches(&[500.0; 40]), 20.0, &BOUND);
        assert!(
            steady.busy && (0.4..2.0).contains(&steady.dispersion),
            "{steady:?}"
        );
        assert_eq!(changing([&steady].into_iter()), None);
        let states: Vec<f64> = (0..40).map(|at| [500.0, 300.0][at / 10 % 2]).collect();
        let changes = Served::of(&batches(&states), 20.0, &BOUND);
        let found = changing([&changes].into_iter()).unwrap();
        assert!(
            (found.slow_per_s - 300.0).abs() < 20.0 && (found.fast_per_s - 500.0).abs() < 20.0,
            "{found:?}"
        );
        assert!((2.0..12.0).contains(&found.lasts_s), "{found:?}");
    }

    #[test]
    fn a_load_without_waiting_says_only_that_so_much_is_served() {
        let mut counted = batches(&[100.0; 20]);
        for batch in &mut counted.batches {
            batch.beyond[0] = 0;
        }
        let served = Served::of(&counted, 10.0, &BOUND);
        let curve = Curve {
            slope: 48.0,
            base_ratio: 0.0,
            patience: 1.0,
            headroom: 1.0,
        };
        let likely = |room| served.likelihood(100.0, room, &curve, &BOUND);
        assert!(
            !served.busy && likely(0.5) > 0.99 * likely(0.2) && likely(-0.3) < 0.01 * likely(0.2)
        );
    }
}
