//! Which suspect is the antagonist, with the chance of a wrong name held down.
//!
//! In: a victim's CPI and its neighbours' usage in the same windows. Out: [`Evidence`] of each. Pure functions; the same rule as
//! `python/steelyard/fleet/cpi/evidence.py`, where it is described, and `schemas/golden/cpi2_vectors.json` holds both.
//!
//! In short: the victim's windows are turned against those of all suspects by every number of windows; the share of turns in which
//! any of them fits as well as a suspect does now is its p value, corrected for the number of suspects (the maximum statistic of
//! Westfall and Young, 1993). The changes of usage and CPI over some windows must fit as rarely by chance: what grows by itself fits
//! whatever else does. Beside it stand floors of usage, share and effect, and windows in which both were on and off.

/// What it takes to be named.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// Largest p value.
    pub false_name_ratio: f64,
    /// CPU-s/s that usage is higher while the victim suffers.
    pub least_swing: f64,
    /// Share of the victim's excess CPI that the usage explains.
    pub least_explained_ratio: f64,
    /// What the usage adds to the victim's CPI, relative to its CPI below the threshold.
    pub least_effect_ratio: f64,
    /// The same of what it adds while it is on, which is enough where the victim suffers in most of these windows.
    pub least_working_ratio: f64,
    /// Windows above and below the threshold, and on and off.
    pub least_windows: usize,
    /// Windows over which changes of usage and CPI are compared.
    pub change_windows: usize,
}

impl Default for Bar {
    fn default() -> Self {
        Self {
            false_name_ratio: 0.01,
            least_swing: 0.25,
            least_explained_ratio: 0.5,
            least_effect_ratio: 0.4,
            least_working_ratio: 0.6,
            least_windows: 3,
            change_windows: 5,
        }
    }
}

impl Bar {
    /// Windows that a name takes at least: with n of them the smallest p value is 1/n.
    pub fn fewest_windows(&self) -> usize {
        (1.0 / self.false_name_ratio - 1e-9).ceil() as usize
    }
}

/// An episode is looked at at its 3rd, 9th, 27th ... anomalous window: each look is another chance to err.
pub fn is_look(anomalous: usize) -> bool {
    let mut look = 3;
    while look < anomalous {
        look *= 3;
    }
    look == anomalous
}

/// A task in the windows of a victim. None is missing; before its first and after its last known window a task is not there, and
/// uses nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// CPU-s/s.
    pub usage: Vec<Option<f64>>,
    /// Last-level cache misses per second; None where they are not counted.
    pub misses: Option<Vec<Option<f64>>>,
}

/// Evidence against a suspect. None is unknown.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// Correlation of usage and CPI, times the square root of the usage's standard deviation.
    pub fit: Option<f64>,
    /// Chance of such a fit of any suspect if none has to do with the victim.
    pub p_value: Option<f64>,
    /// Usage while the victim is above its threshold, less that otherwise.
    pub swing: Option<f64>,
    /// Share of the victim's excess CPI that its usage explains.
    pub explained_ratio: Option<f64>,
    /// What its usage adds to the victim's CPI, relative to the CPI below the threshold.
    pub effect_ratio: Option<f64>,
    /// Windows in which both are known.
    pub windows: usize,
    /// Whether its cache misses rise with the victim's CPI.
    pub misses_rise: Option<bool>,
    /// Why it is not named; None for an antagonist.
    pub refusal: Option<String>,
}

/// Fits that differ by less are the same: languages add up in different orders.
const TIE: f64 = 1e-9;
const SMALLEST_VARIANCE: f64 = 1e-15;
/// Share of a suspect's windows on in which the victim suffers: from here on, being on is what adds.
const HITS: f64 = 0.8;
const GROWING: &str = "its changes do not meet the victim's: both may grow by themselves";

