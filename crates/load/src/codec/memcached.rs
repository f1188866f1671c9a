//! memcached's text protocol (github.com/memcached/memcached, doc/protocol.txt).

use std::sync::Arc;

use super::lines::{self, Framing, Lines};
use super::{Answer, Codec, Outcome, ProtocolError};
use crate::mix::Text;
use crate::mix::{MEMCACHED_COMMANDS, Mix, Template};
use crate::protocol::Protocol;
use crate::workload::{Request, Workload, write_decimal};

/// Largest value that a server may announce; memcached's `-I` ends at 1 GiB.
const VALUE_BYTES_MAX: usize = 1 << 30;

const GARBAGE: ProtocolError = ProtocolError { kind: "garbage" };
/// A value of a key that its request did not ask for.
const WRONG_KEY: ProtocolError = ProtocolError { kind: "wrong-key" };

/// What every connection of a load sends, by operation and step.
#[derive(Debug)]
pub struct MemcachedScript {
    steps: Vec<Vec<Command>>,
}

impl Default for MemcachedScript {
    /// `get` and `set`.
    fn default() -> Self {
        let mix = Mix::of_gets_and_sets(Protocol::Memcached, 0.0);
        Self {
            steps: mix.map_or_else(|_| Vec::new(), |mix| Self::of(&mix).steps),
        }
    }
}

#[derive(Debug)]
struct Command {
    /// The line, up to the size of the data if there is some.
    line: Text,
    data: Option<Text>,
    /// Bytes before the words of a line that reads; 0 of one that does not.
    reads: usize,
}

impl MemcachedScript {
    /// The commands of `mix`.
    pub fn of(mix: &Mix) -> Self {
        let steps = mix.operations.iter().map(|operation| {
            let commands = operation.steps.iter().filter_map(|step| match step {
                Template::Memcached(words) => Some(Command::of(words)),
                _ => None,
            });
            commands.collect()
        });
        Self {
            steps: steps.collect(),
        }
    }
}

impl Command {
    fn of(words: &[Text]) -> Self {
        let name = words.first().and_then(Text::as_literal).unwrap_or_default();
        let stores = MEMCACHED_COMMANDS
            .iter()
            .any(|(known, .., data)| *data && known.as_bytes() == name);
        let (data, words) = match words.split_last() {
            Some((data, words)) if stores => (Some(data.clone()), words),
            _ => (None, words),
        };
        let mut line = Vec::new();
        for word in words {
            if !line.is_empty() {
                line.push(Text::literal(" "));
            }
            line.push(word.clone());
        }
        // No flags, no expiry.
        line.push(Text::literal(if stores { " 0 0 " } else { "\r\n" }));
        let reads = match name {
            b"get" | b"gets" | b"gat" | b"gats" => name.len() + 1,
            _ => 0,
        };
        Self {
            line: Text::concat(line),
            data,
            reads,
        }
    }
}

/// A connection that speaks memcached's text protocol.
#[derive(Debug, Default)]
pub struct MemcachedText {
    script: Arc<MemcachedScript>,
    framing: Framing,
    /// Whether the answer under way has brought a value.
    found: bool,
    asked: Asked,
}

/// What the requests under way ask for, the oldest first: the words of a line that reads, nothing of others.
#[derive(Debug, Default)]
struct Asked {
    /// Each with its length before it.
    bytes: Vec<u8>,
    /// Where the oldest begins.
    begin: usize,
}

/// Bytes of the length of an entry.
const LENGTH_BYTES: usize = 4;
/// Bytes of answered requests that are kept before those of the others move to the front.
const KEPT_BYTES: usize = 16 << 10;

impl Asked {
    #[inline]
    fn push(&mut self, words: &[u8]) {
        if self.begin == self.bytes.len() {
            self.clear();
        } else if self.begin > KEPT_BYTES {
            self.bytes.drain(..self.begin);
            self.begin = 0;
        }
        let length = words.len() as u32;
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(words);
    }

    /// The words of the oldest; None when nothing is under way.
    #[inline]
    fn oldest(&self) -> Option<&[u8]> {
        let (length, rest) = self.bytes[self.begin..].split_first_chunk::<LENGTH_BYTES>()?;
        rest.get(..u32::from_ne_bytes(*length) as usize)
    }

    #[inline]
    fn pop(&mut self) {
        if let Some(length) = self.oldest().map(<[u8]>::len) {
            self.begin += LENGTH_BYTES + length;
        }
    }

    /// Whether a value of `key` can be an answer to the oldest.
    #[inline]
    fn has(&self, key: &[u8]) -> bool {
        self.oldest().is_none_or(|words| {
            words == key || words.split(|&byte| byte == b' ').any(|word| word == key)
        })
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.begin = 0;
    }
}

