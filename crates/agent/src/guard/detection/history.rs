//! The last minutes of every task on the machine: who had outliers, and whose usage went with them.
//!
//! In: samples in any order, and what is normal. Out: a task's outliers within the outlier window, and suspects
//! ranked over the correlation window.
//!
//! Invariants: a task's points are in the order of their windows and no window counts twice; nothing older than the longest of
//! the windows is kept; memory is bounded by [`TASKS`] and [`POINTS`].

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use super::evidence::{Bar, Evidence, Series, weigh};
use super::sample::TaskName;
use super::suspects::correlation;
use crate::rows::{JobClass, TaskSample};

/// Most tasks remembered at once.
pub const TASKS: usize = 20_000;
/// Most windows of all tasks remembered at once: 24 MiB. Two hours of 3,300 tasks, each minute.
pub const POINTS: usize = 400_000;

/// One window of one task.
#[derive(Debug, Clone, PartialEq)]
struct Point {
    start_unix_s: i64,
    usage: f64,
    /// The CPI, where it may be judged by.
    cpi: Option<f64>,
    outlier: bool,
    /// Last-level cache misses per second, where they are counted.
    misses: Option<f64>,
}

/// What is known of a task.
#[derive(Debug)]
struct Known {
    class: JobClass,
    cgroup: String,
    points: VecDeque<Point>,
}

/// A task that may be the cause, with the evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Suspect {
    /// The task.
    pub name: TaskName,
    /// Its class.
    pub class: JobClass,
    /// Path of its control group.
    pub cgroup: String,
    /// Its antagonist correlation with the victim.
    pub correlation: f64,
    /// Its mean usage over the windows in which the victim was an outlier, in CPU-s/s.
    pub usage_in_outliers: f64,
    /// Its evidence; None by the paper's rule.
    pub evidence: Option<Evidence>,
}

/// A task's outliers within the outlier window.
#[derive(Debug, Clone, PartialEq)]
pub struct Outliers {
    /// How many.
    pub count: usize,
    /// When the first of them began, in seconds of Unix time.
    pub first_start_unix_s: i64,
    /// When the last of them began.
    pub last_start_unix_s: i64,
    /// Mean CPI over them.
    pub cpi_mean: f64,
}

/// Why a sample was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The task already has a sample of this window.
    Duplicate,
    /// The window is older than what is kept.
    Late,
    /// There are too many tasks.
    Full,
}

/// The last minutes.
#[derive(Debug)]
pub struct History {
    tasks: HashMap<TaskName, Known>,
    /// Windows of all tasks.
    points: usize,
    keep_s: f64,
    newest_unix_s: Option<i64>,
}

impl History {
    /// An empty history that keeps `keep_s` seconds.
    pub fn new(keep_s: f64) -> Self {
        Self {
            tasks: HashMap::new(),
            points: 0,
            keep_s,
            newest_unix_s: None,
        }
    }

    /// Start of the newest window.
    pub fn newest_unix_s(&self) -> Option<i64> {
        self.newest_unix_s
    }

    #[cfg(test)]
    /// Tasks known.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Forgets everything, as after a clock that was set back.
    pub fn clear(&mut self) {
        self.tasks.clear();
        self.points = 0;
        self.newest_unix_s = None;
    }

    /// Takes a sample. `cpi` is its CPI if it may be judged by, `outlier` whether it lies above the threshold.
    pub fn add(
        &mut self,
        sample: &TaskSample,
        cpi: Option<f64>,
        outlier: bool,
    ) -> Result<(), Refused> {
        let start = sample.window_start_unix_s;
        if self
            .newest_unix_s
            .is_some_and(|newest| self.is_old(start, newest))
        {
            return Err(Refused::Late);
        }
        if self.points >= POINTS {
            return Err(Refused::Full);
        }
        let count = self.tasks.len();
        let known = match self.tasks.entry(TaskName::of(sample)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if count >= TASKS => return Err(Refused::Full),
            Entry::Vacant(place) => place.insert(Known {
                class: sample.task.job_class,
                cgroup: String::new(),
                points: VecDeque::new(),
            }),
        };
        let place = known
            .points
            .partition_point(|point| point.start_unix_s < start);
        if known
            .points
            .get(place)
            .is_some_and(|point| point.start_unix_s == start)
        {
            return Err(Refused::Duplicate);
        }
        known.points.insert(
            place,
            Point {
                start_unix_s: start,
                usage: sample.cpu_usage(),
                cpi,
                outlier,
                misses: sample
                    .llc_misses
                    .map(|misses| misses as f64 / sample.window_s),
            },
        );
        self.points += 1;
        if place + 1 == known.points.len() {
            // The newest window says what the task is now.
            known.class = sample.task.job_class;
            known.cgroup.clone_from(&sample.task.cgroup);
        }
        self.newest_unix_s = Some(self.newest_unix_s.map_or(start, |newest| newest.max(start)));
        Ok(())
    }

