//! Scanners of the /proc files of a process: bytes in, numbers and harmless names out.
//!
//! Invariant: nothing panics, whatever the bytes are. Source: proc(5).

use std::borrow::Cow;

use steelyard_kernel::scan::{self, key_value, lines, words};
use steelyard_profile::names::is_harmful;

/// Longest command line that is kept, bytes.
const LONGEST: usize = 1024;

/// The fields of /proc/PID/status that other files lack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Status {
    /// The user it runs as (the effective id).
    pub uid: Option<u32>,
    /// Context switches of this thread: those it asked for, and those it did not.
    pub switches: [Option<u64>; 2],
}

/// Scans a status file.
pub fn status(text: &[u8]) -> Status {
    let mut status = Status::default();
    for (key, mut values) in lines(text).filter_map(key_value) {
        match key {
            b"Uid" => {
                values.pass(1);
                status.uid = values.number().and_then(|uid| u32::try_from(uid).ok());
            }
            b"voluntary_ctxt_switches" => status.switches[0] = values.number(),
            b"nonvoluntary_ctxt_switches" => status.switches[1] = values.number(),
            _ => {}
        }
    }
    status
}

/// Time on a CPU and time waiting for one (ns), and turns, from a schedstat file of a thread.
pub fn schedstat(text: &[u8]) -> Option<[u64; 3]> {
    let mut numbers = words(scan::trim(text));
    Some([numbers.number()?, numbers.number()?, numbers.number()?])
}

/// A command line: its arguments with blanks between, harmless; None when there is none.
pub fn command_line(text: &[u8]) -> Option<String> {
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    if text.is_empty() {
        return None;
    }
    let text = &text[..text.len().min(LONGEST)];
    let spaced: Vec<u8> = text
        .iter()
        .map(|byte| if *byte == 0 { b' ' } else { *byte })
        .collect();
    Some(harmless(&spaced))
}

/// A name from outside as it may be shown: what a terminal would obey, or what would turn the text around it,
/// becomes `?`.
pub fn harmless(name: &[u8]) -> String {
    let text = match String::from_utf8_lossy(name) {
        Cow::Borrowed(text) if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) => {
            return text.to_owned();
        }
        text => text,
    };
    text.chars()
        .map(|letter| if is_harmful(letter) { '?' } else { letter })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn files_of_a_process() {
        let text = b"Name:\tsh\nUid:\t0\t1000\t0\t0\nvoluntary_ctxt_switches:\t7\n\
            nonvoluntary_ctxt_switches:\t2\n";
        assert_eq!(
            status(text),
            Status {
                uid: Some(1000),
                switches: [Some(7), Some(2)]
            }
        );
        assert_eq!(schedstat(b"5 6 7\n"), Some([5, 6, 7]));
        assert_eq!(schedstat(b"5 6\n"), None);
        assert_eq!(command_line(b"ls\0-l\0"), Some("ls -l".to_owned()));
        assert_eq!(command_line(b""), None);
    }

    #[test]
    fn what_a_terminal_would_obey_is_made_harmless() {
        assert_eq!(harmless(b"\x1b]0;owned\x07"), "?]0;owned?");
        assert_eq!(
            harmless("a\u{9b}31mb\u{202e}c\u{200b}".as_bytes()),
            "a?31mb?c?"
        );
        assert_eq!(harmless(b"\xff\xfe"), "\u{fffd}\u{fffd}");
        assert_eq!(harmless("größe 名".as_bytes()), "größe 名");
        assert_eq!(command_line(b"a\nb\0\x1b[2J"), Some("a?b ?[2J".to_owned()));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_no_harm(text: Vec<u8>) {
            super::super::parse_anything(&text);
            prop_assert!(!harmless(&text).chars().any(char::is_control));
        }

        #[test]
        fn nearly_right_text_does_no_harm(
            text in "([a-z_]{1,9}:\t|[0-9]{1,22} ?|\n){0,12}"
        ) {
            super::super::parse_anything(text.as_bytes());
        }
    }
}