/// The evidence for each suspect, in their order. All series have one value for each window of `cpi`, the newest last.
pub fn weigh(cpi: &[Option<f64>], suspects: &[Series], threshold: f64, bar: &Bar) -> Vec<Evidence> {
    let usages: Vec<Vec<Option<f64>>> = suspects.iter().map(|one| present(&one.usage)).collect();
    let above = cpi.iter().flatten().filter(|&&cpi| cpi > threshold).count();
    let below = cpi.iter().flatten().count() - above;
    // By suspect and turn; empty for a suspect that is not compared.
    let fits: Vec<Vec<f64>> = usages
        .iter()
        .map(|usage| {
            if range(usage) < bar.least_swing || above == 0 || below == 0 {
                return Vec::new();
            }
            fits(cpi, usage)
        })
        .collect();
    let chances = chances(&fits, cpi.len());
    let mut weighed: Vec<Evidence> = usages
        .iter()
        .zip(fits.iter().zip(chances))
        .zip(suspects)
        .map(|((usage, (fits, p_value)), suspect)| {
            let fit = fits.first().copied().filter(|fit| fit.is_finite());
            let mut found = shape(cpi, usage, threshold);
            (found.evidence.fit, found.evidence.p_value) = (fit, p_value);
            found.evidence.misses_rise = rise(cpi, suspect.misses.as_deref(), threshold);
            found.evidence.refusal = refusal(&found, (above, below), bar);
            found.evidence
        })
        .collect();
    if weighed.iter().any(|one| one.refusal.is_none()) {
        let compared: Vec<bool> = fits.iter().map(|of| !of.is_empty()).collect();
        let changes = change_chances(cpi, &usages, &compared, bar);
        for (one, chance) in weighed.iter_mut().zip(changes) {
            if one.refusal.is_none() && chance.is_none_or(|p| p > bar.false_name_ratio) {
                one.refusal = Some(GROWING.into());
            }
        }
    }
    weighed
}

/// For each suspect the share of `turns` in which any suspect fits as well as it does now. `fits` are by suspect and turn, empty for
/// one that is not compared.
fn chances(fits: &[Vec<f64>], turns: usize) -> Vec<Option<f64>> {
    let highest: Vec<f64> = (0..turns)
        .map(|turn| {
            fits.iter()
                .filter_map(|of| of.get(turn))
                .fold(f64::NEG_INFINITY, |most, &fit| most.max(fit))
        })
        .collect();
    fits.iter()
        .map(|of| {
            let fit = of.first().copied().filter(|fit| fit.is_finite())?;
            let as_good = highest.iter().filter(|&&most| most >= fit - TIE).count();
            Some(as_good as f64 / turns as f64)
        })
        .collect()
}

/// The chance of as good a fit of changes; None where there are none. What grows slowly has none to speak of, whatever its course.
fn change_chances(
    cpi: &[Option<f64>],
    usages: &[Vec<Option<f64>>],
    compared: &[bool],
    bar: &Bar,
) -> Vec<Option<f64>> {
    let lag = bar.change_windows;
    if cpi.len() <= 2 * lag {
        return vec![None; usages.len()];
    }
    let slow = changes(cpi, lag);
    let fits: Vec<Vec<f64>> = usages
        .iter()
        .zip(compared)
        .map(|(usage, &is_compared)| {
            if is_compared {
                fits(&slow, &changes(usage, lag))
            } else {
                Vec::new()
            }
        })
        .collect();
    chances(&fits, cpi.len())
}

/// What each value is more than that `lag` windows before it; None for the first ones.
fn changes(values: &[Option<f64>], lag: usize) -> Vec<Option<f64>> {
    let after = values.iter().skip(lag);
    std::iter::repeat_n(None, lag.min(values.len()))
        .chain(
            values
                .iter()
                .zip(after)
                .map(|(&before, &now)| Some(now? - before?)),
        )
        .collect()
}

fn present(usage: &[Option<f64>]) -> Vec<Option<f64>> {
    let first = usage.iter().position(Option::is_some);
    let last = usage.iter().rposition(Option::is_some);
    let (Some(first), Some(last)) = (first, last) else {
        return usage.to_vec();
    };
    usage
        .iter()
        .enumerate()
        .map(|(place, &usage)| {
            if place < first || place > last {
                Some(0.0)
            } else {
                usage
            }
        })
        .collect()
}

fn range(usage: &[Option<f64>]) -> f64 {
    let (low, high) = usage
        .iter()
        .flatten()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &usage| {
            (low.min(usage), high.max(usage))
        });
    if high < low { 0.0 } else { high - low }
}

