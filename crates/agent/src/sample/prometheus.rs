//! Prometheus' text format, as far as operations and latency need it.
//!
//! In: the text that a program exposes. Out: samples; the sum of those that a selector takes; quantiles of histograms.
//!
//! Source: Prometheus, "Exposition formats", text-based format. A malformed line is skipped, as a scraper that
//! wants a few of many metrics may. Invariant: nothing panics, whatever the text is.

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample<'t> {
    /// The metric.
    pub name: &'t str,
    /// Its labels, values unescaped.
    pub labels: Vec<(&'t str, String)>,
    /// Its value.
    pub value: f64,
}

impl Sample<'_> {
    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        let found = self.labels.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// The samples of a text.
pub fn samples(text: &str) -> impl Iterator<Item = Sample<'_>> {
    text.lines().filter_map(sample)
}

fn is_name(text: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':';
    !text.is_empty()
        && !text.starts_with(|letter: char| letter.is_ascii_digit())
        && text.chars().all(fits)
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let end = line.find(['{', ' ', '\t'])?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inside) => labels(inside)?,
        None => (Vec::new(), rest),
    };
    let mut words = rest.split_ascii_whitespace();
    let value = number(words.next()?)?;
    is_name(name).then_some(Sample {
        name,
        labels,
        value,
    })
}

fn number(word: &str) -> Option<f64> {
    match word {
        "+Inf" | "Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        _ => word.parse().ok(),
    }
}

/// Labels up to the closing brace, and what follows it.
fn labels(mut rest: &str) -> Option<(Vec<(&str, String)>, &str)> {
    let mut found = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((found, after));
        }
        let (name, after) = rest.split_once('=')?;
        let name = name.trim();
        let after = after.trim_start().strip_prefix('"')?;
        let (value, after) = quoted(after)?;
        if !is_name(name) {
            return None;
        }
        found.push((name, value));
        rest = after;
    }
}

/// A quoted text from behind its first quote, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

/// A metric, and labels that must have these values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    name: String,
    labels: Vec<(String, String)>,
}

impl Selector {
    /// The selector in `name{label="value",...}`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let line = format!("{} 0", text.trim());
        let sample = sample(&line).ok_or_else(|| {
            format!("{text:?} is not a counter such as requests_total{{code=\"200\"}}")
        })?;
        Ok(Self {
            name: sample.name.to_owned(),
            labels: sample
                .labels
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        })
    }

    fn takes(&self, sample: &Sample<'_>, suffix: &str) -> bool {
        sample.name.strip_prefix(self.name.as_str()) == Some(suffix)
            && self
                .labels
                .iter()
                .all(|(name, value)| sample.label(name) == Some(value))
    }

    /// The sum of what it takes; None where it takes nothing.
    pub fn sum(&self, text: &str) -> Option<f64> {
        let taken = samples(text).filter(|sample| self.takes(sample, ""));
        taken
            .map(|sample| sample.value)
            .reduce(|one, other| one + other)
    }

    /// The histogram or summary of this name, all that it takes added up.
    pub fn latency(&self, text: &str) -> Latency {
        let mut latency = Latency::default();
        for sample in samples(text) {
            let value = sample.value;
            if self.takes(&sample, "_sum") {
                latency.sum = Some(latency.sum.unwrap_or(0.0) + value);
            } else if self.takes(&sample, "_count") {
                latency.count = Some(latency.count.unwrap_or(0.0) + value);
            } else if self.takes(&sample, "_bucket") {
                let bound = sample.label("le").and_then(number);
                if let Some(bound) = bound.filter(|bound| !bound.is_nan()) {
                    latency.add_bucket(bound, value);
                }
            } else if self.takes(&sample, "")
                && sample.label("quantile").and_then(number) == Some(0.99)
            {
                // Quantiles cannot be added: where there are several, the worst is reported.
                latency.p99 = Some(latency.p99.map_or(value, |known: f64| known.max(value)));
            }
        }
        latency
    }
}

/// A histogram or a summary as it stands now.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Latency {
    sum: Option<f64>,
    count: Option<f64>,
    /// Upper bounds, ascending, with the operations at or below each.
    buckets: Vec<(f64, f64)>,
    /// A summary's own 99th percentile.
    p99: Option<f64>,
}

/// Mean and 99th percentile of what came between two looks, in the metric's unit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Between {
    /// Mean.
    pub mean: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
}

impl Latency {
    fn add_bucket(&mut self, bound: f64, count: f64) {
        match self
            .buckets
            .binary_search_by(|(known, _)| known.total_cmp(&bound))
        {
            Ok(at) => self.buckets[at].1 += count,
            Err(at) => self.buckets.insert(at, (bound, count)),
        }
    }

