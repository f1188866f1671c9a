//! Whether the measuring vouches for its scores: one check a question, each with its figure and its bound.
//!
//! The scores are what others read, so that the checks ask how far those may be wrong. A single benchmark may have a
//! wide interval on a shared machine while the mean over a hundred is known well.

use steelyard_record::{CONSTANTS, Check, Level, TaxBenchmark, TaxScore, Verdict};

/// Benchmarks that a claim names.
const NAMED: usize = 3;

/// What disturbance cost a score.
#[derive(Debug, Clone, Copy)]
pub struct Lost {
    /// How much higher the score would be without it, as a share of the score.
    pub ratio: f64,
    /// The category that lost most.
    pub category: &'static str,
    /// What it lost.
    pub category_ratio: f64,
}

/// What the checks look at.
pub struct Evidence<'a> {
    /// One row a benchmark.
    pub rows: &'a [TaxBenchmark],
    /// On one core and on all, as far as they were measured.
    pub scores: Vec<&'a TaxScore>,
    /// What disturbance cost each of them.
    pub lost: Vec<Lost>,
    /// Benchmarks that did not compute the same in every batch.
    pub changed: &'a [&'a str],
    /// Rounds that were completed.
    pub rounds: u64,
    /// Whether it was stopped before its time.
    pub interrupted: bool,
}

/// All checks and their verdict.
pub fn judge(evidence: &Evidence<'_>) -> Verdict {
    let mut checks = vec![disturbed(evidence)];
    checks.extend(score_interval(evidence));
    checks.push(rounds(evidence.rounds));
    checks.push(checksums(evidence.changed));
    if evidence.interrupted {
        checks.push(Check::stated("interrupted", Level::Suspect, "interrupted"));
    }
    Verdict::of(checks)
}

fn disturbed(evidence: &Evidence<'_>) -> Check {
    let computing = || evidence.rows.iter().filter(|row| !row.waits);
    let measures = || computing().flat_map(|row| [&row.one, &row.all]);
    let total: u64 = measures().flatten().map(|measure| measure.batches).sum();
    let count: u64 = measures().flatten().map(|measure| measure.disturbed).sum();
    let worst = evidence
        .lost
        .iter()
        .max_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let ratio = worst.map_or(0.0, |lost| lost.ratio);
    let cost = worst.map_or(String::new(), |lost| {
        format!(
            ": the score would be {:.1} % higher without, {} {:.1} %",
            100.0 * lost.ratio,
            lost.category,
            100.0 * lost.category_ratio
        )
    });
    let claim = format!(
        "{count} of {total} batches that compute were interrupted by other processes{cost}"
    );
    Check::measured("disturbed-batches", ratio, claim)
}

/// Which of the scores, of one core and of all, have no interval.
fn lacking(scores: &[&TaxScore]) -> &'static str {
    let unknown: Vec<bool> = scores
        .iter()
        .map(|score| score.interval_low_per_s.is_none())
        .collect();
    match unknown[..] {
        [true, false] => "the score of one core has",
        [false, true] => "the score of all cores has",
        [true, true] => "neither score has",
        _ => "the score has",
    }
}

/// Half of the widest interval among the scores; None where too few rounds give none, to which `rounds` objects.
fn score_interval(evidence: &Evidence<'_>) -> Option<Check> {
    let unknown = |score: &TaxScore| score.interval_low_per_s.is_none();
    if evidence.rounds >= CONSTANTS.tax_rounds && evidence.scores.iter().any(|score| unknown(score))
    {
        let claim = format!(
            "neighbouring rounds are correlated, so {} no interval: something disturbed the machine \
             for longer than a round",
            lacking(&evidence.scores)
        );
        return Some(Check::stated("score-interval", Level::Suspect, claim));
    }
    let half = |score: &&TaxScore| {
        let (low, high) = score.interval_low_per_s.zip(score.interval_high_per_s)?;
        Some((high - low) / 2.0 / score.rate_per_s)
    };
    let widest = evidence.scores.iter().filter_map(half).reduce(f64::max)?;
    let mut rows: Vec<(f64, &str)> = evidence
        .rows
        .iter()
        .filter_map(|row| {
            let widths = [&row.one, &row.all].into_iter().flatten();
            let width = widths.filter_map(|measure| measure.width_ratio);
            Some((width.reduce(f64::max)?, row.name.as_str()))
        })
        .collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let named: Vec<String> = rows
        .iter()
        .take(NAMED)
        .map(|(width, name)| format!("{name} {:.0} %", 100.0 * width))
        .collect();
    let claim = format!(
        "the score is known to {:.1} %; widest intervals: {}",
        100.0 * widest,
        named.join(", ")
    );
    Some(Check::measured("score-interval", widest, claim))
}

fn rounds(rounds: u64) -> Check {
    let claim = format!("{rounds} rounds were completed");
    Check::measured("rounds", rounds as f64, claim)
}

fn checksums(changed: &[&str]) -> Check {
    let claim = match changed {
        [] => "every batch computed the same result".to_owned(),
        [name, ..] => format!("{name} did not compute the same result in every batch"),
    };
    Check::measured("checksums", changed.len() as f64, claim)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn score(half_width: f64) -> TaxScore {
        TaxScore {
            rate_per_s: 1000.0,
            interval_low_per_s: Some(1000.0 * (1.0 - half_width)),
            interval_high_per_s: Some(1000.0 * (1.0 + half_width)),
            categories: BTreeMap::new(),
        }
    }

    fn levels(half_width: f64, lost: f64, rounds: u64, changed: &[&str]) -> Vec<(String, Level)> {
        let score = score(half_width);
        let lost = Lost {
            ratio: lost,
            category: "memory",
            category_ratio: 2.0 * lost,
        };
        let verdict = judge(&Evidence {
            rows: &[],
            scores: vec![&score],
            lost: vec![lost],
            changed,
            rounds,
            interrupted: false,
        });
        let objecting = verdict.checks.into_iter();
        let objecting = objecting.filter(|check| check.level != Level::Valid);
        objecting.map(|check| (check.id, check.level)).collect()
    }

    #[test]
    fn each_check_objects_alone_and_by_how_far_the_score_may_be_wrong() {
        let one = |id: &str, level| vec![(id.to_owned(), level)];
        assert_eq!(levels(0.02, 0.01, 40, &[]), []);
        assert_eq!(
            levels(0.06, 0.01, 40, &[]),
            one("score-interval", Level::Suspect)
        );
        assert_eq!(
            levels(0.21, 0.01, 40, &[]),
            one("score-interval", Level::Invalid)
        );
        assert_eq!(
            levels(0.02, 0.06, 40, &[]),
            one("disturbed-batches", Level::Suspect)
        );
        assert_eq!(
            levels(0.02, 0.21, 40, &[]),
            one("disturbed-batches", Level::Invalid)
        );
        assert_eq!(levels(0.02, 0.01, 12, &[]), one("rounds", Level::Suspect));
        assert_eq!(
            levels(0.02, 0.01, 40, &["lz4"]),
            one("checksums", Level::Invalid)
        );
    }
}
