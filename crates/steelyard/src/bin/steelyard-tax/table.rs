//! A result as a table for a person.

use std::io::{self, Write};

use steelyard_record::{TaxBenchmark, TaxMeasure, TaxResult, TaxScore};

/// A time with three to four significant digits and a unit.
fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.1} ns"),
        ns if ns < 1e6 => format!("{:.2} us", ns / 1e3),
        ns => format!("{:.2} ms", ns / 1e6),
    }
}

fn bytes_rate(per_s: f64) -> String {
    match per_s {
        rate if rate < 1e9 => format!("{:.0} MB/s", rate / 1e6),
        rate => format!("{:.2} GB/s", rate / 1e9),
    }
}

fn cell(measure: Option<&TaxMeasure>) -> String {
    let Some(measure) = measure else {
        return format!("{:>11} {:>8} {:>11}", "-", "", "");
    };
    let width = measure
        .width_ratio
        .map_or_else(|| "-".to_owned(), |w| format!("{:.1}%", 100.0 * w));
    let mark = if measure.wide { "!" } else { " " };
    let rate = measure
        .rate_bytes_per_s
        .map_or_else(|| format!("{:.3e}/s", measure.rate_per_s), bytes_rate);
    format!("{:>11} {width:>7}{mark} {rate:>11}", time(measure.time_ns))
}

fn row(out: &mut dyn Write, row: &TaxBenchmark) -> io::Result<()> {
    let scaling = row
        .scaling_ratio
        .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
    writeln!(
        out,
        "{:<34} {} {} {scaling:>7}",
        row.name,
        cell(row.one.as_ref()),
        cell(row.all.as_ref())
    )
}

fn score(out: &mut dyn Write, title: &str, score: &TaxScore) -> io::Result<()> {
    let width = score
        .interval_low_per_s
        .zip(score.interval_high_per_s)
        .map_or(f64::NAN, |(low, high)| (high - low) / score.rate_per_s);
    writeln!(
        out,
        "{title}: geometric mean {:.5e} operations/s, interval {:.2} % wide",
        score.rate_per_s,
        100.0 * width
    )
}

/// Writes `result` as a table.
pub fn write(result: &TaxResult, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{:<34} {:>11} {:>8} {:>11} {:>11} {:>8} {:>11} {:>7}",
        "", "one core", "interval", "rate", "all cores", "interval", "rate", "scaling"
    )?;
    let mut category = "";
    for benchmark in &result.benchmarks {
        if benchmark.category != category {
            category = &benchmark.category;
            writeln!(out, "{category}")?;
        }
        row(out, benchmark)?;
    }
    for (title, found) in [
        ("one core", &result.score_one),
        ("all cores", &result.score_all),
    ] {
        if let Some(found) = found {
            score(out, title, found)?;
        }
    }
    let level = serde_json::json!(result.verdict.level);
    writeln!(
        out,
        "verdict {} after {} rounds",
        level.as_str().unwrap_or_default(),
        result.rounds
    )?;
    for check in &result.verdict.checks {
        if check.level != steelyard_record::Level::Valid {
            writeln!(out, "  {}: {}", check.id, check.claim)?;
        }
    }
    Ok(())
}
