//! Where CPython keeps what a stack is made of, by version.
//!
//! The offsets are those that `offsetof` gives for the headers of CPython 3.9.18, 3.10.13, 3.11.7, 3.12.1 and
//! 3.13.0 on 64-bit Linux; they do not change within a minor version. A reader checks what it follows, so that a
//! build that differs gives no stack rather than a wrong one.

/// How a thread's state leads to its innermost frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Current {
    /// By a pointer in the state.
    Direct(u64),
    /// By the C frame that the state points to: its place, and the frame's in it.
    CFrame(u64, u64),
}

/// Offsets in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// `_PyRuntime` -> first interpreter.
    pub interpreters: u64,
    /// Interpreter -> next one.
    pub next_interpreter: u64,
    /// Interpreter -> first thread.
    pub threads: u64,
    /// Thread -> next one.
    pub next_thread: u64,
    /// Thread -> its id as the kernel has it; None where there is only pthread's.
    pub native_id: Option<u64>,
    /// Thread -> pthread's id of it.
    pub pthread: u64,
    /// Thread -> innermost frame.
    pub current: Current,
    /// Frame -> its caller.
    pub previous: u64,
    /// Frame -> code object.
    pub code: u64,
    /// Frame -> whose it is, a byte; the value that marks the interpreter's own.
    pub owner: Option<(u64, u8)>,
    /// Code object -> file name.
    pub file: u64,
    /// Code object -> name, qualified from 3.11 on.
    pub name: u64,
    /// String object -> bytes of one that is ASCII; of others that are compact.
    pub text: (u64, u64),
}

/// String object -> length, flags.
pub const LENGTH: u64 = 16;
pub const FLAGS: u64 = 32;

const EARLY: Layout = Layout {
    interpreters: 32,
    next_interpreter: 0,
    threads: 8,
    next_thread: 8,
    native_id: None,
    pthread: 176,
    current: Current::Direct(24),
    previous: 24,
    code: 32,
    owner: None,
    file: 104,
    name: 112,
    text: (48, 72),
};

const V3_11: Layout = Layout {
    interpreters: 40,
    threads: 16,
    native_id: Some(160),
    pthread: 152,
    current: Current::CFrame(56, 8),
    previous: 48,
    file: 112,
    name: 128,
    ..EARLY
};

const V3_12: Layout = Layout {
    threads: 72,
    native_id: Some(144),
    pthread: 136,
    current: Current::CFrame(56, 0),
    previous: 8,
    code: 0,
    owner: Some((70, 3)),
    text: (40, 56),
    ..V3_11
};

const V3_13: Layout = Layout {
    interpreters: 632,
    next_interpreter: 7264,
    threads: 7344,
    native_id: Some(160),
    pthread: 152,
    current: Current::Direct(72),
    ..V3_12
};

/// The minor version of CPython 3 that a file holds, by its name: `python3.11`, `libpython3.12.so.1.0`.
pub fn version_of(file_name: &str) -> Option<u32> {
    let rest = file_name
        .strip_prefix("libpython3.")
        .or_else(|| file_name.strip_prefix("python3."))?;
    let end = rest
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(rest.len());
    let is_whole = rest[end..].is_empty() || rest[end..].starts_with(".so");
    rest[..end].parse().ok().filter(|_| is_whole)
}

/// The layout of CPython 3.`minor`.
pub fn layout_of(minor: u32) -> Option<&'static Layout> {
    match minor {
        9 | 10 => Some(&EARLY),
        11 => Some(&V3_11),
        12 => Some(&V3_12),
        13 => Some(&V3_13),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_recognized_by_file_names() {
        for (name, expected) in [
            ("python3.11", Some(11)),
            ("libpython3.12.so.1.0", Some(12)),
            ("libpython3.so", None),
            ("python3", None),
            ("python3.11-config", None),
            ("python3.11d", None),
            ("pypy3.9", None),
        ] {
            assert_eq!(version_of(name), expected, "{name}");
        }
    }
}
