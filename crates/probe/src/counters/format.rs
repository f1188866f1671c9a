//! Where a PMU wants the terms of an event: which bits of which word of `perf_event_attr`.
//!
//! In: texts of `format/*`, such as `config:0-7,32-35`, and of `events/*`, such as `event=0x3c,umask=0x01`.
//! Out: the words of an event. Source: Linux, Documentation/ABI/testing/sysfs-bus-event_source-devices-format
//! and -events.
//!
//! Invariants: a value that its bits cannot hold is refused, never cut; no text makes it panic.

use std::collections::BTreeMap;

/// The words of `perf_event_attr` that say which event: config, config1, config2 and config3.
pub type Words = [u64; 4];

const WORDS: [&str; 4] = ["config", "config1", "config2", "config3"];

/// The bits of one term.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    word: usize,
    /// First and last bit of each range, in the order in which the value fills them from its lowest bit.
    ranges: Vec<(u32, u32)>,
}

impl Format {
    /// The whole word called `name`.
    fn whole(name: &str) -> Option<Self> {
        Some(Self {
            word: WORDS.iter().position(|word| *word == name)?,
            ranges: vec![(0, 63)],
        })
    }

    /// Reads one file of a PMU's `format`; None when it is of no known form.
    pub fn parse(text: &str) -> Option<Self> {
        let (word, bits) = text.trim().split_once(':')?;
        let word = WORDS.iter().position(|known| *known == word)?;
        let mut taken = 0_u64;
        let mut ranges = Vec::new();
        for range in bits.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last > 63 || taken & mask(first, last) != 0 {
                return None;
            }
            taken |= mask(first, last);
            ranges.push((first, last));
        }
        Some(Self { word, ranges })
    }

    /// How many bits a value may have.
    pub fn bits(&self) -> u32 {
        self.ranges
            .iter()
            .map(|(first, last)| last - first + 1)
            .sum()
    }

    /// Puts `value` into its bits; None when they cannot hold it.
    pub fn apply(&self, value: u64, words: &mut Words) -> Option<()> {
        if self.bits() < 64 && value >> self.bits() != 0 {
            return None;
        }
        let mut rest = value;
        for &(first, last) in &self.ranges {
            words[self.word] |= (rest << first) & mask(first, last);
            // A range of 64 bits is the only one of its format.
            rest = rest.checked_shr(last - first + 1).unwrap_or(0);
        }
        Some(())
    }
}

/// The bits from `first` to `last`.
fn mask(first: u32, last: u32) -> u64 {
    (u64::MAX >> (63 - (last - first))) << first
}

/// The words that `terms` make with a PMU's `formats`, or why they make none.
pub fn words<'t>(
    terms: impl IntoIterator<Item = (&'t str, u64)>,
    formats: &BTreeMap<String, Format>,
) -> Result<Words, String> {
    let mut words = Words::default();
    for (term, value) in terms {
        // A PMU's own format of that name goes first.
        let format = formats.get(term).cloned().or_else(|| Format::whole(term));
        let Some(format) = format else {
            let known: Vec<&str> = formats.keys().map(String::as_str).collect();
            return Err(match known.as_slice() {
                [] => format!("the PMU has no term {term}, only config, config1 and config2"),
                _ => format!("the PMU has no term {term}; it has {}", known.join(", ")),
            });
        };
        if format.apply(value, &mut words).is_none() {
            return Err(format!(
                "term {term}={value:#x} does not fit its {} bits",
                format.bits()
            ));
        }
    }
    Ok(words)
}

