//! What one probe says about the objective, and how surely.
//!
//! In: counts of a measure phase, whole and in batches by time. Out: for each criterion the measured value,
//! whether it is met, and the probability that it is met by what the probe would have measured had it gone on:
//! requests of one moment share their fate, so the noise of a share is estimated from batches, at several batch
//! lengths, and the largest estimate is used. That probability is for the reader; what follows from the counts
//! for the capacity is another's matter.
//!
//! Not here: how likely the counts are at a rate ([`super::occupation`]), and that the same rate measures otherwise in
//! another run ([`super::posterior`]).

use super::curve::Bound;
use crate::slo::Slo;

/// Requests against a criterion that a share at its bound must have led one to expect for their absence to tell.
const EXPECTED: f64 = 3.0;

/// Time scale of a bound on errors where no percentile is bounded.
const AT_MOST_S: f64 = 1.0;

/// Counts of a length of time, or of a whole measure phase.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counts {
    /// Requests that became due.
    pub due: u64,
    /// Answered without an error.
    pub completed: u64,
    /// Failed.
    pub errors: u64,
    /// Never answered, or never sent.
    pub unanswered: u64,
    /// For each bounded percentile, answers that took longer than its bound.
    pub beyond: Vec<u64>,
}

/// What a probe counted.
#[derive(Debug, Clone, Default)]
pub struct Counted {
    /// The requests that were due in the measure phase, whenever they ended.
    pub whole: Counts,
    /// Completed requests per second over offered ones.
    pub achieved_ratio: f64,
    /// The phase in pieces of equal length, each by the time of its events, in order.
    pub batches: Vec<Counts>,
}

/// One bound of the objective and what the probe says about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Criterion {
    /// Its name: `p95`, `errors`, `achieved`.
    pub name: String,
    /// Share of requests that count against it; for `achieved` the share of the offered rate.
    pub ratio: f64,
    /// The bound of that share.
    pub bound_ratio: f64,
    /// Whether the measured value keeps the bound.
    pub met: bool,
    /// Probability that it would in a probe without end.
    pub met_probability: f64,
    /// What was counted against which bound, None for `achieved` and for a bound of 0 or 1.
    pub share: Option<Share>,
    /// Whether nothing counted against it among so few requests that a share at the bound would have looked the
    /// same: `errors<=0.1%` and a hundred requests.
    pub silent: bool,
}

/// Requests that count against a bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// So many.
    pub bad: f64,
    /// Among so many.
    pub all: f64,
    /// Their bound.
    pub bound: Bound,
}

impl Default for Share {
    fn default() -> Self {
        let bound = Bound {
            ratio: 0.5,
            at_most_s: AT_MOST_S,
        };
        let (bad, all) = (0.0, 0.0);
        Self { bad, all, bound }
    }
}

impl Share {
    /// Distance of the share from its bound in logits, positive: too much. Half a request more on either side
    /// keeps the logarithms finite.
    fn excess(&self) -> f64 {
        logit((self.bad + 0.5) / (self.all + 1.0)) - logit(self.bound.ratio)
    }
}

/// Whether a probe met the whole objective.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    /// Whether every criterion is met.
    pub met: bool,
    /// Probability that it is, but for the probe's own noise.
    pub met_probability: f64,
    /// Counts of the criterion that is nearest to its bound or farthest beyond it, None when only one says no that
    /// is no share of requests.
    pub share: Option<Share>,
}

