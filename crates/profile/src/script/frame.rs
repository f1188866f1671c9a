//! A line of a call chain in `perf script`'s text: `ADDRESS SYMBOL+OFFSET (MODULE)`.
//!
//! Symbols of C++, Rust and Java hold spaces and parentheses, and so do file names; the module is therefore
//! the last parentheses that balance. Offset, module and address may be absent (`perf script -F`).

/// What a line of a call chain says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLine<'a> {
    /// The address, when the line has it.
    pub address: Option<u64>,
    /// The function without its offset.
    pub symbol: &'a str,
    /// The module as `perf` writes it, empty when the line does not have it.
    pub module: &'a str,
}

/// Reads a frame; None when the line holds none.
pub fn parse(line: &str) -> Option<FrameLine<'_>> {
    let line = line.trim();
    let (address, line) = split_address(line);
    let (line, module) = split_module(line);
    // `-F dsoff` appends the offset in the file.
    let module = strip_offset(module);
    let symbol = strip_offset(line.trim());
    if symbol.is_empty() && module.is_empty() && address.is_none() {
        return None;
    }
    Some(FrameLine {
        address,
        symbol,
        module,
    })
}

fn split_address(line: &str) -> (Option<u64>, &str) {
    let end = line.find(char::is_whitespace).unwrap_or(line.len());
    let word = &line[..end];
    let digits = word.strip_prefix("0x").unwrap_or(word);
    // from_str_radix would take a sign as well.
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return (None, line);
    }
    match u64::from_str_radix(digits, 16) {
        Ok(address) => (Some(address), line[end..].trim_start()),
        Err(_) => (None, line),
    }
}

fn split_module(line: &str) -> (&str, &str) {
    if !line.ends_with(')') {
        return (line, "");
    }
    let bytes = line.as_bytes();
    let mut depth = 0_usize;
    let mut last_open = None;
    for at in (0..bytes.len()).rev() {
        match bytes[at] {
            b')' => depth += 1,
            b'(' => {
                depth = depth.saturating_sub(1);
                last_open = Some(at);
                if depth == 0 {
                    break;
                }
            }
            _ => {}
        }
    }
    match last_open {
        // Parentheses that belong to the symbol have no space before them: `f(int)`.
        Some(at) if at == 0 || bytes[at - 1].is_ascii_whitespace() => {
            (&line[..at], line[at + 1..line.len() - 1].trim())
        }
        _ => (line, ""),
    }
}

fn strip_offset(symbol: &str) -> &str {
    match symbol.rfind("+0x") {
        Some(at)
            if symbol[at + 3..]
                .bytes()
                .all(|byte| byte.is_ascii_hexdigit()) =>
        {
            &symbol[..at]
        }
        _ => symbol,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, address: Option<u64>, symbol: &str, module: &str) {
        let expected = FrameLine {
            address,
            symbol,
            module,
        };
        assert_eq!(parse(line), Some(expected), "{line}");
    }

    #[test]
    fn all_shapes_of_a_frame_are_read() {
        check(
            "\t     643 _Z4betav (/workdir/simple-terminates)",
            Some(0x643),
            "_Z4betav",
            "/workdir/simple-terminates",
        );
        check(
            "\tffffffffad135f6f [unknown] ([kernel.kallsyms])",
            Some(0xffff_ffff_ad13_5f6f),
            "[unknown]",
            "[kernel.kallsyms]",
        );
        check(
            "\t 7f01 std::sort<int*>(int*, int*)+0x1f (/usr/lib/a b (deleted))",
            Some(0x7f01),
            "std::sort<int*>(int*, int*)",
            "/usr/lib/a b (deleted)",
        );
        check(
            "\t 7f01 <A as B>::call(&self) (inlined)",
            Some(0x7f01),
            "<A as B>::call(&self)",
            "inlined",
        );
        check(
            "\t 7f01 Ljava/lang/String;::hashCode+0x10 (/tmp/perf-12.map)",
            Some(0x7f01),
            "Ljava/lang/String;::hashCode",
            "/tmp/perf-12.map",
        );
        check(
            "\t 1162 inner+0x19 (/tmp/p/spin+0x1162)",
            Some(0x1162),
            "inner",
            "/tmp/p/spin",
        );
        check("  operator()(int) const", None, "operator()(int) const", "");
        check(" f+0x3", None, "f", "");
        check(" 12ab", Some(0x12ab), "", "");
        check(
            " 6ce258d4c544155 [unknown] ([unknown])",
            Some(0x6ce_258d_4c54_4155),
            "[unknown]",
            "[unknown]",
        );
    }

    #[test]
    fn odd_lines_make_no_panic() {
        for line in [
            "",
            ")",
            "()",
            ")(",
            "a)))",
            "1 )",
            "+0x",
            "é (é)",
            "ffffffffffffffffff x (y)",
        ] {
            let _ = parse(line);
        }
        assert_eq!(parse(" \t"), None);
    }
}
