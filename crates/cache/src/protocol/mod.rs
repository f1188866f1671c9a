//! memcached's text protocol: lines of bytes to commands, without sockets or storage.
//!
//! In: one line without its end. Out: a `Command`, or the error line that memcached gives for it. Invariant:
//! any bytes whatever give one or the other. The command set and its answers follow memcached 1.6; what that
//! server really answers was taken from conversations with it, which the tests repeat.
//!
//! Not here: the meta commands (`mg` and its kin) and the binary protocol; both get `ERROR`.

pub mod number;

use crate::store::StoreMode;

/// The longest key.
pub const KEY_BYTES: usize = 250;
/// The longest line of a command that is not a retrieval.
pub const LINE_BYTES: usize = 2048;
/// The longest line of a retrieval.
pub const KEYS_LINE_BYTES: usize = 1 << 20;

/// What the server says it is: clients that compare versions look for memcached's.
pub const VERSION: &str = concat!("1.6.0-steelyard-", env!("CARGO_PKG_VERSION"));
pub const VERSION_LINE: &[u8] = concat!(
    "VERSION 1.6.0-steelyard-",
    env!("CARGO_PKG_VERSION"),
    "\r\n"
)
.as_bytes();

pub const ERROR: &[u8] = b"ERROR\r\n";
pub const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format\r\n";
pub const BAD_CHUNK: &[u8] = b"CLIENT_ERROR bad data chunk\r\n";
pub const BAD_EXPIRY: &[u8] = b"CLIENT_ERROR invalid exptime argument\r\n";
pub const BAD_DELTA: &[u8] = b"CLIENT_ERROR invalid numeric delta argument\r\n";
pub const BAD_DELETE: &[u8] =
    b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
pub const NOT_A_NUMBER: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
pub const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";
pub const OUT_OF_MEMORY: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";
pub const TOO_MANY_CONNECTIONS: &[u8] = b"ERROR Too many open connections\r\n";

/// What a line asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command<'a> {
    /// The values of `keys`, separated by spaces and all of them valid.
    Get {
        /// The rest of the line.
        keys: &'a [u8],
        /// Answer with the CAS ids too.
        with_cas: bool,
        /// A new expiry, as the client wrote it.
        expiry: Option<i32>,
    },
    /// A value follows.
    Store {
        /// How.
        mode: StoreMode,
        /// Under which key.
        key: &'a [u8],
        /// The client's flags.
        flags: u32,
        /// Expiry as the client wrote it.
        expiry: i32,
        /// Length of the value.
        value_bytes: usize,
        /// Answer nothing.
        quiet: bool,
    },
    /// Remove.
    Delete {
        /// The key.
        key: &'a [u8],
        /// Answer nothing.
        quiet: bool,
    },
    /// Add or subtract.
    Count {
        /// The key.
        key: &'a [u8],
        /// `incr`.
        increase: bool,
        /// By how much.
        delta: u64,
        /// Answer nothing.
        quiet: bool,
    },
    /// Give a new expiry.
    Touch {
        /// The key.
        key: &'a [u8],
        /// Expiry as the client wrote it.
        expiry: i32,
        /// Answer nothing.
        quiet: bool,
    },
    /// Make everything invisible.
    Flush {
        /// When, as the client wrote it.
        delay: i32,
        /// Answer nothing.
        quiet: bool,
    },
    /// Statistics; the rest of the line says which.
    Stats(&'a [u8]),
    /// The version.
    Version,
    /// Accepted and without effect.
    Verbosity {
        /// Answer nothing.
        quiet: bool,
    },
    /// Close the connection without an answer.
    Quit,
    /// A line that gets an error, or with `quiet` nothing.
    Bad {
        /// The error line.
        answer: &'static [u8],
        /// Answer nothing.
        quiet: bool,
    },
}

const TOKENS: usize = 8;

/// The words of a line: the first few, and how many there are.
struct Words<'a> {
    words: [&'a [u8]; TOKENS],
    count: usize,
    last: &'a [u8],
}

/// Splits off the first word: the word and what follows it.
pub fn next_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = text.iter().position(|&byte| byte != b' ')?;
    let text = &text[start..];
    let end = text
        .iter()
        .position(|&byte| byte == b' ')
        .unwrap_or(text.len());
    Some(text.split_at(end))
}

impl<'a> Words<'a> {
    fn of(line: &'a [u8]) -> Self {
        let mut words = Self {
            words: [&[]; TOKENS],
            count: 0,
            last: &[],
        };
        let mut rest = line;
        while let Some((word, after)) = next_word(rest) {
            if words.count < TOKENS {
                words.words[words.count] = word;
            }
            words.count += 1;
            words.last = word;
            rest = after;
        }
        words
    }

    fn quiet(&self) -> bool {
        self.last == b"noreply"
    }
}

