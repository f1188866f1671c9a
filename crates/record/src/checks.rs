//! The checks of verdicts, which stand once for both languages in `data/checks.json`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::Level;

const TEXT: &str = include_str!("../../../data/checks.json");

/// Bounds that several checks share, or that code compares with by itself.
pub static CONSTANTS: LazyLock<Constants> = LazyLock::new(|| {
    serde_json::from_value(Value::Object(document().constants))
        .expect("data/checks.json has one value for each constant")
});

static CHECKS: LazyLock<BTreeMap<String, Entry>> = LazyLock::new(|| {
    let document = document();
    let number = |given: &Given| match given {
        Given::Number(number) => *number,
        Given::Constant(name) => document.constants[name].as_f64().expect("a number"),
    };
    let entry = |row: &Row| {
        let figures = row.like.as_ref().map_or(row, |like| &document.checks[like]);
        Entry {
            unit: figures.unit.clone(),
            fails_below: figures.fails == Some(Fails::Below),
            bounds: Bounds {
                suspect: figures.suspect.as_ref().map(number),
                invalid: figures.invalid.as_ref().map(number),
            },
        }
    };
    let rows = document.checks.iter();
    rows.map(|(id, row)| (id.clone(), entry(row))).collect()
});

fn document() -> Document {
    serde_json::from_str(TEXT).expect("data/checks.json is a table of checks")
}

#[derive(Deserialize)]
struct Document {
    constants: Map<String, Value>,
    checks: BTreeMap<String, Row>,
}

#[derive(Deserialize)]
struct Row {
    like: Option<String>,
    unit: Option<String>,
    fails: Option<Fails>,
    suspect: Option<Given>,
    invalid: Option<Given>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Given {
    Number(f64),
    Constant(String),
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Fails {
    Above,
    Below,
}

/// What the table says of a check, as far as making it needs.
#[derive(Debug)]
pub(crate) struct Entry {
    pub unit: Option<String>,
    fails_below: bool,
    pub bounds: Bounds,
}

impl Entry {
    /// The entry of `id`. Panics where there is none: a bug, which a test of the sources finds.
    pub fn of(id: &str) -> &'static Self {
        let entry = CHECKS.get(id);
        entry.unwrap_or_else(|| panic!("{id} is not in data/checks.json"))
    }

    /// What `value` amounts to. A value at a bound passes.
    pub fn level(&self, value: f64, bounds: Bounds) -> Level {
        let fails = |bound: Option<f64>| {
            bound.is_some_and(|bound| match self.fails_below {
                true => value < bound,
                false => value > bound,
            })
        };
        if fails(bounds.invalid) {
            Level::Invalid
        } else if fails(bounds.suspect) {
            Level::Suspect
        } else {
            Level::Valid
        }
    }
}

/// From where on a result is suspect, and invalid; None where the check never makes it so.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bounds {
    /// The bound of suspect.
    pub suspect: Option<f64>,
    /// The bound of invalid.
    pub invalid: Option<f64>,
}

impl Bounds {
    /// Those of check `id` in the table.
    pub fn of(id: &str) -> Self {
        Entry::of(id).bounds
    }
}

/// The constants; `data/bounds/README.md` says why each has its value.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constants {
    /// By how much what is claimed may be wrong.
    pub headline_suspect_ratio: f64,
    /// By how much it may be wrong to be a result at all.
    pub headline_invalid_ratio: f64,
    /// Share of requests that may fail.
    pub error_suspect_ratio: f64,
    /// Share of requests that may fail for there to be a result at all.
    pub error_invalid_ratio: f64,
    /// Least share of the offered rate that must be completed.
    pub achieved_ratio: f64,
    /// Share of its CPU above which a generator thread measures itself.
    pub generator_busy_ratio: f64,
    /// Lag's 99th percentile, as a share of the median response time, up to which lateness does not matter.
    pub generator_lag_of_response_ratio: f64,
    /// Answers that must lie beyond a percentile for it to be quoted.
    pub samples_beyond_percentile: u64,
    /// Fewest rounds of the tax.
    pub tax_rounds: u64,
    /// How far shares of a top-down tree may stray from their sum.
    pub top_down_tolerance_ratio: f64,
    /// Step of the clock of dates against the monotonic one, in s.
    pub clock_step_s: f64,
    /// How fast the kernel may slew the clock of dates.
    pub clock_slew_ratio: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Check;

    #[test]
    fn values_at_a_bound_pass_on_either_side() {
        let errors = |value| Check::measured("errors", value, "").level;
        assert_eq!(errors(CONSTANTS.error_suspect_ratio), Level::Valid);
        assert_eq!(errors(CONSTANTS.error_invalid_ratio), Level::Suspect);
        assert_eq!(errors(1.0), Level::Invalid);
        let rounds = |value| Check::measured("rounds", value, "").level;
        assert_eq!(rounds(CONSTANTS.tax_rounds as f64), Level::Valid);
        assert_eq!(rounds(0.0), Level::Suspect);
    }

    #[test]
    fn a_check_has_unit_and_bounds_of_the_table() {
        let check = Check::measured("width", 0.3, "wide");
        assert_eq!(check.unit.as_deref(), Some("ratio"));
        assert_eq!((check.suspect, check.invalid), (Some(0.2), Some(0.4)));
        assert_eq!(Bounds::of("search-width"), Bounds::of("width"));
        let bounds = Bounds {
            invalid: Some(0.25),
            ..Bounds::default()
        };
        let check = Check::against("width", bounds, 0.3, "wide");
        assert_eq!((check.level, check.suspect), (Level::Invalid, None));
    }

    #[test]
    fn every_entry_names_what_there_is() {
        assert!(CHECKS.len() > 50);
        assert!(CONSTANTS.headline_suspect_ratio < CONSTANTS.headline_invalid_ratio);
        // A percentile of a load is the 99th; of a run that of one in a thousand too.
        let samples = CONSTANTS.samples_beyond_percentile as f64;
        let bounds = Bounds::of("samples");
        assert_eq!(bounds.suspect, Some(1_000.0 * samples));
        assert_eq!(bounds.invalid, Some(100.0 * samples));
    }
}
