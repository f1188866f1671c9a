//! Which of a profile's types of values is read, and what its values are.
//!
//! In: the types, and the name of one. Out: the place of its values, with its name and unit. Where none is
//! named it is the one that pprof shows: the profile's default type, else its last.
//!
//! A type that is a time or a count goes with the type `samples` where there is one: samples are then counted,
//! and the values are their weight.

use super::pb;
use crate::WeightUnit;

/// Begin of the comment with which Steelyard names the event behind weights.
pub const EVENT_COMMENT: &str = "event: ";

/// Types that a message lists at most.
const MOST_NAMED: usize = 16;

/// A type of values: its name and its unit.
struct Type {
    name: String,
    unit: String,
}

/// The types of a profile.
pub struct Types {
    types: Vec<Type>,
    default_name: String,
    /// The event behind the weights, where Steelyard wrote the profile.
    own_event: Option<String>,
    /// Unit and length of a period.
    period: (String, i64),
}

/// The values that are read.
#[derive(Debug, PartialEq)]
pub struct Chosen {
    /// Place of the values.
    pub value_at: usize,
    /// Place of the numbers of samples, where the values are their weight.
    pub samples_at: Option<usize>,
    /// What the values are called.
    pub event: String,
    /// Unit of the values; None for samples.
    pub unit: Option<String>,
    /// Unit of the weight.
    pub weight_unit: WeightUnit,
    /// What a value is multiplied with to be in the weight's unit.
    pub factor: u64,
    /// Samples a second.
    pub hz: Option<f64>,
}

impl Types {
    /// The types of a message, whose strings `text` has.
    pub fn of(message: &pb::Profile, text: impl Fn(i64) -> String) -> Self {
        let types = message.sample_type.iter().map(|type_| Type {
            name: text(type_.r#type),
            unit: text(type_.unit),
        });
        let own = message.comment.iter().map(|&comment| text(comment));
        let period_unit = message.period_type.map_or(0, |period| period.unit);
        Self {
            types: types.collect(),
            default_name: text(message.default_sample_type),
            own_event: own
                .filter_map(|text| Some(text.strip_prefix(EVENT_COMMENT)?.to_owned()))
                .next(),
            period: (text(period_unit), message.period),
        }
    }

    /// The values of the type `event`, or of pprof's type.
    ///
    /// # Errors
    /// One sentence that names the types when `event` is none of them.
    pub fn choose(&self, event: Option<&str>) -> Result<Chosen, String> {
        let named = |name: &str| self.types.iter().position(|type_| type_.name == name);
        let last = self.types.len() - 1;
        let value_at = match event {
            None => named(&self.default_name).unwrap_or(last),
            Some(event) => named(event)
                .or_else(|| named("cpu").filter(|_| self.own_event.as_deref() == Some(event)))
                .ok_or_else(|| format!("no event {event}, but {}", self.names(None)))?,
        };
        let Type { name, unit } = &self.types[value_at];
        let ns = ns_per(unit);
        let samples_at = self
            .types
            .iter()
            .position(|type_| type_.name == "samples" && is_count(&type_.unit));
        let weighs = ns.is_some() || is_count(unit);
        let samples_at = samples_at.filter(|&at| weighs && at != value_at);
        let is_samples = name == "samples" || unit == "samples";
        let counts_samples = is_samples && is_count(unit);
        let own_unit = (!unit.is_empty() && !counts_samples).then(|| unit.clone());
        let is_cpu = name == "cpu" && ns.is_some();
        let event = self.own_event.as_ref().filter(|_| is_cpu).unwrap_or(name);
        let period_ns = ns_per(&self.period.0).filter(|_| self.period.1 > 0 && ns.is_some());
        Ok(Chosen {
            value_at,
            samples_at,
            event: event.clone(),
            unit: own_unit.filter(|_| samples_at.is_none()),
            weight_unit: match (samples_at, ns) {
                (None, _) => WeightUnit::None,
                (_, Some(_)) => WeightUnit::Nanoseconds,
                _ => WeightUnit::Events,
            },
            factor: ns.unwrap_or(1),
            hz: period_ns.map(|ns| hz(self.period.1 as f64 * ns as f64)),
        })
    }

    /// Which types are not read, when there are some besides the number of samples.
    pub fn others(&self, value_at: usize) -> Option<String> {
        let other = |(at, type_): (usize, &Type)| at != value_at && type_.name != "samples";
        let some = self.types.iter().enumerate().any(other);
        some.then(|| {
            let names = self.names(Some(value_at));
            format!("other values are left out ({names}): --event chooses")
        })
    }

    /// Whether Steelyard wrote the profile.
    pub fn are_own(&self) -> bool {
        self.own_event.is_some()
    }

    fn names(&self, without: Option<usize>) -> String {
        let names = self.types.iter().enumerate();
        let names = names.filter(|(at, _)| Some(*at) != without);
        let names = names.map(|(_, type_)| type_.name.as_str());
        names.take(MOST_NAMED).collect::<Vec<_>>().join(", ")
    }
}

fn is_count(unit: &str) -> bool {
    matches!(unit, "count" | "samples" | "")
}

fn hz(period_ns: f64) -> f64 {
    (1e9 / period_ns * 1e3).round() / 1e3
}

/// Nanoseconds of a unit of time.
fn ns_per(unit: &str) -> Option<u64> {
    match unit {
        "nanoseconds" | "ns" => Some(1),
        "microseconds" | "us" => Some(1_000),
        "milliseconds" | "ms" => Some(1_000_000),
        "seconds" | "s" => Some(1_000_000_000),
        _ => None,
    }
}
