//! /proc/meminfo, and the same of a NUMA node, whose lines begin with `Node 0 `. Source: proc_meminfo(5).

use crate::scan::{Words, lines, words};

/// The value of `field`, such as `MemTotal`, bytes (or a count, where the kernel writes no unit).
pub fn value(text: &[u8], field: &str) -> Option<u64> {
    lines(text).find_map(|line| {
        let mut fields = words(line);
        let mut key = fields.next()?;
        if key == b"Node" {
            fields.pass(1);
            key = fields.next()?;
        }
        (key.strip_suffix(b":")? == field.as_bytes()).then(|| bytes(&mut fields))?
    })
}

/// A size in bytes: the kernel writes `kB` and means KiB.
pub fn bytes(words: &mut Words<'_>) -> Option<u64> {
    let number = words.number()?;
    match words.next() {
        Some(b"kB") => number.checked_mul(1024),
        _ => Some(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_machine_and_of_a_node() {
        let text = b"MemTotal:  8 kB\nMemFree: x kB\nHugePages_Total:   3\n";
        assert_eq!(value(text, "MemTotal"), Some(8192));
        assert_eq!(value(text, "MemFree"), None);
        assert_eq!(value(text, "HugePages_Total"), Some(3));
        assert_eq!(value(text, "Mem"), None);
        assert_eq!(value(b"Node 1 MemTotal:  8 kB\n", "MemTotal"), Some(8192));
        assert_eq!(
            value(b"MemTotal: 18446744073709551615 kB\n", "MemTotal"),
            None
        );
    }

    proptest::proptest! {
        #[test]
        fn no_text_does_harm(text: Vec<u8>) {
            value(&text, "MemTotal");
        }
    }
}