/// Holds `counted` against `slo`: the percentiles first, then errors, then achieved.
pub fn weigh(slo: &Slo, counted: &Counted) -> Vec<Criterion> {
    let whole = &counted.whole;
    let answered = (whole.completed + whole.unanswered) as f64;
    let mut criteria = Vec::new();
    for (index, bound) in slo.percentiles.iter().enumerate() {
        // What never came back is slower than any bound.
        let slow = whole.beyond[index] + whole.unanswered;
        let batches: Vec<(f64, f64)> = counted
            .batches
            .iter()
            .map(|batch| (batch.completed as f64, batch.beyond[index] as f64))
            .collect();
        let max = bound.beyond_ratio_max();
        let share = Share {
            bad: slow as f64,
            all: answered,
            bound: Bound {
                ratio: max,
                at_most_s: bound.at_most_ns as f64 / 1e9,
            },
        };
        criteria.push(criterion(bound.name(), share, &batches));
    }
    let ended = (whole.completed + whole.errors) as f64;
    let batches: Vec<(f64, f64)> = counted
        .batches
        .iter()
        .map(|batch| ((batch.completed + batch.errors) as f64, batch.errors as f64))
        .collect();
    let errors = Share {
        bad: whole.errors as f64,
        all: ended,
        bound: Bound {
            ratio: slo.errors_ratio_max,
            at_most_s: slo.longest_s().unwrap_or(AT_MOST_S),
        },
    };
    criteria.push(criterion("errors".to_owned(), errors, &batches));
    criteria.push(achieved(slo.achieved_ratio_min, counted));
    criteria
}