/// The fit at each turn; minus infinity where there is none.
fn fits(cpi: &[Option<f64>], usage: &[Option<f64>]) -> Vec<f64> {
    let count = cpi.len();
    let cpi_mean = mean(cpi.iter().flatten().copied()).unwrap_or(0.0);
    let usage_mean = mean(usage.iter().flatten().copied()).unwrap_or(0.0);
    let usage_variance = mean(
        usage
            .iter()
            .flatten()
            .map(|usage| (usage - usage_mean).powi(2)),
    )
    .unwrap_or(0.0);
    let weight = usage_variance.sqrt().sqrt();
    // Centered first: what is added up is then as small as what is wanted.
    let cpi: Vec<_> = cpi
        .iter()
        .map(|cpi| cpi.map(|cpi| cpi - cpi_mean))
        .collect();
    let usage: Vec<_> = usage
        .iter()
        .map(|usage| usage.map(|usage| usage - usage_mean))
        .collect();
    (0..count)
        .map(|turn| {
            let turned = cpi[turn..].iter().chain(&cpi[..turn]);
            let mut sums = [0.0_f64; 6];
            for (value, usage) in turned.zip(&usage) {
                if let (Some(value), Some(usage)) = (value, usage) {
                    let terms = [
                        1.0,
                        *value,
                        *usage,
                        value * usage,
                        value * value,
                        usage * usage,
                    ];
                    for (sum, term) in sums.iter_mut().zip(terms) {
                        *sum += term;
                    }
                }
            }
            let [pairs, value, usage, product, values, usages] = sums;
            if pairs < 3.0 {
                return f64::NEG_INFINITY;
            }
            let (value, usage) = (value / pairs, usage / pairs);
            let value_variance = values / pairs - value * value;
            let usage_variance = usages / pairs - usage * usage;
            if value_variance <= SMALLEST_VARIANCE || usage_variance <= SMALLEST_VARIANCE {
                return f64::NEG_INFINITY;
            }
            let covariance = product / pairs - value * usage;
            covariance / (value_variance * usage_variance).sqrt() * weight
        })
        .collect()
}

struct Shape {
    evidence: Evidence,
    /// What its usage adds while it is on, relative to the CPI below the threshold.
    working: Option<f64>,
    on: usize,
}

/// How a suspect's usage differs where the victim is above its threshold.
fn shape(cpi: &[Option<f64>], usage: &[Option<f64>], threshold: f64) -> Shape {
    let both: Vec<(f64, f64)> = cpi
        .iter()
        .zip(usage)
        .filter_map(|(&cpi, &usage)| cpi.zip(usage))
        .collect();
    let high =
        |of: fn(&(f64, f64)) -> f64| mean(both.iter().filter(|one| one.0 > threshold).map(of));
    let low =
        |of: fn(&(f64, f64)) -> f64| mean(both.iter().filter(|one| one.0 <= threshold).map(of));
    let swing = high(|one| one.1)
        .zip(low(|one| one.1))
        .map(|(high, low)| high - low);
    let calm = low(|one| one.0);
    let excess = high(|one| one.0).zip(calm).map(|(high, low)| high - low);
    let usage_mean = mean(both.iter().map(|one| one.1)).unwrap_or(0.0);
    let variance = mean(both.iter().map(|one| (one.1 - usage_mean).powi(2))).unwrap_or(0.0);
    let covariance = mean(both.iter().map(|one| (one.1 - usage_mean) * one.0)).unwrap_or(0.0);
    let slope = covariance / variance;
    let added = swing
        .map(|swing| slope * swing)
        .filter(|added| added.is_finite());
    let (lowest, largest) = both
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), one| {
            (low.min(one.1), high.max(one.1))
        });
    let middle = (lowest + largest) / 2.0;
    let over = |added: f64, by: Option<f64>| by.filter(|&by| by > 0.0).map(|by| added / by);
    type Pairs = Vec<(f64, f64)>;
    let (on, off): (Pairs, Pairs) = both.iter().partition(|one| one.1 > middle);
    let hits = on.iter().filter(|one| one.0 > threshold).count();
    let rise = mean(on.iter().map(|one| one.1)).zip(mean(off.iter().map(|one| one.1)));
    let working = rise
        .filter(|_| hits as f64 / on.len() as f64 >= HITS)
        .and_then(|(on, off)| over(slope * (on - off), calm))
        .filter(|working| working.is_finite());
    Shape {
        evidence: Evidence {
            fit: None,
            p_value: None,
            swing,
            explained_ratio: added.and_then(|added| over(added, excess)),
            effect_ratio: added.and_then(|added| over(added, calm)),
            windows: both.len(),
            misses_rise: None,
            refusal: None,
        },
        working,
        on: on.len(),
    }
}

