//! Scanners over the text of /proc and /sys: bytes in, numbers and words out.
//!
//! Invariants: nothing here allocates, and nothing panics whatever the bytes are, since a kernel newer than
//! this program may print what it likes. A number that does not fit is `None`.
//!
//! Not here: what the fields mean; see each source.

/// The lines of `text`, without their ends.
pub fn lines(text: &[u8]) -> Lines<'_> {
    Lines { rest: text }
}

/// Iterator of [`lines`].
#[derive(Debug, Clone)]
pub struct Lines<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let (line, rest) = match memchr::memchr(b'\n', self.rest) {
            Some(end) => (&self.rest[..end], &self.rest[end + 1..]),
            None => (self.rest, &self.rest[self.rest.len()..]),
        };
        self.rest = rest;
        Some(line)
    }
}

/// The words of a line, parted by spaces or tabs.
#[derive(Debug, Clone)]
pub struct Words<'a> {
    rest: &'a [u8],
}

/// The words of `line`.
pub fn words(line: &[u8]) -> Words<'_> {
    Words { rest: line }
}

impl<'a> Words<'a> {
    /// What has not been scanned yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn skip_blanks(&mut self) {
        let blanks = self
            .rest
            .iter()
            .take_while(|&&byte| byte == b' ' || byte == b'\t')
            .count();
        self.rest = &self.rest[blanks..];
    }

    /// The next word as a number; the word is consumed even when it is not one.
    pub fn number(&mut self) -> Option<u64> {
        self.skip_blanks();
        let (value, used) = leading_number(self.rest);
        match self.rest.get(used) {
            None | Some(b' ' | b'\t') => {
                self.rest = &self.rest[used..];
                value
            }
            Some(_) => {
                self.next();
                None
            }
        }
    }

    /// Passes over `count` words.
    pub fn pass(&mut self, count: usize) {
        for _ in 0..count {
            self.next();
        }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.skip_blanks();
        let end = self
            .rest
            .iter()
            .position(|&byte| byte == b' ' || byte == b'\t')
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }
}

/// The decimal number that `text` opens with, if it has one that fits, and how many bytes its digits take.
pub fn leading_number(text: &[u8]) -> (Option<u64>, usize) {
    let mut value: u64 = 0;
    let mut used = 0;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        // 19 digits always fit in 64 bits; only the rare longer number needs the check.
        value = if used < 19 {
            value * 10 + u64::from(digit)
        } else {
            match value
                .checked_mul(10)
                .and_then(|value| value.checked_add(u64::from(digit)))
            {
                Some(value) => value,
                None => {
                    let more = text[used..]
                        .iter()
                        .take_while(|byte| byte.is_ascii_digit())
                        .count();
                    return (None, used + more);
                }
            }
        };
        used += 1;
    }
    ((used > 0).then_some(value), used)
}

/// A file's whole text as one number, as most files of /sys are; blanks around it are allowed.
pub fn number(text: &[u8]) -> Option<u64> {
    words(trim(text)).number()
}

/// The same where the number may be negative, as temperatures are.
pub fn signed_number(text: &[u8]) -> Option<i64> {
    let text = trim(text);
    match text.strip_prefix(b"-") {
        Some(digits) => number(digits).and_then(|value| 0i64.checked_sub_unsigned(value)),
        None => number(text).and_then(|value| i64::try_from(value).ok()),
    }
}

/// A number with a decimal point, such as a load average.
pub fn decimal(word: &[u8]) -> Option<f64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// `text` without blanks and line ends at either side.
pub fn trim(text: &[u8]) -> &[u8] {
    text.trim_ascii()
}

/// `key: value` or `key value`: the key and the words that follow.
pub fn key_value(line: &[u8]) -> Option<(&[u8], Words<'_>)> {
    let mut words = words(line);
    let key = words.next()?;
    Some((key.strip_suffix(b":").unwrap_or(key), words))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_at_the_edge_of_64_bits() {
        assert_eq!(
            leading_number(b"18446744073709551615"),
            (Some(u64::MAX), 20)
        );
        assert_eq!(leading_number(b"18446744073709551616 "), (None, 20));
        assert_eq!(leading_number(b"999999999999999999999999"), (None, 24));
        assert_eq!(leading_number(b"x"), (None, 0));
    }

    #[test]
    fn a_word_that_is_no_number_is_passed_over() {
        let mut words = words(b"  12\t3x 4");
        assert_eq!(words.number(), Some(12));
        assert_eq!(words.number(), None);
        assert_eq!(words.number(), Some(4));
        assert_eq!(words.number(), None);
    }

    #[test]
    fn signed_numbers() {
        assert_eq!(signed_number(b"-5000\n"), Some(-5000));
        assert_eq!(signed_number(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(signed_number(b"9223372036854775808"), None);
        assert_eq!(signed_number(b"-"), None);
    }

    proptest! {
        #[test]
        fn numbers_come_back(value: u64, tail in "[ \t]?") {
            let text = format!("{value}{tail}");
            prop_assert_eq!(number(text.as_bytes()), Some(value));
        }

        #[test]
        fn signed_numbers_come_back(value: i64) {
            prop_assert_eq!(signed_number(value.to_string().as_bytes()), Some(value));
        }

        #[test]
        fn arbitrary_bytes_do_no_harm(text: Vec<u8>) {
            let mut length = 0;
            for line in lines(&text) {
                length += line.len() + 1;
                let mut numbers = words(line);
                let words_seen = words(line).count();
                let mut steps = 0;
                while !trim(numbers.rest()).is_empty() && steps <= words_seen {
                    numbers.number();
                    steps += 1;
                }
                prop_assert!(steps <= words_seen, "each number consumes a word");
                let _ = key_value(line);
                let _ = signed_number(line);
                let _ = decimal(line);
            }
            prop_assert!(length == text.len() || length == text.len() + 1);
        }
    }
}