impl Codec for MemcachedText {
    fn encode(&mut self, request: &Request, workload: &Workload, out: &mut Vec<u8>) {
        let command = &self.script.steps[request.operation][request.step as usize];
        let begin = out.len();
        command.line.write(workload, request, out);
        let words = match command.reads {
            0 => &[],
            name => &out[begin + name..out.len() - 2],
        };
        self.asked.push(words);
        if let Some(data) = &command.data {
            write_decimal(data.len(workload, request) as u64, out);
            out.extend_from_slice(b"\r\n");
            data.write(workload, request, out);
            out.extend_from_slice(b"\r\n");
        }
    }

    fn decode(
        &mut self,
        input: &[u8],
        _out: &mut Vec<u8>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), ProtocolError> {
        lines::decode(self, input, answers)
    }
}

impl MemcachedText {
    /// A fresh connection that sends what `script` holds.
    pub fn new(script: Arc<MemcachedScript>) -> Self {
        Self {
            script,
            ..Self::default()
        }
    }
}

impl Lines for MemcachedText {
    /// A key of 250 bytes with its figures, or an error's text.
    const LINE_BYTES_MAX: usize = 2048;
    const GARBAGE: ProtocolError = GARBAGE;

    #[inline]
    fn framing(&mut self) -> &mut Framing {
        &mut self.framing
    }

    /// A value alone is no answer: its END is.
    #[inline]
    fn end_announced(&mut self, _answers: &mut Vec<Answer>) {}

    fn take_line(&mut self, line: &[u8], answers: &mut Vec<Answer>) -> Result<(), ProtocolError> {
        let outcome = match line {
            b"END" => {
                if std::mem::take(&mut self.found) {
                    Outcome::Hit
                } else {
                    Outcome::Miss
                }
            }
            b"STORED" => Outcome::Stored,
            b"NOT_STORED" => Outcome::Refused("not-stored"),
            b"DELETED" | b"TOUCHED" => Outcome::Done,
            b"NOT_FOUND" => Outcome::Refused("not-found"),
            b"ERROR" => Outcome::Refused("error"),
            _ if line.starts_with(b"VALUE ") => {
                let (key, bytes) = value_head(&line[6..]).ok_or(GARBAGE)?;
                if !self.asked.has(key) {
                    return Err(WRONG_KEY);
                }
                self.found = true;
                self.framing.announce(bytes);
                return Ok(());
            }
            _ if line.starts_with(b"SERVER_ERROR") => Outcome::Refused("server-error"),
            _ if line.starts_with(b"CLIENT_ERROR") => Outcome::Refused("client-error"),
            // What a counter has become.
            _ if (1..=20).contains(&line.len()) && line.iter().all(u8::is_ascii_digit) => {
                Outcome::Done
            }
            _ => return Err(GARBAGE),
        };
        if self.found {
            // Values without their END: only an error may follow, and it ends the answer.
            self.found = false;
            if !matches!(outcome, Outcome::Refused(_)) {
                return Err(GARBAGE);
            }
        }
        self.asked.pop();
        answers.push(outcome.into());
        Ok(())
    }
}

