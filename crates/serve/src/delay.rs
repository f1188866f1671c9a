//! How long the simulated backend takes to find an object.

use std::str::FromStr;

use steelyard_statistics::Random;

/// A distribution of delays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Delay {
    /// None at all, as in DCPerf's release.
    None,
    /// Always the same.
    Constant {
        /// The delay, ns.
        delay_ns: f64,
    },
    /// Memoryless.
    Exponential {
        /// Its mean, ns.
        mean_ns: f64,
    },
    /// Skewed, as most backends are.
    LogNormal {
        /// Its median, ns.
        median_ns: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
}

impl Delay {
    /// One delay, ns.
    pub fn draw_ns(&self, random: &mut Random) -> u64 {
        let delay_ns = match *self {
            Self::None => 0.0,
            Self::Constant { delay_ns } => delay_ns,
            // 1 - unit() is never 0, so that the logarithm is finite.
            Self::Exponential { mean_ns } => -mean_ns * (1.0 - random.unit()).ln(),
            Self::LogNormal { median_ns, sigma } => median_ns * (sigma * normal(random)).exp(),
        };
        delay_ns as u64
    }
}

/// A standard normal number. Source: G. Box, M. Muller, "A note on the generation of random normal
/// deviates", 1958.
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

impl FromStr for Delay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            ["none"] => Ok(Self::None),
            ["constant", delay] => Ok(Self::Constant {
                delay_ns: nanoseconds(delay)?,
            }),
            ["exponential", mean] => Ok(Self::Exponential {
                mean_ns: nanoseconds(mean)?,
            }),
            ["lognormal", median, sigma] => {
                let sigma: f64 = sigma
                    .parse()
                    .map_err(|_| format!("{sigma:?} is not a number"))?;
                if !(0.0..=10.0).contains(&sigma) {
                    return Err(format!("a sigma of {sigma} is not between 0 and 10"));
                }
                Ok(Self::LogNormal {
                    median_ns: nanoseconds(median)?,
                    sigma,
                })
            }
            _ => Err(format!(
                "{text:?} is not none, constant:50us, exponential:MEAN or lognormal:MEDIAN:SIGMA"
            )),
        }
    }
}

fn nanoseconds(text: &str) -> Result<f64, String> {
    let bad = || format!("{text:?} is not a time such as 50us or 2ms");
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .ok_or_else(bad)?;
    let value: f64 = text[..end].parse().map_err(|_| bad())?;
    let factor = match &text[end..] {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return Err(bad()),
    };
    Ok(value * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_ns(delay: &str) -> f64 {
        let delay: Delay = delay.parse().unwrap();
        let mut random = Random::new(7);
        (0..200_000)
            .map(|_| delay.draw_ns(&mut random) as f64)
            .sum::<f64>()
            / 200_000.0
    }

    #[test]
    fn means_are_those_of_the_distributions() {
        assert_eq!(mean_ns("none"), 0.0);
        assert_eq!(mean_ns("constant:50us"), 50_000.0);
        assert!((mean_ns("exponential:1ms") / 1e6 - 1.0).abs() < 0.01);
        // The mean of a log-normal is its median times exp(sigma^2 / 2).
        assert!((mean_ns("lognormal:100us:0.5") / (1e5 * 0.125f64.exp()) - 1.0).abs() < 0.01);
    }

    #[test]
    fn refuses_in_words() {
        for text in [
            "",
            "constant",
            "constant:5",
            "constant:5y",
            "lognormal:1ms:x",
            "lognormal:1ms:-1",
            "pareto:1",
        ] {
            assert!(text.parse::<Delay>().is_err(), "{text:?}");
        }
    }
}
