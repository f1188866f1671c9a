//! How requests of an open loop arrive: the law that `--arrival` names, and recordings of arrivals.
//!
//! In: the text of a flag, the text of a recording. Out: an [`Arrival`], which a [`crate::schedule::Schedule`]
//! turns into times. `constant` and `poisson` take their rate from `--rate` and hold over the whole load; `ramp`,
//! `step` and `recorded` bring their rates and are laid over the measure phase: before it a ramp and a step
//! offer their first rate, and a recording is replayed from its beginning. Not here: any clock.

use std::path::Path;
use std::sync::Arc;

use steelyard_record::read_text_file;

use crate::LoadError;
use crate::random::mix;

/// Largest rate that is accepted, per second.
const RATE_MAX_PER_S: f64 = 1e9;
/// Most arrivals of a recording.
const RECORDED_MAX: usize = 50_000_000;
/// Longest file of recorded arrivals, bytes: as many numbers of 20 digits.
const RECORDING_BYTES_MAX: u64 = 21 * RECORDED_MAX as u64;

/// How requests arrive.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrival {
    /// At equal distances.
    Constant,
    /// As a Poisson process: exponential distances.
    Poisson,
    /// At a rate that goes in a straight line from one to the other over the measure phase.
    Ramp {
        /// Rate at its begin, per second.
        from_per_s: f64,
        /// Rate at its end, per second.
        to_per_s: f64,
    },
    /// At rates, per second, that follow one another, each for an equal part of the measure phase.
    Step(Arc<[f64]>),
    /// As they were recorded.
    Recorded(Arc<Recording>),
}

impl Arrival {
    /// `constant`, `poisson`, `ramp:FROM-TO`, `step:R1,R2,...` or `recorded:FILE`, which is read.
    pub fn parse(text: &str) -> Result<Self, LoadError> {
        let wrong = |why: String| LoadError::setting("--arrival", why);
        let rate = |text: &str| match text.trim().parse::<f64>() {
            Ok(rate) if (0.0..=RATE_MAX_PER_S).contains(&rate) => Ok(rate),
            _ => Err(wrong(format!(
                "{text:?} is not a rate from 0 to 1e9 per second"
            ))),
        };
        let arrival = match text.split_once(':') {
            None if text == "constant" => Self::Constant,
            None if text == "poisson" => Self::Poisson,
            Some(("ramp", range)) => {
                let (from, to) = range
                    .split_once('-')
                    .ok_or_else(|| wrong(format!("{text:?} is not ramp:FROM-TO")))?;
                Self::Ramp {
                    from_per_s: rate(from)?,
                    to_per_s: rate(to)?,
                }
            }
            Some(("step", rates)) => {
                Self::Step(rates.split(',').map(rate).collect::<Result<_, _>>()?)
            }
            Some(("recorded", path)) => Self::Recorded(Arc::new(Recording::read(Path::new(path))?)),
            _ => {
                return Err(wrong(format!(
                    "{text:?} is not constant, poisson, ramp:FROM-TO, step:R1,R2,... or recorded:FILE"
                )));
            }
        };
        if arrival.mean_rate_per_s() == Some(0.0) {
            return Err(wrong(format!("{text:?} has no requests")));
        }
        Ok(arrival)
    }

    /// As flags and records name it.
    pub fn name(&self) -> String {
        match self {
            Self::Constant => "constant".to_owned(),
            Self::Poisson => "poisson".to_owned(),
            Self::Ramp {
                from_per_s,
                to_per_s,
            } => format!("ramp:{from_per_s}-{to_per_s}"),
            Self::Step(rates) => {
                let rates: Vec<String> = rates.iter().map(f64::to_string).collect();
                format!("step:{}", rates.join(","))
            }
            Self::Recorded(recording) => format!("recorded:{}", recording.name),
        }
    }

    /// The mean rate over the measure phase, per second; None where `--rate` says it.
    pub fn mean_rate_per_s(&self) -> Option<f64> {
        match self {
            Self::Constant | Self::Poisson => None,
            Self::Ramp {
                from_per_s,
                to_per_s,
            } => Some((from_per_s + to_per_s) / 2.0),
            Self::Step(rates) => Some(rates.iter().sum::<f64>() / rates.len() as f64),
            Self::Recorded(recording) => {
                Some(recording.times_ns.len() as f64 * 1e9 / recording.length_ns as f64)
            }
        }
    }
}

/// Arrivals that were recorded somewhere.
///
/// The file is text: a line that names the column, then a number a line; empty lines and lines that open
/// with `#` are passed over. The column is `times_` or `gaps_` with the unit `s`, `ms`, `us` or `ns`. Times do not
/// decrease and count from the first of them; a gap is the distance to the arrival before, the first one's to
/// the begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// The file.
    name: String,
    /// Since the begin, in order, ns.
    times_ns: Vec<u64>,
    /// After this time it begins again, ns: for gaps their sum, for times the last and one mean gap.
    length_ns: u64,
}

