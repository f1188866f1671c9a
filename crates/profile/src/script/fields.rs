//! What `perf script -F` writes beside frames: places in the source, its lines, branches, registers,
//! disassembly, and fields between the event and the frame of a one-line sample.

use super::frame::{self, FrameLine};

/// Digits of an address that stands in the middle of a line: fewer may be a name or a count.
const FEWEST_DIGITS: usize = 4;
/// Those of an address in a line that has neither event nor time.
const FEWEST_DIGITS_ALONE: usize = 8;

/// Whether an indented line within a chain is no frame.
pub fn is_other(line: &[u8]) -> bool {
    is_source_line(line) || is_disassembly(line) || is_label(line) || is_trailing(line)
}

/// `|13     for (...)`: a line of the source (srccode).
pub fn is_source_line(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    text.len() > 1 && text[0] == b'|' && text[1].is_ascii_digit()
}

/// `\t0000000000401136\tinsn: eb 0d`: an address with a tab behind it (brstackinsn).
fn is_disassembly(line: &[u8]) -> bool {
    let Some((b'\t', rest)) = line.split_first() else {
        return false;
    };
    let rest = rest.trim_ascii_start();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_hexdigit());
    let digits = digits.count();
    digits > 0 && rest.get(digits) == Some(&b'\t')
}

/// `\tmain:` and `\tmain:\tfile.c:5`: the function whose instructions follow.
fn is_label(line: &[u8]) -> bool {
    let Some((b'\t', rest)) = line.split_first() else {
        return false;
    };
    let text = rest.trim_ascii();
    text.ends_with(b":") || memchr::memmem::find(text, b":\t").is_some()
}

/// Registers, instructions and branches behind a chain.
fn is_trailing(line: &[u8]) -> bool {
    let text = line.trim_ascii_start();
    [&b"ABI:"[..], b"ilen:", b"insn:"]
        .iter()
        .any(|start| text.starts_with(start))
        || text
            .split(u8::is_ascii_whitespace)
            .next()
            .is_some_and(is_branch)
}

/// `0x401136/0x401150/P/-/-/1` and `main+0x12/f+0x0/P/-/-/1`: from, to, predicted, in a transaction, aborted, cycles.
fn is_branch(word: &[u8]) -> bool {
    let parts: Vec<&[u8]> = word.split(|&byte| byte == b'/').collect();
    parts.windows(4).skip(1).any(|parts| {
        matches!(parts[0], b"P" | b"M" | b"-" | b"PN" | b"MN")
            && matches!(parts[1], b"X" | b"-")
            && matches!(parts[2], b"A" | b"-")
            && !parts[3].is_empty()
            && parts[3].iter().all(u8::is_ascii_digit)
    })
}

/// The place in the source of the frame above: a line that begins with exactly two spaces.
pub fn is_indented_place(line: &[u8]) -> bool {
    line.starts_with(b"  ") && line.get(2).is_some_and(|byte| !byte.is_ascii_whitespace())
}

/// Whether a word in the middle of a line is an address: hexadecimal, with a digit.
fn is_address(word: &str, fewest: usize) -> bool {
    (fewest..=16).contains(&word.len())
        && word.bytes().all(|byte| byte.is_ascii_hexdigit())
        && word.bytes().any(|byte| byte.is_ascii_digit())
}

/// Where words begin and end.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_ascii_whitespace()
        .map(|word| (word.as_ptr() as usize - text.as_ptr() as usize, word))
}

/// The frame in what follows the event of a one-line sample: an address, a symbol, and a module in parentheses.
/// Before it may be the address of data, flags, a weight; behind it branches and the rest.
pub fn inline_frame(rest: &[u8], is_tracepoint: bool) -> Option<FrameLine<'_>> {
    let text = without_trailing(std::str::from_utf8(rest).ok()?);
    let whole = frame::parse(text)?;
    let complete = |frame: &FrameLine<'_>, text: &str| {
        frame.address.is_some() && (!frame.module.is_empty() || !text.contains(' '))
    };
    if is_tracepoint {
        return complete(&whole, text).then_some(whole);
    }
    let addresses = words(text).filter(|(_, word)| is_address(word, FEWEST_DIGITS));
    let last = addresses
        .filter_map(|(at, _)| frame::parse(&text[at..]))
        .filter(|frame| frame.address.is_some() && !frame.symbol.is_empty())
        .last();
    last.filter(|frame| !frame.module.is_empty() || text.ends_with(frame.symbol))
        .or_else(|| complete(&whole, text).then_some(whole))
}

