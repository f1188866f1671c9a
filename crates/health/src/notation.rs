//! How the kernel writes lists of CPUs, masks, sizes and amounts of memory.

use steelyard_kernel::cpu_list;

/// The bytes of a field of a meminfo file, whose lines are `MemTotal: 32 kB` or `Node 0 MemTotal: 32 kB`.
pub(crate) fn meminfo(text: &str, field: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| *word != field);
        words.next()?;
        Some(words.next()?.parse::<u64>().ok()? * 1024)
    })
}

/// The bytes of a kernel size such as `32K`.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
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

/// The numbers of a kernel list such as `0-2,8`, in order; none where it is no list.
pub(crate) fn parse_list(text: &str) -> Vec<usize> {
    in_order(cpu_list::parse(text.as_bytes()))
}

/// The numbers of a kernel bit mask such as `00000001,80000003`; none where it is no mask.
pub(crate) fn parse_mask(text: &str) -> Vec<usize> {
    in_order(cpu_list::parse_mask(text.as_bytes()))
}

fn in_order(numbers: Option<Vec<u32>>) -> Vec<usize> {
    let mut numbers: Vec<usize> = numbers
        .unwrap_or_default()
        .into_iter()
        .map(|number| number as usize)
        .collect();
    numbers.sort_unstable();
    numbers
}

/// Numbers as the kernel lists them.
pub(crate) fn format_list(numbers: &[usize]) -> String {
    cpu_list::format(
        &numbers
            .iter()
            .map(|number| *number as u32)
            .collect::<Vec<_>>(),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in ".{0,60}") {
            parse_size(&text);
            meminfo(&text, "MemTotal:");
        }
    }
}