/// The key and the size in `KEY FLAGS BYTES[ CAS]`.
fn value_head(fields: &[u8]) -> Option<(&[u8], usize)> {
    let mut fields = fields.split(|&byte| byte == b' ');
    let key = fields.next()?;
    let flags = fields.next()?;
    let digits = fields.next()?;
    if key.is_empty() || flags.is_empty() || digits.is_empty() || digits.len() > 10 {
        return None;
    }
    let mut bytes = 0usize;
    for digit in digits {
        bytes = bytes * 10 + usize::from(digit.checked_sub(b'0').filter(|d| *d < 10)?);
    }
    (bytes <= VALUE_BYTES_MAX).then_some((key, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sizes;
    use crate::workload::Keyspace;
    use crate::workload::{GET, Popularity, SET};
    use proptest::prelude::*;

    fn decode(pieces: &[&[u8]]) -> Result<Vec<Outcome>, ProtocolError> {
        let (mut codec, mut answers) = (MemcachedText::default(), Vec::new());
        for piece in pieces {
            codec.decode(piece, &mut Vec::new(), &mut answers)?;
        }
        Ok(answers
            .into_iter()
            .map(|answer: Answer| answer.outcome)
            .collect())
    }

    #[test]
    fn answers_are_distinguished() {
        let text = b"VALUE k 0 5\r\nab\r\nc\r\nEND\r\nEND\r\nSTORED\r\nSERVER_ERROR out of memory\r\nNOT_STORED\r\nERROR\r\n";
        assert_eq!(
            decode(&[text]).unwrap(),
            [
                Outcome::Hit,
                Outcome::Miss,
                Outcome::Stored,
                Outcome::Refused("server-error"),
                Outcome::Refused("not-stored"),
                Outcome::Refused("error")
            ]
        );
    }

    #[test]
    fn garbage_is_an_error() {
        for bad in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"VALUE k 0\r\n",
            b"VALUE k 0 -1\r\n",
            b"VALUE k 0 99999999999\r\n",
            b"VALUE k 0 2\r\nabcd",
            b"VALUE k 0 2\r\nab\rX",
            b"VALUE k 0 1\r\na\r\nSTORED\r\n",
            b"END\n",
            &[b'x'; 5000],
        ] {
            assert_eq!(
                decode(&[bad]),
                Err(GARBAGE),
                "{:?}",
                String::from_utf8_lossy(bad)
            );
        }
    }

    #[test]
    fn requests_are_written_as_the_protocol_says() {
        let keys = Keyspace::new(100, Sizes::fixed(12), Sizes::fixed(30), true).unwrap();
        let workload = Workload::of_gets_and_sets(keys, Popularity::Uniform, 1.0).unwrap();
        let script = Arc::new(MemcachedScript::of(workload.mix()));
        let (mut codec, mut out) = (MemcachedText::new(script), Vec::new());
        let keys = &workload.keys;
        let request = Request::of(SET, 7);
        codec.encode(&request, &workload, &mut out);
        let mut expected = b"set ".to_vec();
        keys.write_key(7, &mut expected);
        expected.extend_from_slice(b" 0 0 30\r\n");
        expected.extend_from_slice(keys.value(7));
        expected.extend_from_slice(b"\r\n");
        assert_eq!(out, expected);
        assert_eq!(expected.len(), 4 + 12 + 9 + 30 + 2);
    }

    #[test]
    fn a_value_of_another_key_is_no_answer() {
        let keys = Keyspace::new(100, Sizes::fixed(12), Sizes::fixed(30), true).unwrap();
        let workload = Workload::of_gets_and_sets(keys, Popularity::Uniform, 0.5).unwrap();
        let script = Arc::new(MemcachedScript::of(workload.mix()));
        let (mut codec, mut out) = (MemcachedText::new(script), Vec::new());
        let mut answers = Vec::new();
        let value_of = |key| {
            let mut text = b"VALUE ".to_vec();
            workload.keys.write_key(key, &mut text);
            text.extend_from_slice(b" 0 1\r\nx\r\nEND\r\n");
            text
        };
        let mut take = |codec: &mut MemcachedText, text: &[u8]| {
            codec.decode(text, &mut Vec::new(), &mut answers)
        };
        // Many more than are kept at once, and two under way at any time.
        for key in 0..2000 {
            codec.encode(&Request::of(GET, key % 100), &workload, &mut out);
            codec.encode(&Request::of(SET, key % 100), &workload, &mut out);
            take(&mut codec, &value_of(key % 100)).unwrap();
            codec.encode(&Request::of(GET, 7), &workload, &mut out);
            take(&mut codec, b"STORED\r\nEND\r\n").unwrap();
        }
        assert!(codec.asked.bytes.len() < 2 * KEPT_BYTES);
        codec.encode(&Request::of(GET, 8), &workload, &mut out);
        assert_eq!(take(&mut codec, &value_of(9)), Err(WRONG_KEY));
    }

    fn answer() -> impl Strategy<Value = (Vec<u8>, Outcome)> {
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..300).prop_map(|value| {
                let mut text = format!("VALUE key 0 {}\r\n", value.len()).into_bytes();
                text.extend(value);
                text.extend(b"\r\nEND\r\n");
                (text, Outcome::Hit)
            }),
            Just((b"END\r\n".to_vec(), Outcome::Miss)),
            Just((b"STORED\r\n".to_vec(), Outcome::Stored)),
            Just((
                b"SERVER_ERROR busy\r\n".to_vec(),
                Outcome::Refused("server-error")
            )),
        ]
    }

    proptest! {
        #[test]
        fn any_split_decodes_the_same(
            answers in proptest::collection::vec(answer(), 0..12),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let text: Vec<u8> = answers.iter().flat_map(|(text, _)| text.clone()).collect();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &text[w[0]..w[1]]).collect();
            let expected: Vec<Outcome> = answers.iter().map(|(_, outcome)| *outcome).collect();
            prop_assert_eq!(decode(&pieces).unwrap(), expected);
        }

        #[test]
        fn arbitrary_bytes_decode_the_same_in_one_piece_and_in_bytes(
            text in proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'E'), any::<u8>()], 0..400)
        ) {
            let bytes: Vec<&[u8]> = text.chunks(1).collect();
            prop_assert_eq!(decode(&[&text]), decode(&bytes));
        }
    }
}