impl Recording {
    /// Reads a recording.
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        let text = read_text_file(path, RECORDING_BYTES_MAX).map_err(|source| LoadError::File {
            path: path.to_owned(),
            source,
        })?;
        let name = path.display().to_string();
        Self::parse(&text, name)
            .map_err(|why| LoadError::setting("--arrival", format!("{}: {why}", path.display())))
    }

    /// Takes a recording from the text of the file `name`; an error says what is wrong with it.
    pub fn parse(text: &str, name: String) -> Result<Self, String> {
        let mut lines = text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line.trim()))
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let header = lines.next().map_or("", |(_, line)| line);
        let wrong_header = || {
            format!(
                "the first line is {header:?}, not times_ or gaps_ with a unit, such as gaps_us"
            )
        };
        let (kind, unit) = header.split_once('_').ok_or_else(wrong_header)?;
        let gaps = match kind {
            "gaps" => true,
            "times" => false,
            _ => return Err(wrong_header()),
        };
        let unit_ns = match unit {
            "s" => 1e9,
            "ms" => 1e6,
            "us" => 1e3,
            "ns" => 1.0,
            _ => return Err(wrong_header()),
        };
        let mut times = Vec::new();
        let (mut sum, mut first) = (0.0, None);
        for (number, line) in lines {
            let value = match line.parse::<f64>() {
                Ok(value) if value.is_finite() && value >= 0.0 => value,
                _ => {
                    return Err(format!("line {number}: {line:?} is not a number >= 0"));
                }
            };
            if times.len() == RECORDED_MAX {
                return Err(format!("it has more than {RECORDED_MAX} arrivals"));
            }
            let at = if gaps {
                sum += value;
                sum
            } else {
                value - *first.get_or_insert(value)
            };
            let at_ns = (at * unit_ns).round();
            // Beyond this a double no longer holds every nanosecond.
            if at_ns > 9e15 {
                return Err(format!("line {number}: it lasts longer than 104 days"));
            }
            if times.last().is_some_and(|&last| at_ns < last as f64) {
                return Err(format!("line {number}: {line} is before the line above"));
            }
            times.push(at_ns as u64);
        }
        let last_ns = times.last().copied().unwrap_or(0);
        if times.len() < 2 || last_ns == 0 {
            return Err(format!(
                "{} arrivals within {last_ns} ns are not a recording",
                times.len()
            ));
        }
        let length_ns = if gaps {
            last_ns
        } else {
            last_ns + (last_ns / (times.len() as u64 - 1)).max(1)
        };
        Ok(Self {
            name,
            times_ns: times,
            length_ns,
        })
    }

    /// The file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A fingerprint of its arrivals, whatever the file's name.
    pub fn fingerprint(&self) -> u64 {
        let times = self.times_ns.iter().chain([&self.length_ns]);
        times.fold(0, |sum, &time_ns| mix(sum ^ time_ns).wrapping_add(1))
    }

    /// When arrival number `index` is, since the begin, ns; after the last the recording begins again.
    pub fn at_ns(&self, index: u64) -> u64 {
        let count = self.times_ns.len() as u64;
        (index / count) * self.length_ns + self.times_ns[(index % count) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn laws_are_parsed_and_named() {
        for text in ["constant", "poisson", "ramp:100-2500.5", "step:10,0,30"] {
            assert_eq!(Arrival::parse(text).unwrap().name(), text);
        }
        assert_eq!(
            Arrival::parse("ramp:0-100").unwrap().mean_rate_per_s(),
            Some(50.0)
        );
        assert_eq!(
            Arrival::parse("step:10,20,60").unwrap().mean_rate_per_s(),
            Some(30.0)
        );
        for bad in [
            "",
            "normal",
            "ramp",
            "ramp:5",
            "ramp:-5",
            "ramp:0-0",
            "ramp:1-inf",
            "step:",
            "step:0,0",
            "step:1,x",
            "recorded:",
            "constant:5",
        ] {
            assert!(Arrival::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_recording_is_replayed_over_and_over() {
        let parse = |text: &str| Recording::parse(text, "file".to_owned());
        let gaps = parse("# from a proxy\n\ngaps_us\n10\n20\n5.5\n").unwrap();
        let times: Vec<u64> = (0..7).map(|i| gaps.at_ns(i)).collect();
        assert_eq!(
            times,
            [10_000, 30_000, 35_500, 45_500, 65_500, 71_000, 81_000]
        );
        let same = parse("gaps_ns\n10000\n20000\n5500\n").unwrap();
        let other = parse("gaps_us\n10\n20\n5.501\n").unwrap();
        assert_eq!(gaps.fingerprint(), same.fingerprint());
        assert_ne!(gaps.fingerprint(), other.fingerprint());
        let times = parse("times_s\n1700000000.5\n1700000001\n1700000001.5\n").unwrap();
        let times: Vec<u64> = (0..4).map(|i| times.at_ns(i)).collect();
        assert_eq!(times, [0, 500_000_000, 1_000_000_000, 1_500_000_000]);
        for bad in [
            "",
            "10\n20\n",
            "gaps\n1\n2\n",
            "gaps_h\n1\n2\n",
            "gaps_s\n1\n",
            "gaps_s\n0\n0\n",
            "gaps_s\n1\n-1\n",
            "gaps_s\n1\nnan\n",
            "times_s\n2\n1\n",
            "gaps_s\n1e300\n1\n",
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_recording_in_order_or_an_error(text in "(gaps|times)_(s|ns)\n([0-9.e\n-]{0,60})") {
            if let Ok(recording) = Recording::parse(&text, String::new()) {
                let times: Vec<u64> = (0..100).map(|i| recording.at_ns(i)).collect();
                prop_assert!(times.is_sorted());
            }
        }
    }
}
