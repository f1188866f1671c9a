//! What a function and a module are called in a profile, wherever they come from.
//!
//! In: symbols as compilers mangle them, modules as the kernel or `perf` write them. Out: names that neither
//! separate frames (`;`) nor steer a terminal (control characters, written as `\x1b`), demangled, and modules
//! as base names.
//!
//! Not here: finding the symbol of an address (`symbols`).

use std::borrow::Cow;

/// The name of a function that is not known.
pub const UNKNOWN: &str = "[unknown]";

/// The module of kernel code, loadable modules included: rules about the kernel need one word for it.
pub const KERNEL: &str = "kernel";

/// Longest name kept, in bytes. C++ and Rust make longer ones, of which nobody reads the end.
const LONGEST_NAME: usize = 1024;

/// Longest mangled name that is demangled: its length in clear may be exponential in it.
const LONGEST_MANGLED: usize = 4096;

/// `symbol` as a person wrote it: demangled (Rust, both manglings, without hashes; C++), cut to 1024 bytes,
/// without separators.
pub fn function_name(symbol: &str) -> Cow<'_, str> {
    if symbol.is_empty() {
        return Cow::Borrowed(UNKNOWN);
    }
    clean(demangle(symbol))
}

fn demangle(symbol: &str) -> Cow<'_, str> {
    if symbol.len() > LONGEST_MANGLED {
        return Cow::Borrowed(symbol);
    }
    // `perf` appends nothing to a mangled name, compilers do: `.cold`, `.isra.0`, `.llvm.123`.
    if (symbol.starts_with("_R") || symbol.starts_with("_ZN"))
        && let Ok(rust) = rustc_demangle::try_demangle(symbol)
    {
        return Cow::Owned(bounded(format_args!("{rust:#}")));
    }
    if symbol.starts_with("_Z") {
        let bare = symbol.split('.').next().unwrap_or(symbol);
        let options = cpp_demangle::DemangleOptions::new()
            .no_return_type()
            .recursion_limit(128);
        let parsed = cpp_demangle::BorrowedSymbol::new(bare.as_bytes());
        if let Some(name) = parsed
            .ok()
            .and_then(|parsed| parsed.demangle_with_options(&options).ok())
        {
            return Cow::Owned(name);
        }
    }
    Cow::Borrowed(symbol)
}

/// What `arguments` writes, up to a bound: a demangled Rust name may repeat its parts exponentially.
fn bounded(arguments: std::fmt::Arguments<'_>) -> String {
    struct Bounded(String);
    impl std::fmt::Write for Bounded {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            if self.0.len() + text.len() > LONGEST_MANGLED {
                return Err(std::fmt::Error);
            }
            self.0.push_str(text);
            Ok(())
        }
    }
    let mut out = Bounded(String::new());
    let _ = std::fmt::Write::write_fmt(&mut out, arguments);
    out.0
}

/// Whether a terminal may obey a character, or a reader not see it: control characters of both sets, those
/// without width, and those that change the direction of writing.
pub fn is_harmful(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Whether every byte is a character that stands for itself, so that a text needs no second look.
fn is_plain(text: &str) -> bool {
    text.bytes()
        .all(|byte| matches!(byte, b' '..=b'~') && byte != b'\\')
}

/// `text` as it may be shown: harmful characters as `\xHH` or `\u{HHHH}`, and a backslash before `x` or `u{` as
/// `\x5c`, so that the text can be had back.
pub fn printable(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for (at, letter) in text.char_indices() {
        let rest = &text[at + letter.len_utf8()..];
        let looks_escaped = letter == '\\' && (rest.starts_with('x') || rest.starts_with("u{"));
        match u32::from(letter) {
            code if (is_harmful(letter) || looks_escaped) && code < 0x100 => {
                shown.push_str(&format!("\\x{code:02x}"));
            }
            code if is_harmful(letter) => shown.push_str(&format!("\\u{{{code:x}}}")),
            _ => shown.push(letter),
        }
    }
    Cow::Owned(shown)
}

/// `text` without separators, cut to the longest name kept, as it may be shown.
pub fn clean(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.len() <= LONGEST_NAME && is_plain(&text) && !text.contains(';') {
        return text;
    }
    let mut end = text.len().min(LONGEST_NAME);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Cow::Owned(printable(&text[..end].replace(';', ":")).into_owned())
}

/// The module's base name: `libc.so.6` of `/usr/lib/libc.so.6`, `kernel` of the kernel's many names, empty
/// where `path` names no file. `in_kernel` says that the frame's address is the kernel's.
pub fn module_name(path: &str, in_kernel: bool) -> Cow<'_, str> {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    if is_kernel(path, in_kernel) {
        return Cow::Borrowed(KERNEL);
    }
    let inner = path
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    match inner {
        Some("unknown" | "") => return Cow::Borrowed(""),
        Some(inner) => return clean(Cow::Borrowed(inner)),
        None => {}
    }
    if path.starts_with("//anon") || path == "inlined" {
        return Cow::Borrowed("");
    }
    let base = path.rsplit('/').find(|part| !part.is_empty()).unwrap_or("");
    clean(Cow::Borrowed(base))
}

