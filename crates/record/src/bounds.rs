//! The bounds of verdicts, which stand once for both languages in `data/bounds/verdict.json`.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::Level;

/// The bounds that the checks of verdicts compare with.
pub static BOUNDS: LazyLock<Bounds> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../data/bounds/verdict.json"))
        .expect("data/bounds/verdict.json has one value for each field")
});

/// Where a result becomes suspect, and where invalid.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Levels {
    /// Suspect above it.
    pub suspect: f64,
    /// Invalid above it.
    pub invalid: f64,
}

impl Levels {
    /// What `value` amounts to.
    pub fn level(&self, value: f64) -> Level {
        if value > self.invalid {
            Level::Invalid
        } else if value > self.suspect {
            Level::Suspect
        } else {
            Level::Valid
        }
    }
}

/// Every bound; `data/bounds/README.md` says why each has its value.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// Share of requests that may fail.
    pub error_ratio: Levels,
    /// By how much what is claimed may be wrong.
    pub headline_ratio: Levels,
    /// Least share of the offered rate that must be completed.
    pub achieved_ratio: f64,
    /// Share of its CPU above which a generator thread measures itself.
    pub generator_busy_ratio: f64,
    /// Share of requests that the generator may notice late.
    pub generator_late_ratio: f64,
    /// Lag's 99th percentile, as a share of the median response time, up to which lateness does not matter.
    pub generator_lag_of_response_ratio: f64,
    /// Answers that must lie beyond a percentile for it to be quoted.
    pub samples_beyond_percentile: u64,
    /// Share of the measure phase by which processes may begin apart.
    pub hosts_apart_ratio: f64,
    /// Width of a capacity's interval, as a share of the capacity.
    pub capacity_width_ratio: f64,
    /// Fewest rounds of the tax.
    pub tax_rounds: u64,
    /// Step of the clock of dates against the monotonic one, in s.
    pub clock_step_s: f64,
    /// How fast the kernel may slew the clock of dates.
    pub clock_slew_ratio: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_at_a_bound_pass() {
        let errors = BOUNDS.error_ratio;
        assert_eq!(errors.level(errors.suspect), Level::Valid);
        assert_eq!(errors.level(errors.invalid), Level::Suspect);
        assert_eq!(errors.level(1.0), Level::Invalid);
        assert!(errors.suspect < errors.invalid);
    }
}
