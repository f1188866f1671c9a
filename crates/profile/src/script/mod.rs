//! `perf script`'s text to a profile, as a stream.
//!
//! In: text in pieces of any length. Out: stacks in a `Profile`. Samples of one event are taken, the first
//! that its header names, or that appears, unless another is asked for: counts of different events do not add up.
//!
//! Invariants: memory is bounded by the distinct frames and stacks; a line that cannot be read is counted and
//! reported as a reason; nothing panics, whatever the text.
//!
//! Fast, because a call chain's lines repeat: the number of a frame is looked up by its whole line, address
//! included, so that most lines are never parsed.

mod fields;
mod frame;
mod header;

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use crate::Profile;
use crate::events::EventFilter;
use crate::names::{UNKNOWN, clean, function_name, is_kernel, module_name};

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
    /// A line that is nothing by itself: the command, where it is all that `-F` keeps of a sample's first line.
    pending: Option<Vec<u8>>,
    /// Whether places in the source are kept beside functions.
    pub wants_lines: bool,
    /// The sample's frames begin with a tab, so that other lines are none.
    tabbed: bool,
    /// Samples of which a command, a frame, or the name of a function was seen.
    seen: Seen,
}

/// Fields that the text has somewhere.
#[derive(Debug, Default)]
struct Seen {
    samples: bool,
    commands: bool,
    frames: bool,
    symbols: bool,
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
            pending: None,
            wants_lines: false,
            tabbed: false,
            seen: Seen::default(),
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
        self.drop_pending();
        self.profile.head.lost = self.lost;
        self.note_missing_fields();
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
        if in_sample && self.is_beside_frames(line, indented) {
            return self.place(line);
        }
        if (indented && self.in_chain && !begins_sample(line))
            || (!indented && in_sample && self.is_bare_frame(line))
        {
            return self.frame(line);
        }
        self.end_sample();
        if fields::is_chain_line(line) {
            return self.frame_without_header(line);
        }
        self.drop_pending();
        if line[0] == b'#' {
            return self.comment(line);
        }
        self.sample_line(line);
    }

    /// Adds the place in the source to the frame above, where it is wanted and the line is one.
    fn place(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line.trim_ascii());
        let is_line = text
            .rsplit_once(':')
            .is_some_and(|(file, number)| file != "??" && number.parse::<u32>().is_ok());
        if !self.wants_lines || !is_line || self.stack.len() < 2 {
            return;
        }
        let Some(last) = self.stack.last_mut() else {
            return;
        };
        let frame = &self.profile.frames.frames()[*last as usize];
        let (name, module) = (format!("{} ({text})", frame.name), frame.module.clone());
        *last = self.profile.frames.intern(&clean(name.into()), &module);
    }

    /// Whether a line that begins with no tab is another field of the sample whose frames do.
    fn is_beside_frames(&self, line: &[u8], indented: bool) -> bool {
        (indented && self.tabbed && !begins_sample(line))
            || fields::is_source_line(line)
            || (indented && fields::is_other(line))
    }

    /// The first frame of a sample whose first line has the command at most.
    fn frame_without_header(&mut self, line: &[u8]) {
        if !self.filter.takes(b"") {
            self.pending = None;
            self.skipping = true;
            return;
        }
        let command = self.pending.take().unwrap_or_default();
        self.begin(&String::from_utf8_lossy(&command));
        self.in_chain = true;
        self.frame(line);
    }

    /// Opens a sample of a command.
    fn begin(&mut self, command: &str) {
        self.seen.samples = true;
        self.seen.commands |= !command.is_empty();
        let command = if command.is_empty() { UNKNOWN } else { command };
        let command = crate::names::clean(command.into());
        self.stack.push(self.profile.frames.intern(&command, ""));
    }

    fn drop_pending(&mut self) {
        self.unread_lines += u64::from(self.pending.take().is_some());
    }

    /// Names the fields without which the profile has less than it could.
    fn note_missing_fields(&mut self) {
        if !self.seen.samples {
            return;
        }
        let missing = if !self.seen.frames {
            "no stacks, because the text lacks the fields ip and sym (perf script -F +ip,+sym)"
        } else if !self.seen.symbols {
            "no names of functions, because the text lacks the field sym (perf script -F +sym)"
        } else if !self.seen.commands {
            "no names of commands, because the text lacks the field comm (perf script -F +comm)"
        } else {
            return;
        };
        self.profile.reduced(missing);
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
            return self.line_without_fields(line);
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
        match (sample.command, sample.pid) {
            ([], Some(pid)) => {
                self.begin(&format!(":{}", String::from_utf8_lossy(pid)));
                self.seen.commands = true;
            }
            (command, _) => self.begin(&String::from_utf8_lossy(command)),
        }
        self.period = sample.period;
        // What follows the event is a frame when it has the shape of one; otherwise a tracepoint's fields.
        if let Some(frame) = fields::inline_frame(sample.rest, is_tracepoint(event)) {
            let number = self.intern(&frame);
            self.stack.push(number);
            self.inline_frame = true;
        }
    }

    /// A sample's first line that tells neither event nor process nor time.
    fn line_without_fields(&mut self, line: &[u8]) {
        match fields::command_and_frame(line) {
            Some((command, frame)) if self.filter.takes(b"") => {
                self.begin(command);
                let number = self.intern(&frame);
                self.stack.push(number);
                self.end_sample();
            }
            _ => self.pending = Some(line.trim_ascii().to_owned()),
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
        let hash = xxh3_64(line);
        let number = match self.cache.get(hash, line) {
            Some(number) => number,
            None => self.new_line(hash, line),
        };
        if number == NO_FRAME {
            return;
        }
        self.tabbed = line[0] == b'\t';
        if self.inline_frame {
            self.stack.truncate(1);
            self.inline_frame = false;
        }
        if self.stack.len() <= DEEPEST {
            self.stack.push(number);
        }
    }

    #[cold]
    fn new_line(&mut self, hash: u64, line: &[u8]) -> u32 {
        let text = String::from_utf8_lossy(line);
        let number = match frame::parse(&text) {
            _ if fields::is_other(line) => NO_FRAME,
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
        self.seen.frames = true;
        self.seen.symbols |= !frame.symbol.is_empty();
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
        self.tabbed = false;
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
    if line[0].is_ascii_whitespace() {
        return fields::is_indented_place(line);
    }
    let text = line.trim_ascii();
    let Some(colon) = memchr::memrchr(b':', text) else {
        return false;
    };
    let digits = &text[colon + 1..];
    !digits.is_empty()
        && digits.iter().all(u8::is_ascii_digit)
        && memchr::memchr(b'.', &text[..colon]).is_some()
}

/// `sched:sched_switch`, and not `cycles:ppp`.
fn is_tracepoint(event: &[u8]) -> bool {
    let colon = memchr::memchr(b':', event);
    colon.is_some_and(|at| event.len() > at + 4)
}

/// Whether `text` begins like `perf script`'s output: one of its first lines is a sample's first line with a
/// process or a time, or a frame with its address.
pub fn looks_like_script(text: &[u8]) -> bool {
    let mut lines = text.split(|&byte| byte == b'\n').take(64);
    lines.any(|line| fields::is_chain_line(line) || is_sample_line(line))
}

fn is_sample_line(line: &[u8]) -> bool {
    let Some(sample) = header::parse(line) else {
        let alone = fields::command_and_frame(line);
        return alone.is_some_and(|(_, frame)| frame.address > Some(u64::from(u32::MAX)));
    };
    // Frames of folded stacks may hold numbers and colons.
    let whole = sample.rest.is_empty() || fields::inline_frame(sample.rest, false).is_some();
    memchr::memchr(b';', sample.command).is_none()
        && match sample.event {
            Some(_) => sample.pid.is_some() || sample.has_time,
            None => sample.has_time && whole,
        }
}

#[cfg(test)]
mod tests;