    fn is_old(&self, start: i64, newest: i64) -> bool {
        start as f64 <= newest as f64 - self.keep_s
    }

    /// Forgets what is older than is kept, and tasks of which nothing is left.
    pub fn prune(&mut self) {
        let Some(newest) = self.newest_unix_s else {
            return;
        };
        let oldest = newest as f64 - self.keep_s;
        let points = &mut self.points;
        self.tasks.retain(|_, known| {
            while known
                .points
                .front()
                .is_some_and(|point| point.start_unix_s as f64 <= oldest)
            {
                known.points.pop_front();
                *points -= 1;
            }
            !known.points.is_empty()
        });
    }

    /// The outliers of `name` in the `window_s` seconds up to the newest window that began after `since_unix_s`; None for none.
    pub fn outliers(
        &self,
        name: &TaskName,
        window_s: f64,
        since_unix_s: Option<i64>,
    ) -> Option<Outliers> {
        let from = self.newest_unix_s? as f64 - window_s;
        let found: Vec<(i64, f64)> = self
            .tasks
            .get(name)?
            .points
            .iter()
            .filter(|point| point.outlier && point.start_unix_s as f64 > from)
            .filter(|point| since_unix_s.is_none_or(|since| point.start_unix_s > since))
            .filter_map(|point| Some((point.start_unix_s, point.cpi?)))
            .collect();
        let (first, last) = (found.first()?, found.last()?);
        Some(Outliers {
            count: found.len(),
            first_start_unix_s: first.0,
            last_start_unix_s: last.0,
            cpi_mean: found.iter().map(|&(_, cpi)| cpi).sum::<f64>() / found.len() as f64,
        })
    }

    /// Every other task that used CPU time in the victim's windows of the last `window_s` seconds, the likeliest first.
    ///
    /// A task without a sample of a window did not run in it: its usage there is 0, which adds nothing. Windows in which the
    /// victim's CPI cannot be judged by are left out for all.
    pub fn suspects(&self, victim: &TaskName, window_s: f64, threshold: f64) -> Vec<Suspect> {
        let (Some(newest), Some(known)) = (self.newest_unix_s, self.tasks.get(victim)) else {
            return Vec::new();
        };
        let from = newest as f64 - window_s;
        let windows: Vec<(i64, f64, bool)> = known
            .points
            .iter()
            .filter(|point| point.start_unix_s as f64 > from)
            .filter_map(|point| Some((point.start_unix_s, point.cpi?, point.outlier)))
            .collect();
        let mut suspects: Vec<Suspect> = self
            .tasks
            .iter()
            .filter(|&(name, _)| name != victim)
            .filter_map(|(name, other)| {
                let aligned = aligned(&windows, &other.points);
                let points = aligned.iter().map(|&(cpi, usage, _)| (cpi, usage));
                let (sum, count) = aligned
                    .iter()
                    .filter(|point| point.2)
                    .fold((0.0, 0_usize), |(sum, count), point| {
                        (sum + point.1, count + 1)
                    });
                Some(Suspect {
                    name: name.clone(),
                    class: other.class,
                    cgroup: other.cgroup.clone(),
                    correlation: correlation(points, threshold)?,
                    usage_in_outliers: if count == 0 { 0.0 } else { sum / count as f64 },
                    evidence: None,
                })
            })
            .collect();
        suspects.sort_by(|one, other| {
            other
                .correlation
                .total_cmp(&one.correlation)
                .then_with(|| one.name.cmp(&other.name))
        });
        suspects
    }

