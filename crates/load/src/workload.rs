//! What is asked of the server: operations on keys, drawn from a stream.

use crate::LoadError;
use crate::keyspace::Keyspace;
use crate::random::Random;
use crate::zipf::Zipf;

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
}

/// One request, before any protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Index into the workload's operations.
    pub operation: usize,
    /// With which key.
    pub key: u64,
    /// Tells it from every other request in flight on its connection.
    pub ticket: u32,
}

/// How often each key is asked for.
#[derive(Debug, Clone)]
pub enum Popularity {
    /// All keys alike.
    Uniform,
    /// Zipf's law.
    Zipf(Zipf),
}

impl Popularity {
    /// `uniform` or `zipf:EXPONENT` over `keys` keys.
    pub fn parse(text: &str, keys: u64) -> Result<Self, LoadError> {
        let wrong = |why: String| LoadError::Setting {
            name: "--key-distribution",
            why,
        };
        if text == "uniform" {
            return Ok(Self::Uniform);
        }
        let exponent = text
            .strip_prefix("zipf:")
            .ok_or_else(|| wrong(format!("{text:?} is neither uniform nor zipf:EXPONENT")))?;
        match exponent.parse::<f64>() {
            Ok(value) if value > 0.0 && value <= 20.0 => Ok(Self::Zipf(Zipf::new(keys, value))),
            _ => Err(wrong(format!(
                "{exponent:?} is not an exponent above 0 and at most 20"
            ))),
        }
    }
}

/// A key space with its popularity and its mix of operations.
#[derive(Debug)]
pub struct Workload {
    /// The keys.
    pub keys: Keyspace,
    popularity: Popularity,
    operations: Vec<Operation>,
    /// Upper ends of the operations' shares, the last of them 1.
    shares: Vec<f64>,
}

/// Index of the read in a workload of reads and stores.
pub const GET: usize = 0;
/// Index of the store in a workload of reads and stores.
pub const SET: usize = 1;

impl Workload {
    /// A workload over `keys` of `operations` in the shares of their weights.
    pub fn new(
        keys: Keyspace,
        popularity: Popularity,
        operations: Vec<Operation>,
    ) -> Result<Self, LoadError> {
        let wrong = |why: String| LoadError::Setting { name: "--mix", why };
        let mut sum = 0.0;
        for operation in &operations {
            if !(operation.weight >= 0.0 && operation.weight.is_finite()) {
                return Err(wrong(format!(
                    "{}: {} is not a weight",
                    operation.name, operation.weight
                )));
            }
            sum += operation.weight;
        }
        if sum <= 0.0 || !sum.is_finite() {
            return Err(wrong("no operation has a weight above 0".to_owned()));
        }
        let mut below = 0.0;
        let mut shares: Vec<f64> = operations
            .iter()
            .map(|operation| {
                below += operation.weight / sum;
                below
            })
            .collect();
        // Rounding must not leave a gap below 1, and what has no weight is never drawn.
        let last = operations.iter().rposition(|o| o.weight > 0.0).unwrap_or(0);
        shares[last..].fill(1.0);
        Ok(Self {
            keys,
            popularity,
            operations,
            shares,
        })
    }

    /// A workload of reads, of which `set_ratio` (0 to 1) are stores instead.
    pub fn of_gets_and_sets(
        keys: Keyspace,
        popularity: Popularity,
        set_ratio: f64,
    ) -> Result<Self, LoadError> {
        if !(0.0..=1.0).contains(&set_ratio) {
            let why = format!("{set_ratio} is not between 0 and 1");
            return Err(LoadError::Setting {
                name: "--set-ratio",
                why,
            });
        }
        let operation = |name: &str, effect, weight| Operation {
            name: name.to_owned(),
            effect,
            weight,
        };
        let operations = vec![
            operation("get", Effect::Read, 1.0 - set_ratio),
            operation("set", Effect::Write, set_ratio),
        ];
        Self::new(keys, popularity, operations)
    }

    /// What the workload is mixed of.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The next request of the stream `random`, with ticket 0. Every request takes its values from the stream in the
    /// same order, so that the same seed gives the same requests.
    #[inline]
    pub fn next(&self, random: &mut Random) -> Request {
        let operation = if self.shares[0] >= 1.0 {
            0
        } else {
            let drawn = random.unit();
            // A handful of operations: looking at each in turn is faster than anything clever.
            self.shares
                .iter()
                .position(|&share| drawn < share)
                .unwrap_or(0)
        };
        let rank = match &self.popularity {
            Popularity::Uniform => random.below(self.keys.count()),
            Popularity::Zipf(zipf) => zipf.rank(random) - 1,
        };
        Request {
            operation,
            key: self.keys.key_at_rank(rank),
            ticket: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sizes;
    use crate::random::Purpose;

    #[test]
    fn the_mix_has_the_asked_share() {
        let keys = Keyspace::new(100, Sizes::fixed(16), Sizes::fixed(10), true).unwrap();
        let workload = Workload::of_gets_and_sets(keys, Popularity::Uniform, 0.1).unwrap();
        let mut random = Random::stream(1, Purpose::Requests, 0);
        let sets = (0..100_000)
            .filter(|_| workload.next(&mut random).operation == SET)
            .count();
        // Binomial: standard deviation 95, four of them allowed.
        assert!((9_620..=10_380).contains(&sets), "{sets}");
    }

    #[test]
    fn popularity_names_are_checked() {
        assert!(Popularity::parse("uniform", 10).is_ok());
        assert!(Popularity::parse("zipf:0.99", 10).is_ok());
        for bad in ["zipf", "zipf:", "zipf:-1", "zipf:nan", "normal"] {
            assert!(Popularity::parse(bad, 10).is_err(), "{bad}");
        }
    }
}
