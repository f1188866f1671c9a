//! Lists such as `0-3,8` and masks such as `00000001,80000003`, in which the kernel writes CPUs and NUMA nodes.
//!
//! A text that breaks the notation anywhere is no list at all: it is never understood in part. The control plane reads the
//! same notation (`steelyard._base.cpu_lists`); `schemas/golden/cpu_list_vectors.json` holds both to the same answers.
//! Source: Linux, lib/bitmap-str.c.

/// No Linux has more CPUs: a number from here on is a mistake, and so is a text that names more numbers.
const NUMBERS_MAX: u32 = 65_536;

/// The numbers of a list, in the order given, each once. Blanks may stand around each part; an empty text is an empty
/// list. None where the text is no list: other characters, an empty part, a range that runs backwards, a number from
/// 65,536 on.
///
/// ```
/// use steelyard_kernel::cpu_list;
/// assert_eq!(cpu_list::parse(b"0-2,8\n"), Some(vec![0, 1, 2, 8]));
/// assert_eq!(cpu_list::parse(b"3-1"), None);
/// ```
pub fn parse(text: &[u8]) -> Option<Vec<u32>> {
    let text = trimmed(text);
    if text.is_empty() {
        return Some(Vec::new());
    }
    let mut numbers = Vec::new();
    let mut left = NUMBERS_MAX;
    for part in text.split(|byte| *byte == b',') {
        let mut ends = part.trim_ascii().splitn(2, |byte| *byte == b'-');
        let first = number(ends.next()?)?;
        let last = ends.next().map_or(Some(first), number)?;
        left = left.checked_sub(last.checked_sub(first)? + 1)?;
        numbers.extend(first..=last);
    }
    if !numbers.is_sorted_by(|a, b| a < b) {
        let mut is_new = vec![true; NUMBERS_MAX as usize];
        numbers.retain(|number| std::mem::replace(&mut is_new[*number as usize], false));
    }
    Some(numbers)
}

/// The text without blanks around it, and without the NUL that some kernels end a file with.
fn trimmed(mut text: &[u8]) -> &[u8] {
    while let Some((0, rest)) = text.split_last() {
        text = rest;
    }
    text.trim_ascii()
}

fn number(digits: &[u8]) -> Option<u32> {
    match crate::scan::leading_number(digits) {
        (Some(value), used) if used == digits.len() => u32::try_from(value)
            .ok()
            .filter(|value| *value < NUMBERS_MAX),
        _ => None,
    }
}

/// The numbers of a bit mask in hexadecimal, in order; commas may part its digits. An empty text is an empty mask; None
/// where the text is no mask.
pub fn parse_mask(text: &[u8]) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    let mut place = 0;
    for byte in trimmed(text).iter().rev().filter(|byte| **byte != b',') {
        let digit = char::from(*byte).to_digit(16)?;
        if place >= NUMBERS_MAX {
            return None;
        }
        numbers.extend(
            (0..4)
                .filter(|bit| digit >> bit & 1 == 1)
                .map(|bit| place + bit),
        );
        place += 4;
    }
    Some(numbers)
}

/// Numbers as the kernel lists them: `0-3,8`.
pub fn format(numbers: &[u32]) -> String {
    let mut ordered = numbers.to_vec();
    ordered.sort_unstable();
    ordered.dedup();
    let runs = ordered.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let parts: Vec<String> = runs
        .map(|run| match run {
            [one] => one.to_string(),
            _ => format!("{}-{}", run[0], run[run.len() - 1]),
        })
        .collect();
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What both languages are held to.
    fn vectors(kind: &str) -> Vec<(String, Option<Vec<u32>>)> {
        let text = include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../schemas/golden/cpu_list_vectors.json"
        ));
        let all: serde_json::Value = serde_json::from_str(text).expect("JSON");
        serde_json::from_value(all[kind].clone()).expect("pairs of text and numbers")
    }

    #[test]
    fn lists_and_masks_are_what_both_languages_say() {
        for (text, numbers) in vectors("lists") {
            assert_eq!(parse(text.as_bytes()), numbers, "{text:?}");
        }
        for (text, numbers) in vectors("masks") {
            assert_eq!(parse_mask(text.as_bytes()), numbers, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(numbers in proptest::collection::btree_set(0u32..65_536, 0..50)) {
            let numbers: Vec<u32> = numbers.into_iter().collect();
            let text = format(&numbers);
            prop_assert_eq!(parse(text.as_bytes()), Some(numbers));
        }

        #[test]
        fn a_mask_is_read_back(bits: u128) {
            let text = format!("{:08x},{:08x},{:016x}", bits >> 96, bits >> 64 & 0xffff_ffff, bits & u128::from(u64::MAX));
            let numbers: Vec<u32> = (0..128).filter(|bit| bits >> bit & 1 == 1).collect();
            prop_assert_eq!(parse_mask(text.as_bytes()), Some(numbers));
        }

        #[test]
        fn no_text_does_harm(bytes: Vec<u8>, like in "[0-9a-f,x -]{0,20}\n?") {
            for text in [&bytes[..], like.as_bytes()] {
                if let Some(numbers) = parse(text) {
                    prop_assert!(numbers.len() <= 65_536 && numbers.iter().all(|number| *number < 65_536));
                }
                parse_mask(text);
            }
        }
    }
}
