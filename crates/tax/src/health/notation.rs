//! How the kernel writes lists of CPUs, masks, sizes and amounts of memory.

use std::collections::BTreeSet;

/// The bytes of a field of a meminfo file, whose lines are `MemTotal: 32 kB` or `Node 0 MemTotal: 32 kB`.
pub(super) fn meminfo(text: &str, field: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| *word != field);
        words.next()?;
        Some(words.next()?.parse::<u64>().ok()? * 1024)
    })
}

/// The bytes of a kernel size such as `32K`.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    digits.trim().parse::<u64>().ok()?.checked_shl(shift)
}

/// The numbers of a kernel list such as `0-2,8`; parts that are no ranges are left out, and so is whatever
/// lies beyond 65,535, which no Linux has.
pub fn parse_list(text: &str) -> Vec<usize> {
    let mut found = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<usize>(), last.trim().parse::<usize>())
            && last < 65_536
        {
            found.extend(first..=last);
        }
    }
    found.into_iter().collect()
}

/// The numbers of a kernel bit mask such as `00000001,80000003`.
pub(super) fn parse_mask(text: &str) -> Vec<usize> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|c| *c != ',')
        .map_while(|c| c.to_digit(16))
        .collect();
    let mut found = Vec::new();
    for (place, digit) in digits.iter().rev().enumerate() {
        found.extend(
            (0..4)
                .filter(|bit| digit >> bit & 1 == 1)
                .map(|bit| place * 4 + bit),
        );
    }
    found
}

/// Numbers as the kernel lists them.
pub(super) fn format_list(numbers: &[usize]) -> String {
    let ordered: Vec<usize> = numbers
        .iter()
        .copied()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let mut parts = Vec::new();
    let mut at = 0;
    while at < ordered.len() {
        let mut last = at;
        while last + 1 < ordered.len() && ordered[last + 1] == ordered[last] + 1 {
            last += 1;
        }
        parts.push(if last == at {
            ordered[at].to_string()
        } else {
            format!("{}-{}", ordered[at], ordered[last])
        });
        at = last + 1;
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lists_come_back(numbers in proptest::collection::btree_set(0usize..5000, 0..50)) {
            let numbers: Vec<usize> = numbers.into_iter().collect();
            prop_assert_eq!(parse_list(&format_list(&numbers)), numbers);
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in ".{0,60}") {
            parse_list(&text);
            parse_mask(&text);
            parse_size(&text);
            meminfo(&text, "MemTotal:");
        }
    }
}
