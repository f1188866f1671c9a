//! Which keys are asked for: a law over popularity ranks or over ages.
//!
//! In: the number of keys that there are. Out: a key. Invariant: every law is exact for the number of keys at
//! hand, however many were inserted since the start. Not here: what a key is (`keyspace`).

use super::keyspace::Keyspace;
use super::zipf::Zipf;
use crate::LoadError;
use crate::random::Random;

/// How often each key is asked for.
#[derive(Debug, Clone)]
pub enum Popularity {
    /// All keys alike.
    Uniform,
    /// Zipf's law over ranks that are scattered over the keys; inserted keys are the least popular.
    Zipf(Zipf),
    /// Zipf's law over ages: the key inserted last is the most popular.
    Latest(Zipf),
    /// A share of the keys gets a share of the requests; alike within both parts.
    Hotspot {
        /// Share of the keys that are hot, 0 to 1.
        keys_ratio: f64,
        /// Share of the requests for them, 0 to 1.
        requests_ratio: f64,
    },
}

/// The laws as `--key-distribution` names them.
pub const LAWS: [(&str, &str); 4] = [
    ("uniform", "every key alike"),
    (
        "zipf:EXPONENT",
        "the key of rank k with a probability proportional to k^-EXPONENT; ranks are scattered over the keys, and inserted keys are the least popular",
    ),
    (
        "latest:EXPONENT",
        "the same, by age: the key inserted last has rank 1",
    ),
    (
        "hotspot:KEYS:REQUESTS",
        "a share KEYS of the keys gets a share REQUESTS of the requests",
    ),
];

impl Popularity {
    /// One of `LAWS` over `keys` keys.
    pub fn parse(text: &str, keys: u64) -> Result<Self, LoadError> {
        let wrong = |why: String| LoadError::setting("--key-distribution", why);
        let zipf = |exponent: &str| match exponent.parse::<f64>() {
            Ok(value) if value > 0.0 && value <= 20.0 => Ok(Zipf::new(keys.max(1), value)),
            _ => Err(wrong(format!(
                "{exponent:?} is not an exponent above 0 and at most 20"
            ))),
        };
        let ratio = |text: &str| match text.parse::<f64>() {
            Ok(value) if value > 0.0 && value < 1.0 => Ok(value),
            _ => Err(wrong(format!("{text:?} is not a share between 0 and 1"))),
        };
        let words: Vec<&str> = text.split(':').collect();
        match words.as_slice() {
            ["uniform"] => Ok(Self::Uniform),
            ["zipf", exponent] => Ok(Self::Zipf(zipf(exponent)?)),
            ["latest", exponent] => Ok(Self::Latest(zipf(exponent)?)),
            ["hotspot", keys, requests] => Ok(Self::Hotspot {
                keys_ratio: ratio(keys)?,
                requests_ratio: ratio(requests)?,
            }),
            _ => {
                let known: Vec<&str> = LAWS.iter().map(|(name, _)| *name).collect();
                Err(wrong(format!(
                    "{text:?} is not one of {}",
                    known.join(", ")
                )))
            }
        }
    }

    /// The next key, where `present` keys are there, the first `keys.count()` of them from the start.
    #[inline]
    pub fn next(&self, keys: &Keyspace, present: u64, random: &mut Random) -> u64 {
        let at_rank = |rank: u64| {
            // Inserted keys take the ranks after those of the start, in the order of their insertion.
            if rank < keys.count() {
                keys.key_at_rank(rank)
            } else {
                rank
            }
        };
        match self {
            // Alike in any order.
            Self::Uniform => random.below(present),
            Self::Zipf(zipf) => at_rank(zipf.rank_of(present, random) - 1),
            Self::Latest(zipf) => present - zipf.rank_of(present, random),
            Self::Hotspot {
                keys_ratio,
                requests_ratio,
            } => {
                let hot = ((present as f64 * keys_ratio) as u64).clamp(1, present);
                if hot == present || random.unit() < *requests_ratio {
                    at_rank(random.below(hot))
                } else {
                    at_rank(hot + random.below(present - hot))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sizes;
    use crate::random::Purpose;

    fn counts(law: &str, count: u64, present: u64, draws: u64) -> Vec<u64> {
        let keys = Keyspace::new(count, Sizes::fixed(16), Sizes::fixed(10), false).unwrap();
        let popularity = Popularity::parse(law, count).unwrap();
        let mut random = Purpose::Requests.stream(5, 0);
        let mut seen = vec![0; present as usize];
        for _ in 0..draws {
            seen[popularity.next(&keys, present, &mut random) as usize] += 1;
        }
        seen
    }

    /// Chi-square of counts against probabilities, over its freedom.
    fn chi_per_freedom(seen: &[u64], expected: impl Fn(usize) -> f64, draws: f64) -> f64 {
        let chi: f64 = seen
            .iter()
            .enumerate()
            .map(|(i, &n)| (n as f64 - draws * expected(i)).powi(2) / (draws * expected(i)))
            .sum();
        chi / (seen.len() - 1) as f64
    }

    #[test]
    fn the_latest_key_is_the_most_popular_by_zipfs_law_over_ages() {
        // 100 keys at the start and 50 inserted since: the law is exact over 150.
        let (present, draws) = (150, 600_000);
        let seen = counts("latest:0.99", 100, present, draws);
        let sum: f64 = (1..=present).map(|k| (k as f64).powf(-0.99)).sum();
        let age = |key: usize| present as f64 - key as f64;
        let chi = chi_per_freedom(&seen, |key| age(key).powf(-0.99) / sum, draws as f64);
        // 149 degrees of freedom: 207 / 149 is the 0.999 quantile.
        assert!(chi < 1.39, "{chi}");
    }

    #[test]
    fn inserted_keys_are_the_least_popular_under_zipf_and_alike_under_uniform() {
        let draws = 600_000;
        let seen = counts("zipf:0.8", 100, 150, draws);
        let sum: f64 = (1..=150).map(|k| f64::from(k).powf(-0.8)).sum();
        let inserted = chi_per_freedom(
            &seen[100..],
            |i| (i as f64 + 101.0).powf(-0.8) / sum,
            draws as f64,
        );
        // 49 degrees of freedom: 85.4 / 49.
        assert!(inserted < 1.75, "{inserted}");
        let uniform = counts("uniform", 100, 150, draws);
        assert!(chi_per_freedom(&uniform, |_| 1.0 / 150.0, draws as f64) < 1.39);
    }

    #[test]
    fn a_hotspot_gets_its_share() {
        let seen = counts("hotspot:0.2:0.9", 1000, 1000, 200_000);
        let mut sorted = seen;
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let hot: u64 = sorted[..200].iter().sum();
        // Binomial: standard deviation 134.
        assert!((179_400..=180_600).contains(&hot), "{hot}");
    }

    #[test]
    fn names_are_checked() {
        for good in ["uniform", "zipf:0.99", "latest:1.2", "hotspot:0.1:0.9"] {
            assert!(Popularity::parse(good, 10).is_ok(), "{good}");
        }
        for bad in [
            "zipf",
            "zipf:",
            "zipf:-1",
            "zipf:nan",
            "normal",
            "latest",
            "latest:21",
            "hotspot:1:0.5",
            "hotspot:0.5",
            "",
        ] {
            assert!(Popularity::parse(bad, 10).is_err(), "{bad}");
        }
    }
}