    /// The suspects with the evidence for each over the last `evidence_s` seconds: those that it names first, then by their fit.
    ///
    /// The windows are the victim's; a task that began or ended between them uses nothing where it was not there.
    pub fn weighed(
        &self,
        victim: &TaskName,
        correlation_s: f64,
        evidence_s: f64,
        threshold: f64,
        bar: &Bar,
    ) -> Vec<Suspect> {
        let (Some(newest), Some(known)) = (self.newest_unix_s, self.tasks.get(victim)) else {
            return Vec::new();
        };
        let from = newest as f64 - evidence_s;
        let windows: Vec<&Point> = known
            .points
            .iter()
            .filter(|point| point.start_unix_s as f64 > from)
            .collect();
        let cpi: Vec<_> = windows.iter().map(|point| point.cpi).collect();
        let starts: Vec<_> = windows.iter().map(|point| point.start_unix_s).collect();
        // By name, so that the sums are added in the same order each time.
        let mut others: Vec<_> = self.tasks.iter().filter(|one| one.0 != victim).collect();
        others.sort_by_key(|one| one.0);
        let series: Vec<Series> = others
            .iter()
            .map(|(_, other)| series(&starts, &other.points))
            .collect();
        let mut found: HashMap<&TaskName, Evidence> = others
            .iter()
            .map(|one| one.0)
            .zip(weigh(&cpi, &series, threshold, bar))
            .collect();
        let mut suspects = self.suspects(victim, correlation_s, threshold);
        for suspect in &mut suspects {
            suspect.evidence = found.remove(&suspect.name);
        }
        let order = |suspect: &Suspect| {
            let evidence = suspect.evidence.as_ref();
            let named = evidence.is_some_and(|evidence| evidence.refusal.is_none());
            let fit = evidence.and_then(|evidence| evidence.fit);
            (named, fit.unwrap_or(f64::NEG_INFINITY))
        };
        suspects.sort_by(|one, other| {
            let (this, that) = (order(one), order(other));
            that.0
                .cmp(&this.0)
                .then(that.1.total_cmp(&this.1))
                .then_with(|| one.name.cmp(&other.name))
        });
        suspects
    }
}

/// A task in the windows that began at `starts`.
fn series(starts: &[i64], points: &VecDeque<Point>) -> Series {
    let mut next = 0;
    let found: Vec<Option<&Point>> = starts
        .iter()
        .map(|&start| {
            while points
                .get(next)
                .is_some_and(|point| point.start_unix_s < start)
            {
                next += 1;
            }
            points.get(next).filter(|point| point.start_unix_s == start)
        })
        .collect();
    let misses: Vec<_> = found
        .iter()
        .map(|point| point.and_then(|point| point.misses))
        .collect();
    Series {
        usage: found
            .iter()
            .map(|point| point.map(|point| point.usage))
            .collect(),
        misses: misses.iter().any(Option::is_some).then_some(misses),
    }
}

