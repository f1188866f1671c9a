//! What a function and a module are called in a profile, wherever they come from.
//!
//! In: symbols as compilers mangle them, modules as the kernel or `perf` write them. Out: names without the
//! characters that separate frames (`;`, line feeds), demangled, and modules as base names.
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

/// `text` without separators and control characters, cut to the longest name kept.
pub fn clean(text: Cow<'_, str>) -> Cow<'_, str> {
    let plain = |byte: u8| byte != b';' && byte >= b' ' && byte != 0x7f;
    if text.len() <= LONGEST_NAME && text.bytes().all(plain) {
        return text;
    }
    let mut end = text.len().min(LONGEST_NAME);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let cleaned = text[..end].chars().map(|c| match c {
        ';' => ':',
        c if c.is_control() => ' ',
        c => c,
    });
    Cow::Owned(cleaned.collect())
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
        assert_eq!(function_name("a\nb\tc"), "a b c");
        assert_eq!(function_name("_Zbroken"), "_Zbroken");
        assert_eq!(function_name(""), UNKNOWN);
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
