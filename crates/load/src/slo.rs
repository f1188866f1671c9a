//! Service level objectives: `p95<=500ms,errors<=0.1%`.
//!
//! In: their text. Out: bounds on percentiles of response time, on the share of errors and on the share of the
//! offered rate that must be achieved. Invariant: what [`Slo`] displays reads back as the same objective. Not
//! here: whether a measurement meets one, which needs its noise too ([`crate::capacity`]).

use std::fmt;
use std::str::FromStr;

use steelyard_record::CONSTANTS;

/// Upper bound of a percentile of response time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PercentileBound {
    /// Hundredths of a percent: 9500 is the 95th percentile, so that equal ones compare equal.
    hundredths: u32,
    /// Longest response at it, ns.
    pub at_most_ns: u64,
}

impl PercentileBound {
    /// The quantile, 0 to 1.
    pub fn quantile(&self) -> f64 {
        f64::from(self.hundredths) / 1e4
    }

    /// Share of requests that may be slower than the bound.
    pub fn beyond_ratio_max(&self) -> f64 {
        f64::from(10_000 - self.hundredths) / 1e4
    }

    /// Its name, such as `p99.9`.
    pub fn name(&self) -> String {
        format!("p{}", f64::from(self.hundredths) / 100.0)
    }
}

/// What a service must keep.
#[derive(Debug, Clone, PartialEq)]
pub struct Slo {
    /// Bounds of percentiles, lowest percentile first.
    pub percentiles: Vec<PercentileBound>,
    /// Share of requests that may fail.
    pub errors_ratio_max: f64,
    /// Least share of the offered rate that must be completed.
    pub achieved_ratio_min: f64,
}

/// Why a text is no objective.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}; an example is p95<=500ms,errors<=0.1%")]
pub struct SloError {
    why: String,
}

fn wrong<T>(why: String) -> Result<T, SloError> {
    Err(SloError { why })
}

impl FromStr for Slo {
    type Err = SloError;

    fn from_str(text: &str) -> Result<Self, SloError> {
        let mut slo = Self {
            percentiles: Vec::new(),
            errors_ratio_max: CONSTANTS.error_invalid_ratio,
            achieved_ratio_min: CONSTANTS.achieved_ratio,
        };
        let mut named = Vec::new();
        for term in text.split(',') {
            let name = slo.add(term.trim())?;
            if named.contains(&name) {
                return wrong(format!("{name} is bounded twice"));
            }
            named.push(name);
        }
        slo.percentiles.sort_by_key(|bound| bound.hundredths);
        Ok(slo)
    }
}

impl Slo {
    /// An objective that everything meets.
    pub fn nothing() -> Self {
        Self {
            percentiles: Vec::new(),
            errors_ratio_max: 1.0,
            achieved_ratio_min: 0.0,
        }
    }

    /// Takes one bound in; returns what it bounds.
    fn add(&mut self, term: &str) -> Result<String, SloError> {
        if term.is_empty() {
            return wrong("a bound is missing".to_owned());
        }
        let Some((at, relation)) = ["<=", ">="]
            .iter()
            .filter_map(|relation| Some((term.find(relation)?, *relation)))
            .min()
        else {
            return wrong(format!("{term:?} has neither <= nor >="));
        };
        let (name, value) = (term[..at].trim(), term[at + 2..].trim());
        let wants = if name == "achieved" { ">=" } else { "<=" };
        let known = name == "achieved" || name == "errors" || name.starts_with('p');
        if known && relation != wants {
            return wrong(format!("{name} takes {wants}, not {relation}"));
        }
        match name {
            "errors" => self.errors_ratio_max = ratio(value)?,
            "achieved" => {
                self.achieved_ratio_min = ratio(value)?;
                if self.achieved_ratio_min == 0.0 {
                    return wrong("achieved>=0 bounds nothing".to_owned());
                }
            }
            _ => {
                let Some(hundredths) = name.strip_prefix('p').and_then(hundredths) else {
                    return wrong(format!(
                        "{name:?} is not known: use p50 to p99.99, errors, achieved"
                    ));
                };
                let bound = PercentileBound {
                    hundredths,
                    at_most_ns: latency_ns(value)?,
                };
                self.percentiles.push(bound);
                return Ok(bound.name());
            }
        }
        Ok(name.to_owned())
    }

    /// The longest response time that is bounded, None when none is.
    pub fn longest_s(&self) -> Option<f64> {
        let ns = self.percentiles.iter().map(|bound| bound.at_most_ns).max();
        ns.map(|ns| ns as f64 / 1e9)
    }

    /// The percentile that needs most requests, None when none is bounded.
    pub fn rarest_ratio(&self) -> Option<f64> {
        self.percentiles
            .last()
            .map(PercentileBound::beyond_ratio_max)
    }
}

/// `95` or `99.99` in hundredths, 50 to 99.99.
fn hundredths(text: &str) -> Option<u32> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.len() != 2 || !digits(whole) || rest.is_empty() || rest.len() > 2 || !digits(rest) {
        return None;
    }
    let scale = if rest.len() == 1 { 10 } else { 1 };
    let value = whole.parse::<u32>().ok()? * 100 + rest.parse::<u32>().ok()? * scale;
    (5_000..10_000).contains(&value).then_some(value)
}

