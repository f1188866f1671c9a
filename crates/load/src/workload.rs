//! What is asked of the server: operations on keys, drawn from a stream.

use crate::LoadError;
use crate::keyspace::Keyspace;
use crate::random::Random;
use crate::zipf::Zipf;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Reads a key.
    Get,
    /// Stores a key's value.
    Set,
}

/// One request, before any protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// What to do.
    pub operation: Operation,
    /// With which key.
    pub key: u64,
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
    set_ratio: f64,
}

impl Workload {
    /// A workload over `keys` of which `set_ratio` (0 to 1) of the requests store.
    pub fn new(keys: Keyspace, popularity: Popularity, set_ratio: f64) -> Result<Self, LoadError> {
        if !(0.0..=1.0).contains(&set_ratio) {
            let why = format!("{set_ratio} is not between 0 and 1");
            return Err(LoadError::Setting {
                name: "--set-ratio",
                why,
            });
        }
        Ok(Self {
            keys,
            popularity,
            set_ratio,
        })
    }

    /// The next request of the stream `random`. Every request takes its values from the stream in the same
    /// order, so that the same seed gives the same requests.
    #[inline]
    pub fn next(&self, random: &mut Random) -> Request {
        let operation = if self.set_ratio > 0.0 && random.unit() < self.set_ratio {
            Operation::Set
        } else {
            Operation::Get
        };
        let rank = match &self.popularity {
            Popularity::Uniform => random.below(self.keys.count()),
            Popularity::Zipf(zipf) => zipf.rank(random) - 1,
        };
        Request {
            operation,
            key: self.keys.key_at_rank(rank),
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
        let workload = Workload::new(keys, Popularity::Uniform, 0.1).unwrap();
        let mut random = Random::stream(1, Purpose::Requests, 0);
        let sets = (0..100_000)
            .filter(|_| workload.next(&mut random).operation == Operation::Set)
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