    /// What came since `earlier`. Nothing where a counter went backwards: the program was started anew.
    pub fn since(&self, earlier: &Self) -> Between {
        let more =
            |now: Option<f64>, then: Option<f64>| Some(now? - then?).filter(|more| *more >= 0.0);
        let count = more(self.count, earlier.count).filter(|count| *count > 0.0);
        let sum = more(self.sum, earlier.sum);
        let mean = count.zip(sum).map(|(count, sum)| sum / count);
        let p99 = match self.buckets.is_empty() {
            true => self.p99.filter(|p99| p99.is_finite()),
            false => self.quantile_since(earlier, 0.99),
        };
        Between { mean, p99 }
    }

    /// A quantile of what came since `earlier`, linear within its bucket, as Prometheus' own `histogram_quantile` has it.
    fn quantile_since(&self, earlier: &Self, quantile: f64) -> Option<f64> {
        let bounds =
            |buckets: &[(f64, f64)]| buckets.iter().map(|bucket| bucket.0).collect::<Vec<_>>();
        if bounds(&self.buckets) != bounds(&earlier.buckets) {
            return None;
        }
        let now = self.buckets.iter().zip(&earlier.buckets);
        let counts: Vec<(f64, f64)> = now
            .map(|((bound, now), (_, then))| (*bound, now - then))
            .collect();
        let total = counts
            .last()
            .filter(|(bound, _)| *bound == f64::INFINITY)?
            .1;
        if total.is_nan() || total <= 0.0 || counts.iter().any(|(_, count)| *count < 0.0) {
            return None;
        }
        let rank = quantile * total;
        let at = counts.iter().position(|(_, count)| *count >= rank)?;
        let (upper, until) = counts[at];
        let (lower, before) = match at {
            0 => (0.0_f64.min(upper), 0.0),
            _ => counts[at - 1],
        };
        if upper == f64::INFINITY {
            // Beyond the last bound nothing is known but that it is beyond.
            return (at > 0).then_some(lower);
        }
        Some(lower + (upper - lower) * ((rank - before) / (until - before)).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_format() {
        let text = "# HELP a b\n# TYPE a counter\na 1\na{x=\"1\"} 2 1700000000\n\
                    b{ y = \"q\\\"\\\\\\n}\" , } +Inf\nbad{\n{} 1\n9x 1\nc NaN\n";
        let found: Vec<Sample<'_>> = samples(text).collect();
        assert_eq!(found.len(), 4);
        assert_eq!(found[2].label("y"), Some("q\"\\\n}"));
        assert_eq!(found[2].value, f64::INFINITY);
        let sum = |selector: &str| Selector::parse(selector).unwrap().sum(text);
        assert_eq!(sum("a"), Some(3.0));
        assert_eq!(sum("a{x=\"1\"}"), Some(2.0));
        assert_eq!(sum("a{x=\"2\"}"), None);
        assert_eq!(sum("nothing"), None);
        assert!(Selector::parse("a b").is_err());
    }

    #[test]
    fn histograms_of_a_window() {
        let text = |counts: [u32; 4], sum: f64| {
            let [a, b, c, all] = counts;
            format!(
                "l_bucket{{le=\"0.1\"}} {a}\nl_bucket{{le=\"0.2\"}} {b}\nl_bucket{{le=\"1\"}} {c}\nl_bucket{{le=\"+Inf\"}} {all}\n\
                 l_sum {sum}\nl_count {all}\n"
            )
        };
        let selector = Selector::parse("l").unwrap();
        let before = selector.latency(&text([10, 10, 10, 10], 1.0));
        // 100 more: 50 at most 0.1, 48 to 0.2, 2 to 1: the 99th is halfway through the last.
        let after = selector.latency(&text([60, 108, 110, 110], 13.5));
        let between = after.since(&before);
        assert_eq!(between.mean, Some(0.125));
        assert!((between.p99.unwrap() - 0.6).abs() < 1e-12);
        assert_eq!(before.since(&after), Between::default());
        let beyond = selector.latency(&text([10, 10, 10, 110], 13.5));
        assert_eq!(beyond.since(&before).p99, Some(1.0));
    }

    #[test]
    fn summaries() {
        let selector = Selector::parse("l{h=\"x\"}").unwrap();
        let text = "l{h=\"x\",quantile=\"0.99\"} 0.5\nl{h=\"y\",quantile=\"0.99\"} 9\nl_sum{h=\"x\"} 4\nl_count{h=\"x\"} 2\n";
        let zero = "l_sum{h=\"x\"} 0\nl_count{h=\"x\"} 0\n";
        let between = selector.latency(text).since(&selector.latency(zero));
        assert_eq!(
            between,
            Between {
                mean: Some(2.0),
                p99: Some(0.5)
            }
        );
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[a-z_{}=\", \\\\n0-9+.\\PC]{0,120}") {
            let selector = Selector::parse("a").unwrap();
            let latency = selector.latency(&text);
            let _ = (selector.sum(&text), latency.since(&latency), Selector::parse(&text));
        }
    }
}
