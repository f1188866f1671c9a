//! The line that begins a sample in `perf script`'s text.
//!
//! `comm pid[/tid] [cpu] time: period event: rest`, where each part but `comm` may be absent, since
//! `perf script -F` chooses them. `comm` may hold spaces and digits, so that the parts are found from those
//! that can be recognized by their shape: the time (`1.5:`), the CPU (`[003]`), the event (ends in a colon).

/// What a sample's first line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SampleLine<'a> {
    /// The command's name; empty when the line does not have it.
    pub command: &'a [u8],
    /// Process id as text, for commands without a name.
    pub pid: Option<&'a [u8]>,
    /// The line tells the time.
    pub has_time: bool,
    /// The event, without its last colon.
    pub event: Option<&'a [u8]>,
    /// The sample's period.
    pub period: Option<u64>,
    /// What follows the event: a frame, a tracepoint's fields, or nothing.
    pub rest: &'a [u8],
}

#[derive(Clone, Copy)]
struct Word {
    start: usize,
    end: usize,
}

/// Words of a line, as far as a sample line's parts can be. A command has 16 bytes, the others are one word.
const MOST_WORDS: usize = 24;

fn is_number(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(u8::is_ascii_digit)
}

/// `123`, `123/456`, and `-1` for the unknown.
fn is_pid(word: &[u8]) -> bool {
    if word == b"-1" {
        return true;
    }
    match word.iter().position(|&byte| byte == b'/') {
        Some(at) => is_number(&word[..at]) && is_number(&word[at + 1..]),
        None => is_number(word),
    }
}

fn is_cpu(word: &[u8]) -> bool {
    word.len() > 2 && word[0] == b'[' && word.ends_with(b"]") && is_number(&word[1..word.len() - 1])
}

fn is_time(word: &[u8]) -> bool {
    let Some(word) = word.strip_suffix(b":") else {
        return false;
    };
    match word.iter().position(|&byte| byte == b'.') {
        Some(at) => is_number(&word[..at]) && is_number(&word[at + 1..]),
        None => false,
    }
}

/// Reads a sample's first line; None when it cannot be one.
pub fn parse(line: &[u8]) -> Option<SampleLine<'_>> {
    let mut words = [Word { start: 0, end: 0 }; MOST_WORDS];
    let count = split(line, &mut words);
    let words = &words[..count];
    let word = |at: usize| &line[words[at].start..words[at].end];
    if count == 0 {
        return None;
    }
    let time = (0..count).find(|&at| is_time(word(at)));
    let cpu_end = time.unwrap_or(count);
    let cpu = (1..cpu_end).rev().find(|&at| is_cpu(word(at)));
    let pid = find_pid(count, cpu, time, &word);
    // The parts after the command begin with the first of those that are there.
    let parts = [pid, cpu, time].into_iter().flatten().min();
    let after = [pid, cpu, time]
        .into_iter()
        .flatten()
        .max()
        .map_or(0, |at| at + 1);
    let event = (after..count).find(|&at| word(at).len() > 1 && word(at).ends_with(b":"));
    let command_end = match (parts, event) {
        (Some(at), _) => at,
        (None, Some(at)) => at,
        (None, None) => return None,
    };
    let command = match command_end {
        0 => &[][..],
        end => &line[words[0].start..words[end - 1].end],
    };
    let period = event.and_then(|event| {
        let before = (after..event).rev().find(|&at| is_number(word(at)))?;
        number(word(before))
    });
    let rest_at = match event.or(after.checked_sub(1)) {
        Some(at) => words[at].end,
        None => line.len(),
    };
    let rest = line[rest_at..].trim_ascii();
    // Without an event, a number behind the time or the process is the period.
    let bare_period = number(rest).filter(|_| event.is_none());
    let pid_is_period = pid.is_some_and(|pid| {
        (cpu, time) == (None, None) && event.is_some() && is_period_column(line, words, pid)
    });
    let (pid, period) = match pid {
        Some(at) if pid_is_period && period.is_none() => (None, number(word(at))),
        pid => (pid, period.or(bare_period)),
    };
    Some(SampleLine {
        command,
        pid: pid.map(word),
        has_time: time.is_some(),
        event: event.map(|at| &word(at)[..word(at).len() - 1]),
        period,
        rest: if bare_period.is_some() { b"" } else { rest },
    })
}