/// Reads one file of a PMU's `events`: terms with values, where a term without one is 1.
pub fn parse_event(text: &str) -> Result<Vec<(String, u64)>, String> {
    text.trim()
        .split(',')
        .map(|term| {
            let (name, value) = term.trim().split_once('=').unwrap_or((term.trim(), "1"));
            if name.is_empty() {
                return Err(format!("{text:?} is not a list of terms"));
            }
            if value == "?" {
                return Err(format!("the event needs a value for {name}"));
            }
            let number = match value.strip_prefix("0x").or(value.strip_prefix("0X")) {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => value.parse(),
            };
            let number = number.map_err(|_| format!("{name}={value} is not a number"))?;
            Ok((name.to_owned(), number))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn formats(texts: &[(&str, &str)]) -> BTreeMap<String, Format> {
        texts
            .iter()
            .map(|(name, text)| ((*name).to_owned(), Format::parse(text).expect("a format")))
            .collect()
    }

    #[test]
    fn a_value_fills_its_ranges_from_its_lowest_bit() {
        let mut words = Words::default();
        let event = Format::parse("config:0-7,32-35\n").expect("a format");
        event.apply(0xabc, &mut words).expect("fits");
        assert_eq!(words, [0xa_0000_00bc, 0, 0, 0]);
        assert_eq!(event.apply(0x1000, &mut Words::default()), None);
        let descending = Format::parse("config2:8-11,0-3").expect("a format");
        let mut words = Words::default();
        descending.apply(0x21, &mut words).expect("fits");
        assert_eq!(words, [0, 0, 0x102, 0]);
    }

    #[test]
    fn terms_of_a_real_pmu_make_the_words_that_perf_makes() {
        // Intel's: perf stat -vv -e cpu/event=0xb7,umask=0x1,offcore_rsp=0x3fbfc00001/.
        let formats = formats(&[
            ("event", "config:0-7"),
            ("umask", "config:8-15"),
            ("edge", "config:18"),
            ("cmask", "config:24-31"),
            ("offcore_rsp", "config1:0-63"),
        ]);
        let terms = [
            ("event", 0xb7),
            ("umask", 1),
            ("offcore_rsp", 0x3f_bfc0_0001),
        ];
        assert_eq!(words(terms, &formats), Ok([0x1b7, 0x3f_bfc0_0001, 0, 0]));
        assert_eq!(
            words([("edge", 1), ("cmask", 1), ("config", 0x3c)], &formats),
            Ok([0x0104_003c, 0, 0, 0])
        );
        let error = words([("umask", 0x100)], &formats).expect_err("nine bits");
        assert_eq!(error, "term umask=0x100 does not fit its 8 bits");
        let error = words([("frontend", 1)], &formats).expect_err("another CPU's term");
        assert!(
            error.contains("no term frontend; it has cmask, edge, event"),
            "{error}"
        );
    }

    #[test]
    fn formats_of_no_known_form_are_none() {
        for text in [
            "",
            "config",
            "config:",
            "config:8-7",
            "config:0-64",
            "config9:0",
            "config:0-3,2-5",
        ] {
            assert_eq!(Format::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_event_is_a_list_of_terms() {
        assert_eq!(
            parse_event("event=0x3c,umask=1,inv\n"),
            Ok(vec![
                ("event".to_owned(), 0x3c),
                ("umask".to_owned(), 1),
                ("inv".to_owned(), 1)
            ])
        );
        assert!(
            parse_event("event=?")
                .expect_err("a parameter")
                .contains("value for event")
        );
        assert!(parse_event("event=x").is_err());
        assert!(parse_event("").is_err());
    }

    proptest! {
        #[test]
        fn a_value_that_fits_comes_back_from_its_bits(
            value: u64,
            cuts in proptest::collection::btree_set(0..=64_u32, 2..8),
        ) {
            // Every other gap between the cuts is a range.
            let cuts: Vec<u32> = cuts.into_iter().collect();
            let ranges: Vec<(u32, u32)> = cuts
                .chunks_exact(2)
                .map(|pair| (pair[0], pair[1] - 1))
                .collect();
            let text: Vec<String> = ranges.iter().map(|(a, b)| format!("{a}-{b}")).collect();
            let format = Format::parse(&format!("config1:{}", text.join(","))).expect("a format");
            let bits = format.bits();
            let value = if bits == 64 { value } else { value & ((1 << bits) - 1) };
            let mut words = Words::default();
            prop_assert!(format.apply(value, &mut words).is_some());
            let mut back = 0_u64;
            for (place, bit) in ranges.iter().flat_map(|(a, b)| *a..=*b).enumerate() {
                back |= (words[1] >> bit & 1) << place;
            }
            prop_assert_eq!(back, value);
            prop_assert_eq!((words[0], words[2], words[3]), (0, 0, 0));
            if bits < 64 {
                prop_assert!(format.apply(value | 1 << bits, &mut Words::default()).is_none());
            }
        }

        #[test]
        fn no_text_does_harm(format: String, event: String, value: u64,
                             like in "config[0-9]?:[0-9,-]{0,12}") {
            for text in [&format, &like] {
                if let Some(format) = Format::parse(text) {
                    format.apply(value, &mut Words::default());
                }
            }
            let _ = parse_event(&event);
        }
    }
}
