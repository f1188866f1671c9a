//! What a mix is made of.

use super::template::Template;

/// What an operation does to its key, which bounds what can answer it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Looks a key up: found or not.
    Read,
    /// Stores a key's value.
    Write,
    /// Anything else: a call that succeeds or fails.
    Call,
}

/// One of the operations that a workload is mixed of.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// As records name it.
    pub name: String,
    /// What it does.
    pub effect: Effect,
    /// Its share of the requests is its weight over the sum of all.
    pub weight: f64,
    /// Whether its key is a new one.
    pub inserts: bool,
    /// Whether a request of it draws numbers.
    pub draws: bool,
    /// What is sent, one after the other, each after the answer to the one before.
    pub steps: Vec<Template>,
}

impl Operation {
    /// An operation on keys that are there.
    pub fn new(name: &str, effect: Effect, weight: f64, mut steps: Vec<Template>) -> Self {
        let mut draws = 0;
        for text in steps.iter_mut().flat_map(Template::texts_mut) {
            text.number_draws(&mut draws);
        }
        Self {
            name: name.to_owned(),
            effect,
            weight,
            inserts: false,
            draws: draws > 0,
            steps,
        }
    }
}
