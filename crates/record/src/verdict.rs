use serde::{Deserialize, Serialize};

use crate::checks::{Bounds, Entry};

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
    /// From where on it is suspect; `data/checks.json` says whether above or below.
    pub suspect: Option<f64>,
    /// From where on it is invalid, on the same side.
    pub invalid: Option<f64>,
    /// Unit of `value` and the bounds.
    pub unit: Option<String>,
}

impl Check {
    /// The check `id` of `data/checks.json`, whose level follows from its value. Panics for an id that is not there.
    pub fn measured(id: &str, value: f64, claim: impl Into<String>) -> Self {
        Self::against(id, Bounds::of(id), value, claim)
    }

    /// The same against bounds that depend on the measurement.
    pub fn against(id: &str, bounds: Bounds, value: f64, claim: impl Into<String>) -> Self {
        let level = Entry::of(id).level(value, bounds);
        Self::stated(id, level, claim).of(value).within(bounds)
    }

    /// The check `id` of `data/checks.json`, whose level the caller knows, yet without a value.
    pub fn stated(id: &str, level: Level, claim: impl Into<String>) -> Self {
        let entry = Entry::of(id);
        Self {
            id: id.to_owned(),
            level,
            claim: claim.into(),
            value: None,
            suspect: entry.bounds.suspect,
            invalid: entry.bounds.invalid,
            unit: entry.unit.clone(),
        }
    }

    /// The same with its value.
    #[must_use]
    pub fn of(mut self, value: f64) -> Self {
        self.value = Some(value);
        self
    }

    /// The same with bounds that depend on the measurement.
    #[must_use]
    pub fn within(mut self, bounds: Bounds) -> Self {
        (self.suspect, self.invalid) = (bounds.suspect, bounds.invalid);
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
