//! The stacks of an interpreter's threads, read from its memory while it runs.
//!
//! What is read may change meanwhile: whatever does not look as it should ends the stack without a result. Nothing
//! is followed without a bound.

use std::collections::{HashMap, HashSet};

use super::layout::{Current, FLAGS, LENGTH, Layout};
use super::memory::Memory;

/// Frames of a stack, and threads with one, that are read at most.
const DEEPEST: usize = 512;
const MOST_THREADS: usize = 64;
/// Links that are followed at most from frame to frame, where every other frame may be the interpreter's own.
const MOST_LINKS: usize = 2 * DEEPEST;
/// Threads and interpreters that are looked at.
const MOST_STATES: usize = 4096;
/// Longest name that is read, characters.
const LONGEST: u64 = 512;
/// Names of code objects that are remembered at most.
const MOST_NAMES: usize = 1 << 16;
/// Bytes of a frame that are read at once: all that a layout names.
const FRAME_BYTES: usize = 72;
/// Bytes of a code object from its file name to its name, at most.
const CODE_BYTES: usize = 24;
/// Where glibc keeps the kernel's id of a thread in its pthread structure: x86-64, 64-bit Arm.
const PTHREAD_IDS: [u64; 2] = [0x2d0, 0xd0];

/// A thread and its frames' names, the innermost first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadStack {
    /// The kernel's id of the thread; None where it cannot be found out.
    pub tid: Option<u32>,
    /// Numbers of names.
    pub frames: Vec<u32>,
}

/// Gives names numbers.
pub trait Names {
    /// The number of a name.
    fn number(&mut self, name: &str) -> u32;
}

/// Reads the stacks of one interpreter.
#[derive(Debug)]
pub struct StackReader<M> {
    memory: M,
    layout: &'static Layout,
    runtime: u64,
    /// By the addresses of name and file: a code object's own may soon be another's.
    by_strings: HashMap<(u64, u64), u32>,
}

impl<M: Memory> StackReader<M> {
    /// A reader of the interpreter whose `_PyRuntime` is at `runtime`.
    pub fn new(memory: M, layout: &'static Layout, runtime: u64) -> Self {
        Self {
            memory,
            layout,
            runtime,
            by_strings: HashMap::new(),
        }
    }

    /// Forgets names, since a string may go and another take its place.
    pub fn forget(&mut self) {
        self.by_strings.clear();
    }

    /// The stacks of all threads that can be read now; `is_thread` tells whether a number is a thread's id.
    pub fn read(
        &mut self,
        names: &mut impl Names,
        is_thread: impl Fn(u32) -> bool,
    ) -> Vec<ThreadStack> {
        let mut found = Vec::new();
        // A link that leads back, because its memory is another's by now, ends a list.
        let mut seen = HashSet::new();
        let mut is_new = move |at: u64| at != 0 && seen.len() < MOST_STATES && seen.insert(at);
        let mut interpreter = self.memory.word(self.runtime, self.layout.interpreters);
        while let Some(at) = interpreter.filter(|&at| is_new(at)) {
            let mut thread = self.memory.word(at, self.layout.threads);
            while let Some(state) = thread.filter(|&state| is_new(state)) {
                if found.len() >= MOST_THREADS {
                    return found;
                }
                if let Some(frames) = self
                    .frames(state, names)
                    .filter(|frames| !frames.is_empty())
                {
                    let tid = self.thread_id(state, &is_thread);
                    found.push(ThreadStack { tid, frames });
                }
                thread = self.memory.word(state, self.layout.next_thread);
            }
            interpreter = self.memory.word(at, self.layout.next_interpreter);
        }
        found
    }

    fn thread_id(&self, state: u64, is_thread: impl Fn(u32) -> bool) -> Option<u32> {
        if let Some(offset) = self.layout.native_id {
            return self
                .memory
                .word(state, offset)
                .and_then(|id| u32::try_from(id).ok());
        }
        let pthread = self.memory.word(state, self.layout.pthread)?;
        PTHREAD_IDS
            .iter()
            .filter_map(|&offset| self.memory.word(pthread, offset))
            .map(|word| word as u32)
            .find(|&id| is_thread(id))
    }

    fn frames(&mut self, state: u64, names: &mut impl Names) -> Option<Vec<u32>> {
        let mut frame = match self.layout.current {
            Current::Direct(offset) => self.memory.word(state, offset)?,
            Current::CFrame(at, within) => {
                let c_frame = self.memory.word(state, at)?;
                self.memory.word(c_frame, within)?
            }
        };
        let mut frames = Vec::new();
        for _ in 0..MOST_LINKS {
            if frame == 0 || frames.len() >= DEEPEST {
                return Some(frames);
            }
            let mut bytes = [0; FRAME_BYTES];
            self.memory.read(frame, &mut bytes)?;
            let is_own = self
                .layout
                .owner
                .is_some_and(|(at, marks)| bytes[at as usize] == marks);
            if !is_own {
                frames.push(self.name(word_in(&bytes, self.layout.code)?, names)?);
            }
            frame = word_in(&bytes, self.layout.previous)?;
        }
        None
    }

    fn name(&mut self, code: u64, names: &mut impl Names) -> Option<u32> {
        let (first, last) = (self.layout.file, self.layout.name);
        let mut bytes = [0; CODE_BYTES];
        self.memory.read(
            code.checked_add(first)?,
            &mut bytes[..(last - first + 8) as usize],
        )?;
        let strings = (word_in(&bytes, last - first)?, word_in(&bytes, 0)?);
        if let Some(&number) = self.by_strings.get(&strings) {
            return Some(number);
        }
        let (name, file) = (self.text(strings.0)?, self.text(strings.1)?);
        // As CPython's own perf maps have it.
        let number = names.number(&format!("py::{name}:{file}"));
        if self.by_strings.len() >= MOST_NAMES {
            self.by_strings.clear();
        }
        self.by_strings.insert(strings, number);
        Some(number)
    }

    /// A string object's text. Its flags: 2 bits of interning, 3 of the width of letters, compact, ASCII.
    fn text(&self, object: u64) -> Option<String> {
        let length = self.memory.word(object, LENGTH)?;
        let flags = self.memory.word(object, FLAGS)?;
        let (width, is_compact, is_ascii) =
            (flags >> 2 & 7, flags >> 5 & 1 == 1, flags >> 6 & 1 == 1);
        if !is_compact || !matches!(width, 1 | 2 | 4) || length == 0 || length > (1 << 20) {
            return None;
        }
        let at = if is_ascii {
            self.layout.text.0
        } else {
            self.layout.text.1
        };
        let mut bytes = vec![0; (length.min(LONGEST) * width) as usize];
        self.memory.read(object.checked_add(at)?, &mut bytes)?;
        let letters = bytes.chunks_exact(width as usize).map(|letter| {
            let mut code = [0; 4];
            code[..letter.len()].copy_from_slice(letter);
            char::from_u32(u32::from_le_bytes(code)).unwrap_or(char::REPLACEMENT_CHARACTER)
        });
        Some(letters.collect())
    }
}

fn word_in(bytes: &[u8], at: u64) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