/// The text up to the first branch, or what follows a module's parenthesis as a number.
fn without_trailing(text: &str) -> &str {
    let branch = words(text).find(|(_, word)| is_branch(word.as_bytes()));
    let text = branch.map_or(text, |(at, _)| &text[..at]).trim_end();
    match text.rsplit_once(") ") {
        Some((before, after)) if after.trim().bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            &text[..before.len() + 1]
        }
        _ => text,
    }
}

/// The command and the frame of a one-line sample without pid, time and event (`-F comm,ip,sym`).
pub fn command_and_frame(line: &[u8]) -> Option<(&str, FrameLine<'_>)> {
    let text = std::str::from_utf8(line).ok()?;
    let mut addresses = words(text).filter(|(_, word)| is_address(word, FEWEST_DIGITS_ALONE));
    let (at, _) = addresses.next()?;
    let frame = frame::parse(&text[at..]).filter(|frame| !frame.symbol.is_empty())?;
    let command = text[..at].trim();
    (!command.contains(';')).then_some((command, frame))
}

/// Whether a line is a frame of a chain for certain: a tab, an address and a name.
pub fn is_chain_line(line: &[u8]) -> bool {
    let Some((b'\t', rest)) = line.split_first() else {
        return false;
    };
    let Ok(text) = std::str::from_utf8(rest) else {
        return false;
    };
    let word = text.split_ascii_whitespace().next().unwrap_or("");
    (1..=16).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_fields_are_no_frames() {
        for line in [
            "\t0000000000401136\tinsn: eb 0d              # PRED 1 cycles [1]",
            "\tmain:",
            "\tmain:\tspin.c:5",
            " 0x401136/0x401150/P/-/-/1  0x401160/0x401136/M/-/-/0",
            " main+0x12/f+0x0/PN/-/-/1/COND/-",
            " ABI:2    AX:0x78d1    BX:0x312cd",
            "|13       for (int i = 0; i < n; i++)",
            " ilen: 3 insn: 48 89 e5",
        ] {
            assert!(is_other(line.as_bytes()), "{line}");
        }
        for line in [
            "\t            1162 inner (/tmp/p/spin)",
            "\t 7f01 Ljava/lang/String;::hash (/tmp/perf-1.map)",
            "\tmain",
            " a::b<c>(int)",
        ] {
            assert!(!is_other(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn the_frame_is_the_last_address_with_a_name() {
        for (rest, symbol, module) in [
            ("0     56351482517a inner (/tmp/spin)", "inner", "/tmp/spin"),
            (
                "7ffe12345678 56351482517a f<a, b>(int) (/x y)",
                "f<a, b>(int)",
                "/x y",
            ),
            (
                "56351482517a inner (/tmp/spin)               0",
                "inner",
                "/tmp/spin",
            ),
            ("call   401136 inner (/tmp/spin)", "inner", "/tmp/spin"),
            (
                "68100142 |OP LOAD|LVL L1 hit|BLK N/A 12 401136 dead (/x)",
                "dead",
                "/x",
            ),
            (
                "401136 inner (/x)  0x401136/0x401150/P/-/-/1",
                "inner",
                "/x",
            ),
            ("ffffffff81775dda elf_load", "elf_load", ""),
        ] {
            let frame = inline_frame(rest.as_bytes(), false).expect(rest);
            assert_eq!((frame.symbol, frame.module), (symbol, module), "{rest}");
        }
        let none = inline_frame(b"prev_comm=a prev_pid=1 ==> next_pid=1234", true);
        assert_eq!(none, None);
    }
}