fn rise(cpi: &[Option<f64>], misses: Option<&[Option<f64>]>, threshold: f64) -> Option<bool> {
    let pairs: Vec<(f64, f64)> = cpi
        .iter()
        .zip(misses?)
        .filter_map(|(&cpi, &misses)| cpi.zip(misses))
        .collect();
    let of = |is_high: bool| {
        mean(
            pairs
                .iter()
                .filter(|one| (one.0 > threshold) == is_high)
                .map(|one| one.1),
        )
    };
    Some(of(true)? > of(false)?)
}

/// The first condition that does not hold.
fn refusal(shape: &Shape, (above, below): (usize, usize), bar: &Bar) -> Option<String> {
    let found = &shape.evidence;
    let least = |value: Option<f64>, bar: f64| value.is_some_and(|value| value >= bar);
    if found.windows < bar.fewest_windows() {
        return Some(format!(
            "{} windows of the {} that a name takes",
            found.windows,
            bar.fewest_windows()
        ));
    }
    if above.min(below) < bar.least_windows {
        return Some(format!(
            "the victim was not {} windows above and below its threshold",
            bar.least_windows
        ));
    }
    if !least(found.swing, bar.least_swing) {
        return Some(format!(
            "its usage is not {} CPU-s/s higher while the victim suffers",
            bar.least_swing
        ));
    }
    if shape.on.min(found.windows - shape.on) < bar.least_windows {
        return Some(format!(
            "it was not {} windows on and off",
            bar.least_windows
        ));
    }
    if !least(found.explained_ratio, bar.least_explained_ratio) {
        return Some(format!(
            "its usage explains less than {} of the victim's excess",
            bar.least_explained_ratio
        ));
    }
    if !(least(found.effect_ratio, bar.least_effect_ratio)
        || least(shape.working, bar.least_working_ratio))
    {
        return Some(format!(
            "its usage adds less than {} of the victim's calm CPI",
            bar.least_effect_ratio
        ));
    }
    if found.misses_rise == Some(false) {
        return Some("its cache misses do not rise".into());
    }
    if found.p_value.is_none_or(|p| p > bar.false_name_ratio) {
        return Some("chance gives such a fit too often".into());
    }
    None
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_usize), |(sum, count), value| {
        (sum + value, count + 1)
    });
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn looks_are_seldom() {
        let looks: Vec<_> = (0..100).filter(|&count| is_look(count)).collect();
        assert_eq!(looks, [3, 9, 27, 81]);
    }

    #[test]
    fn a_chance_takes_so_many_windows() {
        for (ratio, windows) in [(0.01, 100), (0.05, 20), (0.03, 34)] {
            let bar = Bar {
                false_name_ratio: ratio,
                ..Bar::default()
            };
            assert_eq!(bar.fewest_windows(), windows);
        }
    }

    proptest! {
        #[test]
        fn a_p_value_is_a_share_of_the_turns(rows in prop::collection::vec((0.5..4.0_f64, 0.0..4.0_f64), 2..40)) {
            let cpi: Vec<_> = rows.iter().map(|row| Some(row.0)).collect();
            let suspect = Series { usage: rows.iter().map(|row| Some(row.1)).collect(), misses: None };
            let found = weigh(&cpi, &[suspect], 1.5, &Bar::default());
            if let Some(p) = found[0].p_value {
                prop_assert!(p >= 1.0 / rows.len() as f64 - 1e-12 && p <= 1.0);
            }
            prop_assert!(found[0].refusal.is_some());
        }
    }
}