/// What the criteria say together: the probability of the least sure one, since what slows answers down is what
/// makes them fail too, and the distance of the one nearest to its bound or farthest beyond it.
///
/// A criterion that is silent has no say while another share speaks: it would hold every short probe near one
/// half, at any rate, and the search where it began. Whether it is met counts all the same.
pub fn sum_up(criteria: &[Criterion]) -> Judgement {
    let speaks = |criterion: &&Criterion| !criterion.silent;
    let mut decisive: Vec<&Criterion> = criteria.iter().filter(speaks).collect();
    if !decisive.iter().any(|criterion| criterion.share.is_some()) {
        decisive = criteria.iter().collect();
    }
    let least = decisive
        .iter()
        .min_by(|a, b| a.met_probability.total_cmp(&b.met_probability));
    // A share of nothing has no distance of its own while another has one.
    let nearest = decisive
        .iter()
        .filter(|criterion| criterion.share.is_some())
        .max_by(|a, b| {
            let key = |c: &Criterion| {
                (
                    c.ratio > 0.0,
                    c.share.map_or(f64::MIN, |share| share.excess()),
                )
            };
            let (a, b) = (key(a), key(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
    // Only the throughput says no: the distance of the others would say yes.
    let other = least.is_some_and(|c| c.share.is_none() && c.met_probability < 0.5);
    Judgement {
        met: criteria.iter().all(|criterion| criterion.met),
        met_probability: least.map_or(0.0, |criterion| criterion.met_probability),
        share: nearest
            .and_then(|criterion| criterion.share)
            .filter(|share| !other || share.excess() > 0.0),
    }
}

/// A criterion on a share of requests.
fn criterion(name: String, share: Share, batches: &[(f64, f64)]) -> Criterion {
    let Share { bad, all, bound } = share;
    let bound = bound.ratio;
    let ratio = if all > 0.0 { bad / all } else { 1.0 };
    // Percentiles are the nearest rank's: the last that may lie beyond is the whole part.
    let met = all > 0.0 && bad <= (bound * all + 1e-9).floor();
    let certain = bound <= 0.0 || bound >= 1.0;
    let met_probability = if all <= 0.0 {
        0.0
    } else if certain {
        f64::from(u8::from(met))
    } else if bad == 0.0 {
        // Without any, as many as would surely have shown are missing.
        1.0 - 0.5 * (-all * bound).exp()
    } else {
        let smooth = (bad + 0.5) / (all + 1.0);
        let spread = smooth * (1.0 - smooth);
        let (batch_variance, freedom) = variance_of_share(batches, ratio);
        let variance = batch_variance.max(spread / all);
        student_cdf(-share.excess() * spread / variance.sqrt(), freedom)
    };
    Criterion {
        name,
        ratio,
        bound_ratio: bound,
        met,
        met_probability,
        share: (all > 0.0 && !certain).then_some(share),
        silent: all > 0.0 && bad == 0.0 && all * bound < EXPECTED,
    }
}

/// Variance of a share estimated from batches of 1, 2 and 4 pieces, the largest of them, and its degrees of
/// freedom. Zero without enough pieces.
fn variance_of_share(batches: &[(f64, f64)], ratio: f64) -> (f64, f64) {
    let all: f64 = batches.iter().map(|(all, _)| all).sum();
    let mut best = (0.0, batches.len().saturating_sub(1).max(1) as f64);
    if all <= 0.0 {
        return best;
    }
    for length in [1, 2, 4] {
        let groups: Vec<f64> = batches
            .chunks_exact(length)
            .map(|group| group.iter().map(|(all, bad)| bad - ratio * all).sum())
            .collect();
        if groups.len() < 4 {
            break;
        }
        let n = groups.len() as f64;
        let mean = groups.iter().sum::<f64>() / n;
        let sum: f64 = groups.iter().map(|g| (g - mean) * (g - mean)).sum();
        let variance = n / (n - 1.0) * sum / (all * all);
        if variance > best.0 {
            best = (variance, n - 1.0);
        }
    }
    best
}

/// The criterion on the achieved share of the offered rate. What is missing at the end may be under way: a
/// stable server has a backlog that comes and goes, and its swing is the noise of this share.
fn achieved(bound: f64, counted: &Counted) -> Criterion {
    let due = counted.whole.due as f64;
    let ratio = counted.achieved_ratio;
    let mut backlog = vec![0.0];
    for batch in &counted.batches {
        let ended = (batch.completed + batch.errors) as f64;
        backlog.push(backlog[backlog.len() - 1] + batch.due as f64 - ended);
    }
    let n = backlog.len() as f64;
    // About the line through both ends, so that growth is not taken for swing.
    let slope = backlog[backlog.len() - 1] / (n - 1.0).max(1.0);
    let residuals: Vec<f64> = backlog
        .iter()
        .enumerate()
        .map(|(index, b)| b - slope * index as f64)
        .collect();
    let mean = residuals.iter().sum::<f64>() / n;
    let swing = residuals
        .iter()
        .map(|r| (r - mean) * (r - mean))
        .sum::<f64>()
        / n;
    // One request more or less is always possible.
    let deviation = (2.0 * swing + 2.0).sqrt() / due.max(1.0);
    let distance = (ratio - bound) / deviation;
    Criterion {
        name: "achieved".to_owned(),
        ratio,
        bound_ratio: bound,
        met: ratio >= bound,
        share: None,
        silent: false,
        met_probability: if due > 0.0 {
            student_cdf(distance, (n - 2.0).max(1.0))
        } else {
            0.0
        },
    }
}

fn logit(share: f64) -> f64 {
    (share / (1.0 - share)).ln()
}

/// Distribution function of the standard normal law, to 1e-7 (Abramowitz and Stegun 26.2.17).
pub fn normal_cdf(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let polynomial = t
        * (0.319_381_530
            + t * (-0.356_563_782
                + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt() * polynomial;
    if z >= 0.0 { 1.0 - tail } else { tail }
}

/// Distribution function of Student's t, to about 0.003 from 3 degrees of freedom on (Wallace 1959).
fn student_cdf(t: f64, freedom: f64) -> f64 {
    let z = (8.0 * freedom + 1.0) / (8.0 * freedom + 3.0)
        * (freedom * (t * t / freedom).ln_1p()).sqrt();
    normal_cdf(z.copysign(t))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distribution_functions_match_tables() {
        for (z, p) in [
            (0.0, 0.5),
            (1.0, 0.841_344_7),
            (-1.96, 0.024_997_9),
            (4.0, 0.999_968_3),
        ] {
            assert!((normal_cdf(z) - p).abs() < 2e-7, "{z}");
        }
        for (t, freedom, p) in [
            (2.353_363, 3.0, 0.95),
            (2.228_139, 10.0, 0.975),
            (-1.812_461, 10.0, 0.05),
        ] {
            assert!((student_cdf(t, freedom) - p).abs() < 0.003, "{t} {freedom}");
        }
    }

    fn counted(due: u64, beyond_of_batch: &[u64]) -> Counted {
        let batch = due / beyond_of_batch.len() as u64;
        let piece = |beyond: u64| Counts {
            due: batch,
            completed: batch,
            beyond: vec![beyond],
            ..Counts::default()
        };
        Counted {
            whole: Counts {
                due,
                completed: due,
                beyond: vec![beyond_of_batch.iter().sum()],
                ..Counts::default()
            },
            achieved_ratio: 1.0,
            batches: beyond_of_batch.iter().map(|&b| piece(b)).collect(),
        }
    }

    fn probability(counted: &Counted) -> (bool, f64) {
        let slo: Slo = "p95<=1ms".parse().unwrap();
        let judgement = sum_up(&weigh(&slo, counted)[..1]);
        (judgement.met, judgement.met_probability)
    }

    #[test]
    fn a_share_far_from_its_bound_is_sure_and_one_at_it_is_not() {
        let (met, p) = probability(&counted(10_000, &[10; 20]));
        assert!(met && p > 0.999, "{p}");
        let (met, p) = probability(&counted(10_000, &[100; 20]));
        assert!(!met && p < 0.001, "{p}");
        let (met, p) = probability(&counted(10_000, &[25; 20]));
        assert!(met && (p - 0.5).abs() < 0.02, "{p}");
    }

    #[test]
    fn bursts_make_a_share_unsure() {
        let mut bursts = [0; 20];
        (bursts[3], bursts[4], bursts[5]) = (150, 150, 80);
        let (met, p) = probability(&counted(10_000, &bursts));
        let (_, even) = probability(&counted(10_000, &[19; 20]));
        assert!(met && p < 0.9 && even > 0.95, "{p} {even}");
    }

    #[test]
    fn too_few_requests_to_show_an_error_do_not_hide_what_the_percentile_says() {
        let slo: Slo = "p95<=1ms,errors<=0.1%".parse().unwrap();
        let few = counted(160, &[0; 20]);
        let criteria = weigh(&slo, &few);
        let errors = criteria.iter().find(|c| c.name == "errors").unwrap();
        assert!(errors.silent && errors.met && errors.met_probability < 0.6);
        let judgement = sum_up(&criteria);
        assert!(
            judgement.met && judgement.met_probability > 0.8,
            "{judgement:?}"
        );
        assert!(judgement.share.unwrap().excess() < -1.0, "{judgement:?}");
        // One error speaks.
        let mut one = few;
        one.whole.errors = 1;
        let judgement = sum_up(&weigh(&slo, &one));
        assert!(
            !judgement.met && judgement.met_probability < 0.5,
            "{judgement:?}"
        );
    }

    #[test]
    fn without_answers_nothing_is_met() {
        let slo: Slo = "p95<=1ms".parse().unwrap();
        let none = Counted {
            whole: Counts {
                due: 10,
                unanswered: 10,
                beyond: vec![0],
                ..Counts::default()
            },
            ..Counted::default()
        };
        let judgement = sum_up(&weigh(&slo, &none));
        assert_eq!((judgement.met, judgement.met_probability), (false, 0.0));
    }

    #[test]
    fn an_allowance_of_nothing_is_taken_at_its_word() {
        let slo: Slo = "errors<=0".parse().unwrap();
        let mut counted = counted(1000, &[0; 10]);
        assert!(weigh(&slo, &counted)[0].met);
        counted.whole.errors = 1;
        assert_eq!(weigh(&slo, &counted)[0].met_probability, 0.0);
    }

    #[test]
    fn a_growing_backlog_is_distinguished_from_a_swinging_one() {
        let mut counted = counted(10_000, &[0; 20]);
        for batch in &mut counted.batches {
            batch.completed = 475;
        }
        counted.achieved_ratio = 0.95;
        let growing = achieved(0.99, &counted);
        assert!(
            !growing.met && growing.met_probability < 0.01,
            "{growing:?}"
        );
        for (index, batch) in counted.batches.iter_mut().enumerate() {
            batch.completed = if index % 4 < 2 { 300 } else { 700 };
        }
        counted.batches[19].completed -= 500;
        let swinging = achieved(0.99, &counted);
        assert!(
            (0.03..0.5).contains(&swinging.met_probability),
            "{swinging:?}"
        );
    }
}
