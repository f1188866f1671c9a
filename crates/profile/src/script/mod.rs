//! `perf script`'s text to a profile, as a stream.
//!
//! In: text in pieces of any length. Out: stacks in a `Profile`. Samples of one event are taken, the first
//! that its header names, or that appears, unless another is asked for: counts of different events do not add up.
//!
//! Invariants: memory is bounded by the distinct frames and stacks; a line that cannot be read is counted and
//! told as a reason; nothing panics, whatever the text.
//!
//! Fast, because a call chain's lines repeat: the number of a frame is looked up by its whole line, address
//! included, so that most lines are never parsed.

mod frame;
mod header;

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use crate::Profile;
use crate::events::EventFilter;
use crate::names::{UNKNOWN, function_name, is_kernel, module_name};

/// Longest line that is read; what is beyond belongs to no sample `perf` writes.
const LONGEST_LINE: usize = 1 << 20;

/// Lines and bytes that are remembered at most; beyond it the memory of lines, not of frames, starts anew.
const MOST_LINES: usize = 1 << 18;
const MOST_LINE_BYTES: usize = 32 << 20;

/// Frames of a stack that are kept at most: the kernel's own bound is 127, unwinders' about 1000.
const DEEPEST: usize = 4096;

/// The lowest address of the kernel's half on the 64-bit machines of `perf`.
const KERNEL_HALF: u64 = 1 << 63;

/// Frames by their whole line.
#[derive(Debug, Default)]
struct LineCache {
    bytes: Vec<u8>,
    lines: Vec<(usize, u32, u32)>,
    index: HashTable<u32>,
}

impl LineCache {
    fn get(&self, hash: u64, line: &[u8]) -> Option<u32> {
        let same = |&at: &u32| self.line(at) == line;
        let at = *self.index.find(hash, same)?;
        Some(self.lines[at as usize].2)
    }

    fn line(&self, at: u32) -> &[u8] {
        let (start, length, _) = self.lines[at as usize];
        &self.bytes[start..start + length as usize]
    }

    fn put(&mut self, hash: u64, line: &[u8], frame: u32) {
        if self.lines.len() >= MOST_LINES || self.bytes.len() + line.len() > MOST_LINE_BYTES {
            *self = Self::default();
        }
        let at = self.lines.len() as u32;
        self.lines
            .push((self.bytes.len(), line.len() as u32, frame));
        self.bytes.extend_from_slice(line);
        let (bytes, lines) = (&self.bytes, &self.lines);
        self.index.insert_unique(hash, at, |&at| {
            let (start, length, _) = lines[at as usize];
            xxh3_64(&bytes[start..start + length as usize])
        });
    }
}

/// What a line that no frame was found in is remembered as.
const NO_FRAME: u32 = u32::MAX;

/// Reads `perf script`'s text.
pub struct ScriptReader {
    profile: Profile,
    filter: EventFilter,
    cache: LineCache,
    /// The stack of the sample that is being read; empty between samples.
    stack: Vec<u32>,
    period: Option<u64>,
    /// The sample's first line named its frame itself; a chain below replaces it.
    inline_frame: bool,
    /// Lines that begin with a space are frames, not the next sample.
    in_chain: bool,
    /// The sample belongs to an event that is left out.
    skipping: bool,
    periods_missing: bool,
    partial: Vec<u8>,
    overlong: bool,
    unread_lines: u64,
    lost: Option<u64>,
}

impl ScriptReader {
    /// A reader that takes samples of `event`, or of the first event that appears.
    pub fn new(event: Option<&str>) -> Self {
        Self {
            profile: Profile::default(),
            filter: EventFilter::new(event),
            cache: LineCache::default(),
            stack: Vec::new(),
            period: None,
            inline_frame: false,
            in_chain: false,
            skipping: false,
            periods_missing: false,
            partial: Vec::new(),
            overlong: false,
            unread_lines: 0,
            lost: None,
        }
    }

