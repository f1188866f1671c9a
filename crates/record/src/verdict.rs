use serde::{Deserialize, Serialize};

/// How far a result may be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// No check objects.
    Valid,
    /// Usable with the reservation that a check states.
    Suspect,
    /// Not a result.
    Invalid,
}

/// One question asked of a result, and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Stable name, such as `generator-bound`.
    pub id: String,
    /// The answer.
    pub level: Level,
    /// What was found, one sentence.
    pub claim: String,
    /// The measured value, null when it could not be measured.
    pub value: Option<f64>,
    /// The bound it was held against.
    pub bound: Option<f64>,
    /// Unit of `value` and `bound`.
    pub unit: Option<String>,
}

impl Check {
    /// A check without figures.
    pub fn new(id: &str, level: Level, claim: impl Into<String>) -> Self {
        Self {
            id: id.to_owned(),
            level,
            claim: claim.into(),
            value: None,
            bound: None,
            unit: None,
        }
    }

    /// The check of a share of 1 against a bound.
    #[must_use]
    pub fn of_ratio(self, value: f64, bound: f64) -> Self {
        self.of(value, bound, "ratio")
    }

    /// The check of a number of things against a bound.
    #[must_use]
    pub fn of_count(self, value: f64, bound: f64) -> Self {
        self.of(value, bound, "count")
    }

    fn of(mut self, value: f64, bound: f64, unit: &str) -> Self {
        self.value = Some(value);
        self.bound = Some(bound);
        self.unit = Some(unit.to_owned());
        self
    }
}

/// Whether a result may be believed, and why not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The worst level among the checks.
    pub level: Level,
    /// Every check that was made, those that passed included.
    pub checks: Vec<Check>,
}

impl Verdict {
    /// The verdict that follows from `checks`; without any, nothing is known and it is `suspect`.
    pub fn of(checks: Vec<Check>) -> Self {
        let level = checks
            .iter()
            .map(|check| check.level)
            .max()
            .unwrap_or(Level::Suspect);
        Self { level, checks }
    }
}
