//! Numbers as the protocol writes them, read with the tolerance of the C functions that memcached uses
//! (strtol(3) and its family): leading white space, a sign, and anything after white space ignored.

/// Room for the decimal digits of one number.
#[derive(Debug)]
pub struct Digits([u8; 20]);

impl Digits {
    /// Room.
    #[inline]
    pub fn new() -> Self {
        Self([0; 20])
    }

    /// The digits of `value`.
    #[inline]
    pub fn of(&mut self, mut value: u64) -> &[u8] {
        let mut at = self.0.len();
        loop {
            at -= 1;
            self.0[at] = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                return &self.0[at..];
            }
        }
    }
}

impl Default for Digits {
    fn default() -> Self {
        Self::new()
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

/// Sign and magnitude, `None` when there are no digits, more than 64 bits, or other characters after them.
fn scan(text: &[u8]) -> Option<(bool, u64)> {
    let start = text.iter().position(|&byte| !is_space(byte))?;
    let (negative, digits) = match text[start] {
        b'-' => (true, &text[start + 1..]),
        b'+' => (false, &text[start + 1..]),
        _ => (false, &text[start..]),
    };
    let length = digits
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(digits.len());
    if length == 0 || digits.get(length).is_some_and(|&byte| !is_space(byte)) {
        return None;
    }
    let mut value = 0u64;
    for digit in &digits[..length] {
        value = value
            .checked_mul(10)?
            .checked_add(u64::from(digit - b'0'))?;
    }
    Some((negative, value))
}

/// A signed number of 64 bits of which the low 32 are kept: memcached reads expiry times and lengths so.
pub fn signed_32(text: &[u8]) -> Option<i32> {
    let (negative, magnitude) = scan(text)?;
    let value = if negative {
        0i64.checked_sub_unsigned(magnitude)?
    } else {
        i64::try_from(magnitude).ok()?
    };
    Some(value as i32)
}

/// A number of 64 bits; one with a minus sign counts from the top, unless that leaves it above the middle.
pub fn unsigned_64(text: &[u8]) -> Option<u64> {
    let (negative, magnitude) = scan(text)?;
    let value = if negative {
        magnitude.wrapping_neg()
    } else {
        magnitude
    };
    // strtoull(3) accepts a minus sign; memcached refuses what then looks negative.
    (!(negative && (value as i64) < 0)).then_some(value)
}

/// The client's flags: a number of 64 bits of which the low 32 are kept.
pub fn flags(text: &[u8]) -> Option<u32> {
    unsigned_64(text).map(|value| value as u32)
}

/// A stored value as incr and decr understand it.
pub fn counter(value: &[u8]) -> Option<u64> {
    if value.is_empty() || value.len() > 20 {
        return None;
    }
    unsigned_64(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn digits_read_back(value: u64) {
            let mut digits = Digits::new();
            let text = value.to_string();
            prop_assert_eq!(digits.of(value), text.as_bytes());
            prop_assert_eq!(unsigned_64(text.as_bytes()), Some(value));
        }

        #[test]
        fn signed_numbers_read_back(value: i32) {
            prop_assert_eq!(signed_32(format!(" {value}\t!").as_bytes()), Some(value));
        }
    }

    #[test]
    fn refuses_what_is_no_number() {
        for text in [
            "",
            " ",
            "-",
            "x",
            "1x",
            "18446744073709551616",
            "99999999999999999999999",
        ] {
            assert_eq!(unsigned_64(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(signed_32(b"4294967297"), Some(1));
        assert_eq!(signed_32(b"9223372036854775808"), None);
        assert_eq!(signed_32(b"-9223372036854775808"), Some(0));
        assert_eq!(flags(b"4294967296"), Some(0));
        assert_eq!(unsigned_64(b"-1"), None);
        assert_eq!(counter(b"12  "), Some(12));
    }
}