    /// Takes the next piece of the text.
    pub fn feed(&mut self, piece: &[u8]) {
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', piece) {
            if self.partial.is_empty() && !self.overlong && end - start <= LONGEST_LINE {
                self.line(&piece[start..end]);
            } else {
                self.keep_partial(&piece[start..end]);
                self.end_partial();
            }
            start = end + 1;
        }
        self.keep_partial(&piece[start..]);
    }

    fn keep_partial(&mut self, rest: &[u8]) {
        if self.partial.len() + rest.len() > LONGEST_LINE {
            self.overlong = true;
            self.partial.clear();
        }
        if !self.overlong {
            self.partial.extend_from_slice(rest);
        }
    }

    fn end_partial(&mut self) {
        let line = std::mem::take(&mut self.partial);
        if self.overlong {
            self.unread_lines += 1;
            self.overlong = false;
        } else {
            self.line(&line);
        }
        self.partial = line;
        self.partial.clear();
    }

    /// The text's end: the profile.
    pub fn finish(mut self) -> Profile {
        if !self.partial.is_empty() || self.overlong {
            self.end_partial();
        }
        self.end_sample();
        self.profile.head.lost = self.lost;
        if let Some(event) = self.filter.chosen() {
            self.profile.set_event(&event);
        }
        self.profile.next_event = self.filter.next_choice();
        if self.periods_missing {
            self.profile.weight_unit = crate::WeightUnit::None;
        }
        if let Some(reason) = self.filter.left_out() {
            self.profile.reduced(reason);
        }
        if self.unread_lines > 0 {
            let reason = format!(
                "{} lines could not be read as perf script's",
                self.unread_lines
            );
            self.profile.reduced(reason);
        }
        self.profile
    }

    #[inline]
    fn line(&mut self, line: &[u8]) {
        match line {
            [b'\t', ..] if !self.stack.is_empty() || self.skipping => self.frame(line),
            [] | [b'\r'] => self.end_sample(),
            _ => self.other_line(line),
        }
    }

    fn other_line(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return self.end_sample();
        }
        let indented = line[0].is_ascii_whitespace();
        let in_sample = !self.stack.is_empty() || self.skipping;
        if (indented && self.in_chain) || (!indented && in_sample && self.is_bare_frame(line)) {
            return self.frame(line);
        }
        self.end_sample();
        if line[0] == b'#' {
            return self.comment(line);
        }
        self.sample_line(line);
    }

    /// `# event : name = cycles, , id = ...`: `perf script --header` tells the events in the order of recording.
    fn comment(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let name = text
            .strip_prefix("# event : name = ")
            .and_then(|rest| Some(rest.split_once(", ")?.0));
        if let Some(name) = name {
            self.filter.recorded(name);
        }
    }

    /// Whether a line without indentation, which editors and shells take away, is a frame: within a chain
    /// whatever is not the next sample's first line, elsewhere only what has a frame's address and module.
    fn is_bare_frame(&self, line: &[u8]) -> bool {
        if line[0] == b'#' || begins_sample(line) {
            return false;
        }
        let text = String::from_utf8_lossy(line);
        let whole = frame::parse(&text)
            .is_some_and(|frame| frame.address.is_some() && !frame.module.is_empty());
        whole || self.in_chain
    }

    fn sample_line(&mut self, line: &[u8]) {
        let Some(sample) = header::parse(line) else {
            self.unread_lines += 1;
            return;
        };
        if sample.rest.starts_with(b"PERF_RECORD_")
            || memchr::memmem::find(line, b" PERF_RECORD_").is_some()
        {
            self.count_lost(line);
            return;
        }
        let event = sample.event.unwrap_or(b"");
        self.in_chain = sample.rest.is_empty();
        if !self.filter.takes(event) {
            self.skipping = true;
            return;
        }
        let command = match (sample.command, sample.pid) {
            ([], Some(pid)) => format!(":{}", String::from_utf8_lossy(pid)).into(),
            ([], None) => UNKNOWN.into(),
            (command, _) => String::from_utf8_lossy(command),
        };
        let command = crate::names::clean(command);
        let number = self.profile.frames.intern(&command, "");
        self.stack.push(number);
        self.period = sample.period;
        // What follows the event is a frame when it has the shape of one; otherwise a tracepoint's fields.
        if let Some(frame) = inline_frame(sample.rest) {
            let number = self.intern(&frame);
            self.stack.push(number);
            self.inline_frame = true;
        }
    }

    fn count_lost(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let count = text
            .split_once("PERF_RECORD_LOST lost ")
            .and_then(|(_, count)| count.split_whitespace().next()?.parse::<u64>().ok());
        if let Some(count) = count {
            self.lost = Some(self.lost.unwrap_or(0).saturating_add(count));
        }
    }

    #[inline]
    fn frame(&mut self, line: &[u8]) {
        if self.skipping {
            return;
        }
        if self.inline_frame {
            self.stack.truncate(1);
            self.inline_frame = false;
        }
        let hash = xxh3_64(line);
        let number = match self.cache.get(hash, line) {
            Some(number) => number,
            None => self.new_line(hash, line),
        };
        if number != NO_FRAME && self.stack.len() <= DEEPEST {
            self.stack.push(number);
        }
    }

    #[cold]
    fn new_line(&mut self, hash: u64, line: &[u8]) -> u32 {
        let text = String::from_utf8_lossy(line);
        let number = match frame::parse(&text) {
            // `-F +srcline` puts the place in the source on a line of its own, with two spaces before it.
            Some(frame) if frame.address.is_none() && is_place(line) => NO_FRAME,
            Some(frame) => self.intern(&frame),
            None => NO_FRAME,
        };
        self.cache.put(hash, line, number);
        number
    }

    fn intern(&mut self, frame: &frame::FrameLine<'_>) -> u32 {
        let in_kernel = frame.address.is_some_and(|address| address >= KERNEL_HALF)
            || is_kernel(frame.module, false);
        let module = module_name(frame.module, in_kernel);
        self.profile
            .frames
            .intern(&function_name(frame.symbol), &module)
    }

    fn end_sample(&mut self) {
        if !self.stack.is_empty() {
            self.periods_missing |= self.period.is_none();
            self.profile.add(&self.stack, self.period.unwrap_or(0));
            self.stack.clear();
        }
        self.skipping = false;
        self.inline_frame = false;
        self.in_chain = false;
        self.period = None;
    }
}

