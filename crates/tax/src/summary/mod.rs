//! From batches to the record: estimates with intervals, and scores.

use std::collections::BTreeMap;

use steelyard_record::{
    CONSTANTS, Clock, Kind, TaxBenchmark, TaxCategory, TaxMeasure, TaxResult, TaxScore,
    TaxSettings, Tool,
};
use steelyard_statistics::{CONFIDENCE, Random, estimate, geometric_mean, median, quantile};

use crate::batch::Batch;
use crate::benchmark::Microbenchmark;
use crate::runner::{Entry, Settings};
use crate::verdict::{Evidence, Lost, judge};

/// The quantile of the rounds' times that stands for a benchmark: the lower quartile. Disturbances only ever
/// add time, so that it moves less from run to run than the median (docs/journal/0065), and an interval needs
/// only 13 rounds.
pub(crate) const QUANTILE: f64 = 0.25;
/// Width of an interval over its value above which a result is wide.
pub const WIDE_RATIO: f64 = 0.02;
/// Resamples of the rounds from which a score's interval is read.
const RESAMPLES: usize = 400;

/// When and how the measuring went.
pub struct Occasion {
    /// Length that batches were sized for, ns.
    pub batch_ns: u64,
    /// The command line.
    pub command: Vec<String>,
    /// Both clocks at the start.
    pub clock: Clock,
    /// Start of the first round.
    pub begin_ns: u64,
    /// End of the last round.
    pub end_ns: u64,
    /// User CPU time between them, s.
    pub cpu_user_s: f64,
    /// System CPU time between them, s.
    pub cpu_system_s: f64,
    /// Whether it was stopped before its time.
    pub interrupted: bool,
}

/// Time per operation of one core in one round: the number of workers over their rates' sum.
fn round_time_ns(batches: &[Batch]) -> f64 {
    let rate: f64 = batches.iter().map(Batch::rate_per_s).sum();
    batches.len() as f64 * 1e9 / rate
}

/// The checksum of the batches if all computed the same.
fn checksum(entry: &Entry) -> Option<String> {
    let first = entry.rounds.first()?.first()?.checksum;
    let same = entry.rounds.iter().flatten().all(|b| b.checksum == first);
    same.then(|| format!("{first:016x}"))
}

fn measure(entry: &Entry, waits: bool) -> Option<TaxMeasure> {
    let times: Vec<f64> = entry.rounds.iter().map(|r| round_time_ns(r)).collect();
    let found = estimate(&times, QUANTILE)?;
    let workers = entry.rounds.first()?.len();
    let rate_per_s = workers as f64 * 1e9 / found.value;
    let batches = || entry.rounds.iter().flatten();
    let overlap = |round: &Vec<Batch>| {
        let shortest = round.iter().map(|b| b.wall_ns).min().unwrap_or(1);
        let longest = round.iter().map(|b| b.wall_ns).max().unwrap_or(1);
        shortest as f64 / longest as f64
    };
    let worker_rate = |worker: usize| {
        let times = entry.rounds.iter().map(|round| round[worker].time_ns());
        estimate(&times.collect::<Vec<_>>(), QUANTILE).map_or(0.0, |e| 1e9 / e.value)
    };
    let wall: u64 = batches().map(|b| b.wall_ns).sum();
    let cpu: u64 = batches().map(|b| b.cpu_ns).sum();
    let width_ratio = found.width_ratio();
    Some(TaxMeasure {
        workers: workers as u32,
        operations_per_batch: entry.operations,
        time_ns: found.value,
        interval_low_ns: found.interval.map(|(low, _)| low),
        interval_high_ns: found.interval.map(|(_, high)| high),
        width_ratio,
        wide: width_ratio.is_none_or(|width| width > WIDE_RATIO),
        rate_per_s,
        rate_bytes_per_s: entry.bytes_per_operation.map(|bytes| bytes * rate_per_s),
        worker_rates_per_s: (0..workers).map(worker_rate).collect(),
        overlap_ratio: median(&mut entry.rounds.iter().map(overlap).collect::<Vec<_>>()),
        batches: batches().count() as u64,
        disturbed: batches().filter(|b| b.disturbed(waits)).count() as u64,
        cpu_ratio: cpu as f64 / wall as f64,
        checksum: checksum(entry),
    })
}

