//! The bytes of a template for one request.
//!
//! Invariant: `len` is what `write` appends, so that protocols can send lengths first. Not here: what a protocol
//! makes of the bytes.

use super::{Request, Workload};
use crate::mix::{Piece, Text};
use crate::random::mix;

impl Text {
    /// How many bytes `write` appends.
    #[inline]
    pub fn len(&self, workload: &Workload, request: &Request) -> usize {
        self.pieces()
            .iter()
            .map(|piece| piece.len(workload, request))
            .sum()
    }

    /// Appends the bytes for `request`.
    #[inline]
    pub fn write(&self, workload: &Workload, request: &Request, out: &mut Vec<u8>) {
        for piece in self.pieces() {
            piece.write(workload, request, out);
        }
    }
}

impl Piece {
    #[inline]
    fn len(&self, workload: &Workload, request: &Request) -> usize {
        match self {
            Self::Literal(bytes) => bytes.len(),
            Self::Key => workload.key_bytes(request),
            Self::Value(_) | Self::Text(_) => workload.value_bytes(request),
            Self::ValueBytes => decimal_digits(workload.value_bytes(request) as u64),
            Self::Uniform { place, low, count } => {
                decimal_digits(uniform_number(request, *place, *low, *count))
            }
        }
    }

    #[inline]
    fn write(&self, workload: &Workload, request: &Request, out: &mut Vec<u8>) {
        match self {
            Self::Literal(bytes) => out.extend_from_slice(bytes),
            Self::Key => workload.write_key(request, out),
            Self::Value(number) => out.extend_from_slice(workload.value(request, *number)),
            Self::Text(number) => out.extend_from_slice(workload.text(request, *number)),
            Self::ValueBytes => write_decimal(workload.value_bytes(request) as u64, out),
            Self::Uniform { place, low, count } => {
                write_decimal(uniform_number(request, *place, *low, *count), out);
            }
        }
    }
}

/// The number that `request` draws from `count` ones beginning with `low`.
#[inline]
fn uniform_number(request: &Request, place: u64, low: u64, count: u64) -> u64 {
    // The product's upper half is uniform to within count / 2^64, which no load can tell from exact.
    let bits = mix(request.draw ^ mix(place));
    low + ((u128::from(bits) * u128::from(count)) >> 64) as u64
}

/// How many decimal digits `number` has.
#[inline]
pub fn decimal_digits(number: u64) -> usize {
    match number {
        0..=9 => 1,
        10..=99 => 2,
        100..=999 => 3,
        _ => number.ilog10() as usize + 1,
    }
}

/// Appends `number` in decimal.
#[inline]
pub fn write_decimal(mut number: u64, out: &mut Vec<u8>) {
    if number < 100 {
        let (tens, ones) = (b'0' + (number / 10) as u8, b'0' + (number % 10) as u8);
        if tens > b'0' {
            out.push(tens);
        }
        out.push(ones);
        return;
    }
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sizes;
    use crate::workload::{Keyspace, Popularity};
    use proptest::prelude::*;

    fn workload() -> Workload {
        let keys = Keyspace::new(1000, Sizes::fixed(12), Sizes::fixed(30), true).unwrap();
        let mut workload = Workload::of_gets_and_sets(keys, Popularity::Uniform, 0.0).unwrap();
        let keys = Keyspace::new(1000, Sizes::fixed(12), Sizes::fixed(30), true).unwrap();
        workload.keys = keys.with_values(0, true);
        workload
    }

    fn written(template: &str, key: u64, draw: u64) -> Vec<u8> {
        let request = Request {
            draw,
            ..Request::of(0, key)
        };
        let (text, workload, mut out) = (Text::parse(template).unwrap(), workload(), Vec::new());
        text.write(&workload, &request, &mut out);
        assert_eq!(out.len(), text.len(&workload, &request), "{template}");
        out
    }

    #[test]
    fn places_are_filled_and_doubled_braces_stand_for_themselves() {
        let mut key = Vec::new();
        workload().keys.write_key(5, &mut key);
        let key = String::from_utf8(key).unwrap();
        assert_eq!(
            written("/a/{key}?b={{{value_bytes}}}", 5, 0),
            format!("/a/{key}?b={{30}}").into_bytes()
        );
        assert_eq!(written("{value}", 5, 0), workload().keys.value(5));
        assert_ne!(written("{value:1}", 5, 0), written("{value}", 5, 0));
        let text = written("{text}", 5, 0);
        assert!(text.len() == 30 && text.iter().all(u8::is_ascii_alphanumeric));
    }

    #[test]
    fn drawn_numbers_cover_their_range_alike() {
        let mut counts = [0u32; 100];
        let (text, workload, mut out) = (
            Text::parse("{uniform:1:100}").unwrap(),
            workload(),
            Vec::new(),
        );
        for draw in 0..100_000u64 {
            let request = Request {
                draw: mix(draw),
                ..Request::of(0, 0)
            };
            out.clear();
            text.write(&workload, &request, &mut out);
            let number: usize = std::str::from_utf8(&out).unwrap().parse().unwrap();
            counts[number - 1] += 1;
        }
        // Chi-square with 99 degrees of freedom: 148 is the 0.999 quantile; the draws are fixed.
        let chi: f64 = counts
            .iter()
            .map(|&n| (f64::from(n) - 1e3).powi(2) / 1e3)
            .sum();
        assert!(chi < 148.2, "{chi}");
        let both = String::from_utf8(written("{uniform:0:99999},{uniform:0:99999}", 0, 7)).unwrap();
        let (left, right) = both.split_once(',').unwrap();
        assert_ne!(left, right, "draws of one request are independent");
    }

    proptest! {
        #[test]
        fn decimals_are_as_the_standard_library_writes_them(number: u64) {
            let mut out = Vec::new();
            write_decimal(number, &mut out);
            prop_assert_eq!(out.len(), decimal_digits(number));
            prop_assert_eq!(out, number.to_string().into_bytes());
        }
    }
}