/// Whether a module's name is one of those that the kernel and its modules go by in `perf`'s files.
pub fn is_kernel(path: &str, in_kernel: bool) -> bool {
    let named = path.starts_with("[kernel.kallsyms]")
        || path.starts_with("[guest.kernel.kallsyms]")
        || path == "[kernel]"
        || path.ends_with("/vmlinux")
        || path.contains("/vmlinux-")
        || (path.starts_with("/lib/modules/") && path.contains(".ko"));
    named || (in_kernel && path.starts_with('[') && path != "[unknown]" && path != "[vsyscall]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_demangled_and_free_of_separators() {
        assert_eq!(function_name("_Z5alphav"), "alpha()");
        assert_eq!(
            function_name("_ZN4core3fmt5write17h0123456789abcdefE"),
            "core::fmt::write"
        );
        assert_eq!(
            function_name("_RINvNtCse0yjq9ZQveU_3std2rt10lang_startuECs8K9WJNlS7Dz_5trace"),
            "std::rt::lang_start::<()>"
        );
        assert_eq!(
            function_name("Ljava/lang/String;::hashCode"),
            "Ljava/lang/String:::hashCode"
        );
        assert_eq!(function_name("a\nb\tc"), "a\\x0ab\\x09c");
        assert_eq!(function_name("_Zbroken"), "_Zbroken");
        assert_eq!(function_name(""), UNKNOWN);
    }

    /// What [`printable`] was given.
    fn original(shown: &str) -> String {
        let mut text = String::new();
        let mut rest = shown;
        while let Some(letter) = rest.chars().next() {
            rest = &rest[letter.len_utf8()..];
            let (digits, after) = match (letter, rest.as_bytes()) {
                ('\\', [b'x', ..]) => (&rest[1..3], &rest[3..]),
                ('\\', [b'u', b'{', ..]) => rest[2..].split_once('}').expect("a brace"),
                _ => {
                    text.push(letter);
                    continue;
                }
            };
            let code = u32::from_str_radix(digits, 16).expect("a number");
            text.push(char::from_u32(code).expect("a character"));
            rest = after;
        }
        text
    }

    proptest::proptest! {
        #[test]
        fn shown_names_steer_no_terminal_and_can_be_had_back(
            text in r"(\PC|[\x00-\x20\x7f-\u{9f}\\xu{}0-9a-f;\u{202e}\u{feff}\u{e0041}]){0,40}"
        ) {
            let shown = printable(&text);
            proptest::prop_assert!(!shown.chars().any(is_harmful));
            proptest::prop_assert_eq!(original(&shown), text);
        }
    }

    #[test]
    fn escape_sequences_of_either_set_are_written_out() {
        assert_eq!(function_name("\x1b[31mred"), "\\x1b[31mred");
        assert_eq!(function_name("a\u{9b}31m\u{202e}"), "a\\x9b31m\\u{202e}");
        assert_eq!(function_name(r"App\Kernel::run"), r"App\Kernel::run");
        assert_eq!(function_name(r"C:\x1b"), r"C:\x5cx1b");
    }

    #[test]
    fn long_names_are_cut_at_a_character() {
        let long = "é".repeat(3000);
        let name = function_name(&long);
        assert_eq!(name.len(), LONGEST_NAME);
        assert!(name.chars().all(|c| c == 'é'));
    }

    #[test]
    fn modules_are_base_names() {
        for (path, in_kernel, expected) in [
            ("/usr/lib/libc.so.6", false, "libc.so.6"),
            ("/tmp/a b (deleted)", false, "a b"),
            ("[kernel.kallsyms]", true, "kernel"),
            ("[kernel.kallsyms]_text", true, "kernel"),
            ("[nf_conntrack]", true, "kernel"),
            ("/lib/modules/6.1/kernel/fs/ext4.ko.xz", true, "kernel"),
            ("[vdso]", false, "vdso"),
            ("[unknown]", false, ""),
            ("[unknown]", true, ""),
            ("//anon", false, ""),
            ("", false, ""),
            ("/x/;y", false, ":y"),
        ] {
            assert_eq!(module_name(path, in_kernel), expected, "{path}");
        }
    }
}