fn bad(answer: &'static [u8], quiet: bool) -> Command<'static> {
    Command::Bad { answer, quiet }
}

/// What `line` (without its end) asks for.
pub fn parse(line: &[u8]) -> Command<'_> {
    // memcached treats lines as C strings: a zero byte ends them.
    let line = &line[..memchr::memchr(0, line).unwrap_or(line.len())];
    if let Some(keys) = line.strip_prefix(b"get ") {
        return get(keys, false, None);
    }
    let Some((name, rest)) = next_word(line) else {
        return bad(ERROR, false);
    };
    match name {
        b"get" => get(rest, false, None),
        b"gets" => get(rest, true, None),
        b"gat" => get_and_touch(rest, false),
        b"gats" => get_and_touch(rest, true),
        b"set" => store(line, StoreMode::Set),
        b"add" => store(line, StoreMode::Add),
        b"replace" => store(line, StoreMode::Replace),
        b"append" => store(line, StoreMode::Append),
        b"prepend" => store(line, StoreMode::Prepend),
        b"cas" => store(line, StoreMode::Cas(0)),
        b"delete" => delete(&Words::of(line)),
        b"incr" => count(&Words::of(line), true),
        b"decr" => count(&Words::of(line), false),
        b"touch" => touch(&Words::of(line)),
        b"flush_all" => flush(&Words::of(line)),
        b"stats" => Command::Stats(rest),
        b"version" => Command::Version,
        b"verbosity" => verbosity(&Words::of(line)),
        b"quit" => Command::Quit,
        // A browser or a proxy that took this port for a web server gets nothing to parse.
        _ if Words::of(line).last.starts_with(b"HTTP/") => Command::Quit,
        _ => bad(ERROR, false),
    }
}

fn get(keys: &[u8], with_cas: bool, expiry: Option<i32>) -> Command<'_> {
    let mut rest = keys;
    let mut any = false;
    while let Some((key, after)) = next_word(rest) {
        if key.len() > KEY_BYTES {
            return bad(BAD_FORMAT, false);
        }
        any = true;
        rest = after;
    }
    if any || expiry.is_some() {
        Command::Get {
            keys,
            with_cas,
            expiry,
        }
    } else {
        bad(ERROR, false)
    }
}

fn get_and_touch(rest: &[u8], with_cas: bool) -> Command<'_> {
    let Some((expiry, keys)) = next_word(rest) else {
        return bad(ERROR, false);
    };
    match number::signed_32(expiry) {
        Some(expiry) => get(keys, with_cas, Some(expiry)),
        None => bad(BAD_EXPIRY, false),
    }
}

fn store(line: &[u8], mode: StoreMode) -> Command<'_> {
    let words = Words::of(line);
    let cas = matches!(mode, StoreMode::Cas(_));
    let least = 5 + usize::from(cas);
    if words.count < least || words.count > least + 1 {
        return bad(ERROR, false);
    }
    let quiet = words.quiet();
    let [_, key, flags, expiry, value_bytes, unique, ..] = words.words;
    let numbers = (
        number::flags(flags),
        number::signed_32(expiry),
        number::signed_32(value_bytes),
    );
    let (Some(flags), Some(expiry), Some(value_bytes)) = numbers else {
        return bad(BAD_FORMAT, quiet);
    };
    // The line end is counted with the value in 32 bits.
    if key.len() > KEY_BYTES || !(0..=i32::MAX - 2).contains(&value_bytes) {
        return bad(BAD_FORMAT, quiet);
    }
    let mode = match (cas, number::unsigned_64(unique)) {
        (false, _) => mode,
        (true, Some(unique)) => StoreMode::Cas(unique),
        (true, None) => return bad(BAD_FORMAT, quiet),
    };
    Command::Store {
        mode,
        key,
        flags,
        expiry,
        value_bytes: value_bytes as usize,
        quiet,
    }
}

fn delete<'a>(words: &Words<'a>) -> Command<'a> {
    let quiet = words.quiet();
    let zero = words.words[2] == b"0";
    let key = words.words[1];
    match words.count {
        2 => {}
        3 if zero || quiet => {}
        4 if zero && quiet => {}
        3 | 4 => return bad(BAD_DELETE, quiet),
        _ => return bad(ERROR, false),
    }
    let quiet = quiet && words.count > 2;
    if key.len() > KEY_BYTES {
        return bad(BAD_FORMAT, quiet);
    }
    Command::Delete { key, quiet }
}

fn count<'a>(words: &Words<'a>, increase: bool) -> Command<'a> {
    if !(3..=4).contains(&words.count) {
        return bad(ERROR, false);
    }
    let quiet = words.quiet();
    let key = words.words[1];
    if key.len() > KEY_BYTES {
        return bad(BAD_FORMAT, quiet);
    }
    match number::unsigned_64(words.words[2]) {
        Some(delta) => Command::Count {
            key,
            increase,
            delta,
            quiet,
        },
        None => bad(BAD_DELTA, quiet),
    }
}

fn touch<'a>(words: &Words<'a>) -> Command<'a> {
    if !(3..=4).contains(&words.count) {
        return bad(ERROR, false);
    }
    let quiet = words.quiet();
    let key = words.words[1];
    if key.len() > KEY_BYTES {
        return bad(BAD_FORMAT, quiet);
    }
    match number::signed_32(words.words[2]) {
        Some(expiry) => Command::Touch { key, expiry, quiet },
        None => bad(BAD_EXPIRY, quiet),
    }
}

fn flush<'a>(words: &Words<'a>) -> Command<'a> {
    let quiet = words.quiet();
    match words.count - usize::from(quiet) {
        1 => Command::Flush { delay: 0, quiet },
        _ if words.count > 3 => bad(ERROR, false),
        _ => match number::signed_32(words.words[1]) {
            Some(delay) => Command::Flush { delay, quiet },
            None => bad(BAD_EXPIRY, quiet),
        },
    }
}

fn verbosity<'a>(words: &Words<'a>) -> Command<'a> {
    let quiet = words.quiet();
    match words.count {
        2 if quiet => Command::Verbosity { quiet },
        2 | 3 if number::unsigned_64(words.words[1]).is_some() => Command::Verbosity { quiet },
        2 | 3 => bad(BAD_FORMAT, quiet),
        _ => bad(ERROR, false),
    }
}