/// Geometric means of the entries' rates: over all categories, and by category.
fn means(rates: &[(&'static str, f64)]) -> Option<(f64, BTreeMap<&'static str, f64>)> {
    let mut by_category: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for &(category, rate) in rates {
        by_category.entry(category).or_default().push(rate);
    }
    let means = by_category
        .into_iter()
        .map(|(category, rates)| Some((category, geometric_mean(rates)?)))
        .collect::<Option<BTreeMap<_, _>>>()?;
    Some((geometric_mean(means.values().copied())?, means))
}

/// How long each round took, over the others: the mean over all benchmarks of the logarithm of the time.
fn round_levels(rows: &[(&'static str, Vec<f64>)]) -> Vec<f64> {
    let rounds = rows.first().map_or(0, |(_, times)| times.len());
    (0..rounds)
        .map(|round| rows.iter().map(|(_, times)| times[round].ln()).sum::<f64>())
        .map(|sum| sum / rows.len() as f64)
        .collect()
}

/// How many times as wide as resampling says an interval is, whose rounds have the levels of `levels`.
///
/// Resampling takes rounds as independent and as many. Neighbouring rounds are alike where something disturbs the
/// machine for longer than a round: n of them are worth n (1 - r) / (1 + r), with r the correlation from one round to
/// the next (Bartlett 1935), freed from the bias of few rounds (Kendall, Biometrika 41, 1954) and one standard error
/// higher. Student's quantile takes the place of the normal one. None where the rounds are worth too few.
fn widening(levels: &[f64]) -> Option<f64> {
    let count = levels.len() as f64;
    let mean = levels.iter().sum::<f64>() / count;
    let deviations: Vec<f64> = levels.iter().map(|level| level - mean).collect();
    let variance: f64 = deviations.iter().map(|one| one * one).sum();
    if variance <= 0.0 {
        return Some(1.0);
    }
    let products: f64 = deviations.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let memory = ((count * products / variance + 1.0) / (count - 3.0)).clamp(-0.99, 0.99);
    let memory = (memory + ((1.0 - memory * memory) / count).sqrt()).clamp(0.0, 0.99);
    let worth = count * (1.0 - memory) / (1.0 + memory);
    let degrees = worth - 1.0;
    (degrees >= LEAST_DEGREES).then(|| {
        let width = student(degrees) / NORMAL * (count / worth).sqrt();
        width * (count / (count - 1.0)).sqrt()
    })
}

/// The quantile of the normal distribution that leaves 2.5 % above.
const NORMAL: f64 = 1.959_964;
/// Degrees of freedom below which no interval is given.
const LEAST_DEGREES: f64 = 2.0;

/// The same of Student's distribution, by the expansion of Abramowitz and Stegun, 26.7.5: to 3 % from 2 degrees on.
fn student(degrees: f64) -> f64 {
    let (z, z3, z5, z7) = (NORMAL, NORMAL.powi(3), NORMAL.powi(5), NORMAL.powi(7));
    z + (z3 + z) / (4.0 * degrees)
        + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * degrees.powi(2))
        + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * degrees.powi(3))
}

/// The score of all entries on one core, or of all on every core; its intervals by resampling rounds.
fn score(
    benchmarks: &[Box<dyn Microbenchmark>],
    entries: &[Entry],
    all: bool,
    seed: u64,
) -> Option<TaxScore> {
    let rows: Vec<(&'static str, Vec<f64>)> = entries
        .iter()
        .filter(|entry| entry.all == all)
        .map(|entry| {
            let category = benchmarks[entry.benchmark].category().name();
            let time = |round: &Vec<Batch>| round_time_ns(round) / round.len() as f64;
            (category, entry.rounds.iter().map(time).collect())
        })
        .collect();
    score_of_rounds(&rows, seed)
}

/// The same from the times per operation of each benchmark's rounds, with its category.
fn score_of_rounds(rows: &[(&'static str, Vec<f64>)], seed: u64) -> Option<TaxScore> {
    let rounds = rows.first()?.1.len();
    let rate = |times: &mut [f64]| {
        times.sort_unstable_by(f64::total_cmp);
        1e9 / quantile(times, QUANTILE)
    };
    let rates: Vec<_> = rows
        .iter()
        .map(|(category, times)| (*category, rate(&mut times.clone())))
        .collect();
    let (overall, by_category) = means(&rates)?;
    let mut resampled: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    let mut resampled_overall = Vec::new();
    if rounds as u64 >= CONSTANTS.tax_rounds {
        let mut random = Random::stream(seed, "resample");
        for _ in 0..RESAMPLES {
            // The same rounds for every entry: what befell a round befell all of them.
            let picks: Vec<usize> = (0..rounds)
                .map(|_| random.below(rounds as u64) as usize)
                .collect();
            let rates: Vec<_> = rows
                .iter()
                .map(|(category, times)| {
                    let mut sample: Vec<f64> = picks.iter().map(|&round| times[round]).collect();
                    (*category, rate(&mut sample))
                })
                .collect();
            let (mean, means) = means(&rates)?;
            resampled_overall.push(mean);
            for (category, mean) in means {
                resampled.entry(category).or_default().push(mean);
            }
        }
    }
    let interval = |values: Option<&Vec<f64>>| {
        let mut sorted = values.filter(|v| !v.is_empty())?.clone();
        sorted.sort_by(f64::total_cmp);
        let tail = (1.0 - CONFIDENCE) / 2.0;
        Some((quantile(&sorted, tail), quantile(&sorted, 1.0 - tail)))
    };
    let widen = widening(&round_levels(rows));
    let interval = |values: Option<&Vec<f64>>, rate: f64| {
        let (low, high) = interval(values)?;
        let factor = widen?;
        Some((
            rate * (low / rate).powf(factor),
            rate * (high / rate).powf(factor),
        ))
    };
    let whole = interval(Some(&resampled_overall), overall);
    Some(TaxScore {
        rate_per_s: overall,
        interval_low_per_s: whole.map(|(low, _)| low),
        interval_high_per_s: whole.map(|(_, high)| high),
        categories: by_category
            .into_iter()
            .map(|(category, rate_per_s)| {
                let part = interval(resampled.get(category), rate_per_s);
                let count = rows.iter().filter(|(name, _)| *name == category).count();
                (
                    category.to_owned(),
                    TaxCategory {
                        benchmarks: count as u32,
                        rate_per_s,
                        interval_low_per_s: part.map(|(low, _)| low),
                        interval_high_per_s: part.map(|(_, high)| high),
                    },
                )
            })
            .collect(),
    })
}

/// What the rounds would have taken per operation if nothing else had had the CPU: of workers that compute, their CPU time
/// in place of the wall time. Of workers that wait it is not known, and nothing is lost.
fn undisturbed_time_ns(entry: &Entry, waits: bool) -> f64 {
    let sorted = |mut times: Vec<f64>| {
        times.sort_unstable_by(f64::total_cmp);
        times
    };
    let time = |round: &Vec<Batch>| round_time_ns(round) / round.len() as f64;
    if waits {
        return quantile(&sorted(entry.rounds.iter().map(time).collect()), QUANTILE);
    }
    let computed = |batch: &Batch| Batch {
        wall_ns: batch.cpu_ns.clamp(1, batch.wall_ns),
        ..*batch
    };
    let times = entry.rounds.iter().map(|round| {
        let computed: Vec<Batch> = round.iter().map(computed).collect();
        time(&computed)
    });
    quantile(&sorted(times.collect()), QUANTILE)
}

/// How much higher a score would be if nothing else had had the CPU: the whole, and the category that lost most.
fn lost(
    benchmarks: &[Box<dyn Microbenchmark>],
    entries: &[Entry],
    score: &TaxScore,
    all: bool,
) -> Option<Lost> {
    let rates: Vec<(&'static str, f64)> = entries
        .iter()
        .filter(|entry| entry.all == all)
        .map(|entry| {
            let benchmark = &benchmarks[entry.benchmark];
            let time = undisturbed_time_ns(entry, benchmark.waits());
            (benchmark.category().name(), 1e9 / time)
        })
        .collect();
    let (overall, by_category) = means(&rates)?;
    let (category, of_category) = by_category
        .into_iter()
        .map(|(name, rate)| (name, rate / score.categories[name].rate_per_s - 1.0))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Lost {
        ratio: (overall / score.rate_per_s - 1.0).max(0.0),
        category,
        category_ratio: of_category.max(0.0),
    })
}

/// The record of a run.
#[expect(
    clippy::too_many_lines,
    reason = "a table: one field of the record after the other"
)]
pub fn summarize(
    benchmarks: &[Box<dyn Microbenchmark>],
    entries: &[Entry],
    settings: &Settings,
    occasion: Occasion,
) -> TaxResult {
    let mut rows: Vec<TaxBenchmark> = benchmarks
        .iter()
        .enumerate()
        .map(|(index, benchmark)| {
            let of = |all: bool| {
                entries
                    .iter()
                    .find(|e| e.benchmark == index && e.all == all)
            };
            let any = of(false).or(of(true));
            let waits = benchmark.waits();
            let one = of(false).and_then(|entry| measure(entry, waits));
            let all = of(true).and_then(|entry| measure(entry, waits));
            let scaling_ratio = one
                .as_ref()
                .zip(all.as_ref())
                .map(|(one, all)| all.rate_per_s / one.rate_per_s / f64::from(all.workers));
            TaxBenchmark {
                name: benchmark.name().to_owned(),
                category: benchmark.category().name().to_owned(),
                operation: benchmark.operation().to_owned(),
                bytes_per_operation: any.and_then(|e| e.bytes_per_operation),
                compressed_ratio: any.and_then(|e| e.compressed_ratio),
                waits,
                one,
                all,
                missing: settings
                    .workers()
                    .into_iter()
                    .find_map(|workers| benchmark.missing(workers)),
                scaling_ratio,
            }
        })
        .collect();
    rows.sort_by(|a, b| (&a.category, &a.name).cmp(&(&b.category, &b.name)));
    let changed: Vec<&str> = entries
        .iter()
        .map(|entry| (entry, benchmarks[entry.benchmark].as_ref()))
        .filter(|(entry, benchmark)| benchmark.repeats() && checksum(entry).is_none())
        .map(|(_, benchmark)| benchmark.name())
        .collect();
    let rounds = entries.first().map_or(0, |e| e.rounds.len()) as u64;
    let score_one = score(benchmarks, entries, false, settings.seed);
    let score_all = score(benchmarks, entries, true, settings.seed);
    let lost = |score: &Option<TaxScore>, all| lost(benchmarks, entries, score.as_ref()?, all);
    let verdict = judge(&Evidence {
        rows: &rows,
        scores: [&score_one, &score_all].into_iter().flatten().collect(),
        lost: [lost(&score_one, false), lost(&score_all, true)]
            .into_iter()
            .flatten()
            .collect(),
        changed: &changed,
        rounds,
        interrupted: occasion.interrupted,
    });
    TaxResult {
        kind: Kind::of::<TaxResult>(),
        tool: Tool {
            name: "steelyard-tax".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        command: occasion.command,
        clock: occasion.clock,
        settings: TaxSettings {
            time_s: settings.time.as_secs_f64(),
            batch_ns: occasion.batch_ns,
            seed: settings.seed,
            only: settings.only.clone(),
            cores: settings.cores.name().to_owned(),
            cpus: settings.cpus.iter().map(|&cpu| cpu as u32).collect(),
            one_cpu: settings.cpus[settings.single_cpu_index()] as u32,
            quantile: QUANTILE,
            confidence: CONFIDENCE,
            wide_bound_ratio: WIDE_RATIO,
        },
        begin_ns: occasion.begin_ns,
        end_ns: occasion.end_ns,
        cpu_user_s: occasion.cpu_user_s,
        cpu_system_s: occasion.cpu_system_s,
        interrupted: occasion.interrupted,
        rounds,
        score_one,
        score_all,
        verdict,
        benchmarks: rows,
    }
}

#[cfg(test)]
mod coverage;

#[cfg(test)]
mod tests;