fn number(text: &[u8]) -> Option<u64> {
    let digits = is_number(text).then_some(text)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Whether a number stands in a column as wide as `perf` makes that of the period, which that of a process is not.
fn is_period_column(line: &[u8], words: &[Word], at: usize) -> bool {
    const PERIOD_WIDTH: usize = 10;
    let begin = match at.checked_sub(1) {
        Some(before) => words[before].end + 1,
        None => 0,
    };
    words[at].end.saturating_sub(begin) >= PERIOD_WIDTH
        && number(&line[words[at].start..words[at].end]).is_some()
}

/// The process id: the last number before the CPU or the time; without those, the first number that is not
/// the line's first word.
fn find_pid<'a>(
    count: usize,
    cpu: Option<usize>,
    time: Option<usize>,
    word: &impl Fn(usize) -> &'a [u8],
) -> Option<usize> {
    match cpu.or(time) {
        Some(before) => (0..before).rev().find(|&at| is_pid(word(at))),
        None => (1..count).find(|&at| is_pid(word(at))),
    }
}

fn split(line: &[u8], words: &mut [Word; MOST_WORDS]) -> usize {
    let mut count = 0;
    let mut at = 0;
    while count < MOST_WORDS {
        while at < line.len() && line[at].is_ascii_whitespace() {
            at += 1;
        }
        if at == line.len() {
            break;
        }
        let start = at;
        while at < line.len() && !line[at].is_ascii_whitespace() {
            at += 1;
        }
        words[count] = Word { start, end: at };
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, command: &str, event: Option<&str>, period: Option<u64>, rest: &str) {
        let parsed = parse(line.as_bytes()).expect(line);
        assert_eq!(parsed.command, command.as_bytes(), "{line}");
        assert_eq!(parsed.event, event.map(str::as_bytes), "{line}");
        assert_eq!(parsed.period, period, "{line}");
        assert_eq!(parsed.rest, rest.as_bytes(), "{line}");
    }

    #[test]
    fn all_shapes_of_a_sample_line_are_read() {
        let clock = Some("cpu-clock");
        check(
            "trace    6061 150520.991529:   16949152 task-clock:ppp: ",
            "trace",
            Some("task-clock:ppp"),
            Some(16_949_152),
            "",
        );
        check(
            "simple-terminat     9/9     198791.127353: cpu-clock: ",
            "simple-terminat",
            clock,
            None,
            "",
        );
        check(
            "swapper     0 [001] 202513.231817:    1001001 cpu-clock: ",
            "swapper",
            clock,
            Some(1_001_001),
            "",
        );
        check(
            "Web Content 2 77 [001] 1.5:  9 cycles:u: ",
            "Web Content 2",
            Some("cycles:u"),
            Some(9),
            "",
        );
        check("kworker/0:1 12 cpu-clock: ", "kworker/0:1", clock, None, "");
        check(
            "java 12/13 99 cycles: ",
            "java",
            Some("cycles"),
            Some(99),
            "",
        );
        check(
            ":4242 4242 [000] 1.5: cpu-clock: ",
            ":4242",
            clock,
            None,
            "",
        );
        check(
            "a 9 [000] 1.5: cpu_core/cycles:ppp/: ffff [unknown] (/x)",
            "a",
            Some("cpu_core/cycles:ppp/"),
            None,
            "ffff [unknown] (/x)",
        );
        check(
            "  perf 6447 16450.092164:  1 cycles:  ffffffffb4343bad f+0x1 ([kernel.kallsyms])",
            "perf",
            Some("cycles"),
            Some(1),
            "ffffffffb4343bad f+0x1 ([kernel.kallsyms])",
        );
        check(
            "x 1 [000] 2.5: sched:sched_switch: prev_comm=a prev_pid=1 ==> next_comm=b",
            "x",
            Some("sched:sched_switch"),
            None,
            "prev_comm=a prev_pid=1 ==> next_comm=b",
        );
    }

    #[test]
    fn fields_of_a_sample_line_may_be_absent() {
        let clock = Some("cpu-clock");
        check("x 5", "x", None, None, "");
        check("srv 4711 100.000001: ", "srv", None, None, "");
        check("srv 4711 100.000001:   1000 ", "srv", None, Some(1000), "");
        check(
            "spin    2004008   cpu-clock: ",
            "spin",
            clock,
            Some(2_004_008),
            "",
        );
        check("  814.294837:   cpu-clock: ", "", clock, None, "");
        check("x 1.5: cycles: ", "x", Some("cycles"), None, "");
        check("x y cycles: ", "x y", Some("cycles"), None, "");
    }

    #[test]
    fn other_lines_are_no_sample() {
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"   \t"), None);
        assert_eq!(parse(b"hello world"), None);
    }
}