/// Whether a line is certainly a sample's first: it has an event, and the process or the time before it.
fn begins_sample(line: &[u8]) -> bool {
    header::parse(line)
        .is_some_and(|sample| sample.event.is_some() && (sample.pid.is_some() || sample.has_time))
}

/// `  file.c:12`, which begins with two spaces and no tab, or without indentation.
fn is_place(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    let Some(colon) = memchr::memrchr(b':', text) else {
        return false;
    };
    let digits = &text[colon + 1..];
    (line.starts_with(b"  ") || !line[0].is_ascii_whitespace())
        && !digits.is_empty()
        && digits.iter().all(u8::is_ascii_digit)
        && memchr::memchr(b'.', &text[..colon]).is_some()
}

/// The frame in a one-line sample: an address, a symbol and a module in parentheses.
fn inline_frame(rest: &[u8]) -> Option<frame::FrameLine<'_>> {
    let text = std::str::from_utf8(rest).ok()?;
    let frame = frame::parse(text)?;
    let complete = frame.address.is_some() && (!frame.module.is_empty() || !text.contains(' '));
    complete.then_some(frame)
}

/// Whether `text` begins like `perf script`'s output: one of its first lines is a sample's first line with a
/// number before its event.
pub fn looks_like_script(text: &[u8]) -> bool {
    let mut lines = text.split(|&byte| byte == b'\n').take(64);
    lines.any(|line| {
        header::parse(line).is_some_and(|sample| sample.event.is_some() && sample.pid.is_some())
    })
}

#[cfg(test)]
mod tests;