/// The victim's windows with another task's usage in each: CPI, usage, whether it was an outlier.
fn aligned(windows: &[(i64, f64, bool)], points: &VecDeque<Point>) -> Vec<(f64, f64, bool)> {
    let mut next = 0;
    windows
        .iter()
        .map(|&(start, cpi, outlier)| {
            while points
                .get(next)
                .is_some_and(|point| point.start_unix_s < start)
            {
                next += 1;
            }
            let usage = points
                .get(next)
                .filter(|point| point.start_unix_s == start)
                .map_or(0.0, |point| point.usage);
            (cpi, usage, outlier)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::guard::testing::{name, sample};

    const VICTIM: &str = "web";

    /// Six windows a minute apart: the hog runs in the odd ones, a steady task in all, an idle one in none.
    fn history() -> History {
        let mut history = History::new(600.0);
        for minute in 0..6 {
            let start = 1_000 + 60 * minute;
            let busy = minute % 2 == 1;
            let cpi = if busy { 4.0 } else { 1.0 };
            let victim = sample(VICTIM, JobClass::LatencySensitive, start, 0.5, Some(cpi));
            history.add(&victim, Some(cpi), busy).unwrap();
            if busy {
                let hog = sample("hog", JobClass::Batch, start, 0.9, None);
                history.add(&hog, None, false).unwrap();
            }
            let steady = sample("steady", JobClass::Batch, start, 0.4, None);
            history.add(&steady, None, false).unwrap();
            let idle = sample("idle", JobClass::Batch, start, 0.0, None);
            history.add(&idle, None, false).unwrap();
        }
        history
    }

    #[test]
    fn the_hog_comes_first_and_the_idle_task_not_at_all() {
        let suspects = history().suspects(&name(VICTIM), 600.0, 2.0);
        let ranking: Vec<_> = suspects
            .iter()
            .map(|suspect| (suspect.name.job.as_str(), suspect.correlation))
            .collect();
        assert_eq!(ranking, [("hog", 0.5), ("steady", 0.0)]);
        assert!((suspects[0].usage_in_outliers - 0.9).abs() < 1e-12);
    }

    #[test]
    fn outliers_are_those_of_the_window_and_after_what_was_dealt_with() {
        let history = history();
        let all = history.outliers(&name(VICTIM), 300.0, None).unwrap();
        assert_eq!((all.count, all.first_start_unix_s), (3, 1_060));
        assert_eq!(all.last_start_unix_s, 1_300);
        assert_eq!(all.cpi_mean, 4.0);
        // Five minutes are five windows of a minute: the one that began 240 s before the newest is out of 240 s.
        assert_eq!(
            history.outliers(&name(VICTIM), 240.0, None).unwrap().count,
            2
        );
        let later = history.outliers(&name(VICTIM), 300.0, Some(1_060)).unwrap();
        assert_eq!(later.count, 2);
        assert_eq!(history.outliers(&name(VICTIM), 300.0, Some(1_300)), None);
        assert_eq!(history.outliers(&name("hog"), 300.0, None), None);
    }

    #[test]
    fn a_window_counts_once_and_not_when_it_is_late() {
        let mut history = history();
        let again = sample(VICTIM, JobClass::LatencySensitive, 1_300, 0.5, Some(4.0));
        assert_eq!(
            history.add(&again, Some(4.0), true),
            Err(Refused::Duplicate)
        );
        let late = sample(VICTIM, JobClass::LatencySensitive, 700, 0.5, Some(4.0));
        assert_eq!(history.add(&late, Some(4.0), true), Err(Refused::Late));
        history.clear();
        assert_eq!(history.add(&late, Some(4.0), true), Ok(()));
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let mut history = history();
        let new = sample("new", JobClass::Batch, 1_895, 0.5, None);
        history.add(&new, None, false).unwrap();
        history.prune();
        // Of the others only the windows after 1295 are left; the idle task's, too.
        assert_eq!(history.len(), 5);
        let newer = sample("new", JobClass::Batch, 5_000, 0.5, None);
        history.add(&newer, None, false).unwrap();
        history.prune();
        assert_eq!(history.len(), 1);
    }

    proptest! {
        #[test]
        fn the_order_of_arrival_does_not_matter(
            mut points in prop::collection::vec((0..9_i64, 0..4_usize, 0.0..1.0_f64), 1..60), seed in any::<u64>(),
        ) {
            points.sort_by_key(|&(minute, task, _)| (minute, task));
            points.dedup_by_key(|point| (point.0, point.1));
            let build = |points: &[(i64, usize, f64)]| {
                let mut history = History::new(600.0);
                for &(minute, task, usage) in points {
                    let cpi = (task == 0).then_some(1.0 + usage);
                    let row = sample(["v", "a", "b", "c"][task], JobClass::Batch, 60 * minute, usage, cpi);
                    history.add(&row, cpi, usage > 0.5).unwrap();
                }
                history.prune();
                (history.suspects(&name("v"), 600.0, 1.5), history.outliers(&name("v"), 300.0, None))
            };
            let sorted = build(&points);
            let mut state = seed | 1;
            for place in (1..points.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                points.swap(place, (state >> 33) as usize % (place + 1));
            }
            prop_assert_eq!(sorted, build(&points));
        }
    }
}
