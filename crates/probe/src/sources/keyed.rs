//! Files of `key value` lines in an order that the kernel keeps while it runs.
//!
//! Looking each key up in a table at each tick would cost more than reading the numbers, so the place of each
//! line is remembered. The key is still compared, so that a file whose lines move (a recorded tree that is
//! exchanged) is read rightly all the same.

use steelyard_kernel::scan::{Words, key_value, lines, words};

/// A value that is a plain number.
pub fn plain(words: &mut Words<'_>) -> Option<u64> {
    words.number()
}

/// Where each line's value goes.
#[derive(Debug, Default)]
pub struct Places(Vec<Place>);

#[derive(Debug, Clone, Copy)]
enum Place {
    /// The line's key is the one of this number.
    Wanted(usize),
    /// The line's key is not among those wanted; this distinguishes it from others.
    Passed([usize; 3]),
}

/// Length, first and last byte: enough to see that a line is not the one that was passed over before.
fn likeness(key: &[u8]) -> [usize; 3] {
    let byte = |byte: Option<&u8>| byte.map_or(0, |byte| usize::from(*byte));
    [key.len(), byte(key.first()), byte(key.last())]
}

impl Places {
    /// Reads the lines of `text` whose key is among `keys` into `values`, which has one place a key; places
    /// without a line become None.
    pub fn read<K: AsRef<[u8]>>(
        &mut self,
        text: &[u8],
        keys: &[K],
        values: &mut [Option<u64>],
        value: impl Fn(&mut Words<'_>) -> Option<u64>,
    ) {
        values.fill(None);
        for (number, line) in lines(text).enumerate() {
            let (key, mut words) = key_value(line).unwrap_or((b"", words(b"")));
            match self.place(number, key, keys) {
                Place::Wanted(place) => values[place] = value(&mut words),
                Place::Passed(_) => {}
            }
        }
    }

    fn place<K: AsRef<[u8]>>(&mut self, number: usize, key: &[u8], keys: &[K]) -> Place {
        match self.0.get(number) {
            Some(Place::Wanted(place)) if keys[*place].as_ref() == key => Place::Wanted(*place),
            Some(Place::Passed(passed)) if *passed == likeness(key) => Place::Passed(*passed),
            _ => {
                // Another order than before: what is known of the lines after this one is worth nothing.
                self.0.truncate(number);
                let found = keys.iter().position(|known| known.as_ref() == key);
                let place = found.map_or(Place::Passed(likeness(key)), Place::Wanted);
                self.0.push(place);
                place
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_that_move_are_found_again() {
        let keys = ["a", "b"];
        let mut places = Places::default();
        let mut values = [None; 2];
        let mut read = |text: &str| {
            places.read(text.as_bytes(), &keys, &mut values, plain);
            values
        };
        assert_eq!(read("a 1\nx 9\nb 2\n"), [Some(1), Some(2)]);
        assert_eq!(read("a 3\nx 9\nb 4\n"), [Some(3), Some(4)]);
        assert_eq!(read("b 5\na 6\n"), [Some(6), Some(5)]);
        assert_eq!(read("b: 7\n"), [None, Some(7)]);
        assert_eq!(read("yy 1\nxx 2\n"), [None, None]);
        assert_eq!(read("yy 1\nb 2\n"), [None, Some(2)]);
        assert_eq!(read(""), [None, None]);
    }

    proptest! {
        #[test]
        fn arbitrary_texts_in_a_row_do_no_harm(texts: Vec<Vec<u8>>) {
            let mut places = Places::default();
            let mut values = [None; 3];
            for text in texts {
                places.read(&text, &[&b"a"[..], b"", b"1"], &mut values, plain);
            }
        }
    }
}