fn number(text: &str) -> Option<f64> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    plain.then(|| text.parse().ok()).flatten()
}

/// `0.1%` or `0.001`: a share, 0 to 1.
fn ratio(text: &str) -> Result<f64, SloError> {
    let value = match text.strip_suffix('%') {
        Some(percent) => number(percent.trim_end()).map(|percent| percent / 100.0),
        None => number(text),
    };
    match value {
        Some(value) if value <= 1.0 => Ok(value),
        _ => wrong(format!("{text:?} is not a share such as 0.1% or 0.001")),
    }
}

/// `500ms`: at least 1 ns, at most 1 h, which is the longest latency that the histograms resolve.
fn latency_ns(text: &str) -> Result<u64, SloError> {
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let value = units.iter().find_map(|(unit, ns)| {
        let value = number(text.strip_suffix(unit)?.trim_end())?;
        Some((value * ns).round())
    });
    match value {
        Some(ns) if (1.0..=3.6e12).contains(&ns) => Ok(ns as u64),
        Some(_) => wrong(format!("{text:?} is not between 1ns and 3600s")),
        None => wrong(format!("{text:?} is not a latency such as 500ms")),
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for bound in &self.percentiles {
            let ns = bound.at_most_ns;
            let (value, unit) = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")]
                .into_iter()
                .find(|(scale, _)| ns % scale == 0)
                .map_or((ns, "ns"), |(scale, unit)| (ns / scale, unit));
            write!(f, "{}<={value}{unit},", bound.name())?;
        }
        write!(f, "errors<={}", self.errors_ratio_max)?;
        write!(f, ",achieved>={}", self.achieved_ratio_min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slo(text: &str) -> Slo {
        text.parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn the_usual_texts_are_read() {
        let read = slo("p95<=500ms,errors<=0.1%");
        assert_eq!(read.percentiles.len(), 1);
        assert_eq!(read.percentiles[0].quantile(), 0.95);
        assert_eq!(read.percentiles[0].at_most_ns, 500_000_000);
        assert!((read.errors_ratio_max - 0.001).abs() < 1e-15);
        assert_eq!(read.achieved_ratio_min, 0.99);
        let read = slo(" p99.9 <= 1.5 ms , p50<=80us, errors <= 0, achieved>=98% ");
        let names: Vec<String> = read.percentiles.iter().map(PercentileBound::name).collect();
        assert_eq!(names, ["p50", "p99.9"]);
        assert_eq!(read.percentiles[1].at_most_ns, 1_500_000);
        assert_eq!(read.errors_ratio_max, 0.0);
        assert_eq!(read.achieved_ratio_min, 0.98);
        assert_eq!(read.rarest_ratio(), Some(0.001));
        assert_eq!(slo("p99.99<=3s").percentiles[0].beyond_ratio_max(), 0.0001);
        assert_eq!(
            slo("p95<=500ms").to_string(),
            "p95<=500ms,errors<=0.001,achieved>=0.99"
        );
    }

    #[test]
    fn other_texts_are_refused_in_one_line() {
        for text in [
            "",
            ",",
            "p95",
            "p95=5ms",
            "p95<500ms",
            "p95<=500",
            "p95<=ms",
            "p95<=-5ms",
            "p95<=0ms",
            "p95<=1e9s",
            "p95<=4000s",
            "p95>=5ms",
            "p49<=1ms",
            "p100<=1ms",
            "p99.999<=1ms",
            "p9<=1s",
            "p+95<=1s",
            "p95.<=1s",
            "q95<=1s",
            "errors<=101%",
            "errors<=x",
            "errors>=1%",
            "errors<=NaN",
            "achieved<=1",
            "achieved>=0",
            "p95<=1s,",
            "p95<=1s,p95.0<=2s",
            "errors<=1%,errors<=1%",
            "throughput>=5",
            "p95<=1s;errors<=1%",
            "p95<=inf s",
        ] {
            let error = text.parse::<Slo>().expect_err(text).to_string();
            assert!(
                !error.contains('\n') && error.contains("p95<=500ms"),
                "{error}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[ -~]{0,40}") {
            let _ = text.parse::<Slo>();
        }

        #[test]
        fn what_is_displayed_reads_back(
            bounds in proptest::collection::btree_map(5_000u32..10_000, 1u64..3_600_000_000_000, 0..4),
            errors in 0.0f64..=1.0,
            achieved in 0.01f64..=1.0,
        ) {
            let slo = Slo {
                percentiles: bounds
                    .into_iter()
                    .map(|(hundredths, at_most_ns)| PercentileBound { hundredths, at_most_ns })
                    .collect(),
                errors_ratio_max: errors,
                achieved_ratio_min: achieved,
            };
            prop_assert_eq!(slo.to_string().parse::<Slo>().unwrap(), slo);
        }
    }
}
