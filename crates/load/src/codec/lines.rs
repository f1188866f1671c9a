//! Answers in lines, some of which announce so many bytes and a line end after them: memcached's text and RESP.
//!
//! In: bytes cut anywhere. Out: whole lines, each lent to the codec, which says by [`Framing::announce`] what follows.
//!
//! Invariants: what comes out does not depend on how the bytes were cut; announced bytes are counted, not kept, and a
//! server that miscounts them is found at their end; at most one line waits. Everything is resolved when the codec is
//! compiled. Not here: what a line means.

use super::{Answer, ProtocolError};

/// Where in its lines and announced bytes a connection is.
#[derive(Debug, Default)]
pub(super) struct Framing {
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    /// Announced bytes, their line end included, that are still to come.
    announced_left: usize,
}

/// A codec whose answers come in lines.
pub(super) trait Lines {
    /// Longest line, its line end not counted.
    const LINE_BYTES_MAX: usize;
    /// What is returned for bytes that are no answers.
    const GARBAGE: ProtocolError;

    fn framing(&mut self) -> &mut Framing;

    /// Takes one line without its line end; appends the answer that it completes.
    fn take_line(&mut self, line: &[u8], answers: &mut Vec<Answer>) -> Result<(), ProtocolError>;

    /// Called when all announced bytes have come; appends the answer that they complete.
    fn end_announced(&mut self, answers: &mut Vec<Answer>);
}

impl Framing {
    /// `bytes` and a line end come before the next line.
    #[inline]
    pub(super) fn announce(&mut self, bytes: usize) {
        // The line end is counted too, so that no bytes at all are awaited as well.
        self.announced_left = bytes + 2;
    }

    /// Takes what `input` holds of the announced bytes and returns the rest of it; None when their line end is none.
    #[inline]
    fn skip<'a>(&mut self, input: &'a [u8]) -> Option<&'a [u8]> {
        let (piece, rest) = input.split_at(input.len().min(self.announced_left));
        for (index, expected) in [(2, b'\r'), (1, b'\n')] {
            // `index` bytes before the end.
            if self.announced_left >= index
                && self.announced_left - index < piece.len()
                && piece[self.announced_left - index] != expected
            {
                return None;
            }
        }
        self.announced_left -= piece.len();
        Some(rest)
    }
}

/// Takes all of `input`.
#[inline]
pub(super) fn decode<C: Lines>(
    codec: &mut C,
    input: &[u8],
    answers: &mut Vec<Answer>,
) -> Result<(), ProtocolError> {
    let mut rest = input;
    while !rest.is_empty() {
        if codec.framing().announced_left > 0 {
            rest = codec.framing().skip(rest).ok_or(C::GARBAGE)?;
            if codec.framing().announced_left == 0 {
                codec.end_announced(answers);
            }
            continue;
        }
        let begun = &mut codec.framing().line;
        let Some(end) = rest.iter().position(|&byte| byte == b'\n') else {
            // The first half of the line end may be among them.
            if begun.len() + rest.len() > C::LINE_BYTES_MAX + 1 {
                return Err(C::GARBAGE);
            }
            begun.extend_from_slice(rest);
            return Ok(());
        };
        if begun.is_empty() {
            take_line(codec, &rest[..end], answers)?;
        } else {
            let mut line = std::mem::take(begun);
            line.extend_from_slice(&rest[..end]);
            take_line(codec, &line, answers)?;
            line.clear();
            codec.framing().line = line;
        }
        rest = &rest[end + 1..];
    }
    Ok(())
}

#[inline]
fn take_line<C: Lines>(
    codec: &mut C,
    line: &[u8],
    answers: &mut Vec<Answer>,
) -> Result<(), ProtocolError> {
    match line.strip_suffix(b"\r") {
        Some(line) if line.len() <= C::LINE_BYTES_MAX => codec.take_line(line, answers),
        _ => Err(C::GARBAGE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Outcome;

    /// `N` announces N bytes; anything else is an answer.
    #[derive(Default)]
    struct Numbers {
        framing: Framing,
        lines: Vec<Vec<u8>>,
    }

    impl Lines for Numbers {
        const LINE_BYTES_MAX: usize = 8;
        const GARBAGE: ProtocolError = ProtocolError { kind: "garbage" };

        fn framing(&mut self) -> &mut Framing {
            &mut self.framing
        }

        fn take_line(&mut self, line: &[u8], _: &mut Vec<Answer>) -> Result<(), ProtocolError> {
            self.lines.push(line.to_vec());
            if let Some(bytes) = std::str::from_utf8(line).ok().and_then(|l| l.parse().ok()) {
                self.framing.announce(bytes);
            }
            Ok(())
        }

        fn end_announced(&mut self, answers: &mut Vec<Answer>) {
            answers.push(Outcome::Done.into());
        }
    }

    /// The lines of `input` and how many announcements were kept, cut into `bytes` at a time.
    fn cut(input: &[u8], bytes: usize) -> Option<(Vec<Vec<u8>>, usize)> {
        let (mut codec, mut answers) = (Numbers::default(), Vec::new());
        for piece in input.chunks(bytes) {
            decode(&mut codec, piece, &mut answers).ok()?;
        }
        Some((codec.lines, answers.len()))
    }

    #[test]
    fn the_cut_changes_nothing() {
        let lines = |lines: &[&[u8]]| lines.iter().map(|line| line.to_vec()).collect::<Vec<_>>();
        let cases: [(&[u8], _); 8] = [
            (
                b"a\r\n0\r\n\r\n3\r\n\r\n\r\r\nb\r\n",
                Some((lines(&[b"a", b"0", b"3", b"b"]), 2)),
            ),
            // The longest line, and one byte more.
            (b"12345678\r", Some((lines(&[]), 0))),
            (b"abcdefgh\r\n", Some((lines(&[b"abcdefgh"]), 0))),
            (b"abcdefghi\r\n", None),
            (b"abcdefghij", None),
            // Bytes that are no line end.
            (b"a\n", None),
            (b"1\r\nab\r\n", None),
            (b"1\r\na\rb", None),
        ];
        for (input, expected) in cases {
            for bytes in 1..=input.len() {
                let text = input.escape_ascii();
                assert_eq!(cut(input, bytes), expected, "{text} in pieces of {bytes}");
            }
        }
    }
}
