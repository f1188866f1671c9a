//! Reads interval logs back.

use std::collections::BTreeMap;
use std::path::Path;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

/// How many histograms the log holds, and their sum by tag.
pub fn sums(log: &Path) -> (usize, BTreeMap<String, Histogram<u64>>) {
    let text = std::fs::read(log).unwrap();
    let mut sums: BTreeMap<String, Histogram<u64>> = BTreeMap::new();
    let (mut entries, mut deserializer) = (0, Deserializer::new());
    for entry in IntervalLogIterator::new(&text) {
        let LogEntry::Interval(interval) = entry.unwrap() else {
            continue;
        };
        let encoded = interval.encoded_histogram();
        let bytes = base64_decode(encoded);
        let histogram: Histogram<u64> = deserializer.deserialize(&mut bytes.as_slice()).unwrap();
        let tag = interval.tag().unwrap().as_str().to_owned();
        sums.entry(tag)
            .or_insert_with(|| Histogram::new(3).unwrap())
            .add(histogram)
            .unwrap();
        entries += 1;
    }
    (entries, sums)
}

/// Standard base64, as the log has it.
fn base64_decode(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text
        .bytes()
        .filter(|&byte| byte != b'=')
        .map(digit)
        .collect();
    let mut bytes = Vec::new();
    for chunk in digits.chunks(4) {
        let word = chunk
            .iter()
            .enumerate()
            .fold(0u32, |word, (i, &d)| word | u32::from(d) << (18 - 6 * i));
        bytes.extend_from_slice(&word.to_be_bytes()[1..chunk.len()]);
    }
    bytes
}
