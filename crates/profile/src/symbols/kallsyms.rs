//! The kernel's own symbol table, /proc/kallsyms, loaded modules included.

use std::path::Path;

/// Addresses of kernel functions.
#[derive(Debug)]
pub struct KernelSymbols {
    text: String,
    /// Address, and where the name lies in `text`; sorted.
    symbols: Vec<(u64, u32, u32)>,
}

/// Bytes beyond the last symbol that still count as its own.
const LAST_SYMBOL_BYTES: u64 = 1 << 16;

impl KernelSymbols {
    /// Reads the running kernel's table.
    ///
    /// # Errors
    /// One sentence that says why there are no kernel symbols, and how to get them.
    pub fn load(root: &Path) -> Result<Self, String> {
        let path = root.join("proc/kallsyms");
        let text = std::fs::read_to_string(&path).map_err(|error| {
            format!(
                "kernel functions have no names: {}: {error}",
                path.display()
            )
        })?;
        let symbols = Self::parse(text);
        if symbols.symbols.is_empty() {
            return Err(
                "kernel functions have no names, because the kernel hides its addresses: sysctl \
                 kernel.kptr_restrict=0, or run as root"
                    .to_owned(),
            );
        }
        Ok(symbols)
    }

    /// Takes the functions of a table in the format of /proc/kallsyms. Hidden addresses are all zero.
    pub fn parse(text: String) -> Self {
        let mut symbols = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            if let Some((address, name_at, length)) = parse_line(line) {
                // A table of 4 GiB is none.
                let at = u32::try_from(start + name_at).unwrap_or(u32::MAX);
                symbols.push((address, at, length));
            }
            start += line.len();
        }
        symbols.sort_by_key(|&(address, ..)| address);
        symbols.dedup_by_key(|&mut (address, ..)| address);
        Self { text, symbols }
    }

    /// The function that an address is in.
    pub fn find(&self, address: u64) -> Option<&str> {
        let after = self
            .symbols
            .partition_point(|&(start, ..)| start <= address);
        let at = after.checked_sub(1)?;
        let (start, ..) = self.symbols[at];
        if after == self.symbols.len() && address - start > LAST_SYMBOL_BYTES {
            return None;
        }
        self.name(at)
    }

    /// The address of a symbol. Several may have one address, hence a search in the text.
    pub fn address_of(&self, name: &str) -> Option<u64> {
        let line = self
            .text
            .lines()
            .find(|line| line.split_ascii_whitespace().nth(2) == Some(name))?;
        parse_line(line).map(|(address, ..)| address)
    }

    fn name(&self, at: usize) -> Option<&str> {
        let (_, start, length) = self.symbols[at];
        self.text
            .get(start as usize..start as usize + length as usize)
    }
}

/// Address, place and length of the name: `ffffffff81000000 T _text\t[module]`.
fn parse_line(line: &str) -> Option<(u64, usize, u32)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let kind = words.next()?;
    let name = words.next()?;
    if address == 0 || !matches!(kind, "t" | "T" | "w" | "W") {
        return None;
    }
    let at = name.as_ptr() as usize - line.as_ptr() as usize;
    Some((address, at, u32::try_from(name.len()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "ffffffff81000000 T _text\nffffffff81000100 t do_one\nffffffff81000100 t alias\n\
                         ffffffff81000180 D data\nffffffffc0000000 t ext4_map\t[ext4]\n";

    #[test]
    fn an_address_belongs_to_the_function_that_begins_before_it() {
        let symbols = KernelSymbols::parse(TABLE.to_owned());
        assert_eq!(symbols.find(0xffff_ffff_8100_0000), Some("_text"));
        assert_eq!(symbols.find(0xffff_ffff_8100_01ff), Some("do_one"));
        assert_eq!(symbols.find(0xffff_ffff_c000_0004), Some("ext4_map"));
        assert_eq!(symbols.find(0xffff_ffff_ffff_0000), None);
        assert_eq!(symbols.find(1), None);
        assert_eq!(symbols.address_of("alias"), Some(0xffff_ffff_8100_0100));
        assert_eq!(symbols.address_of("nothing"), None);
    }

    #[test]
    fn hidden_addresses_are_no_symbols() {
        let hidden = "0000000000000000 T _text\nnonsense\n\n";
        assert!(KernelSymbols::parse(hidden.to_owned()).symbols.is_empty());
    }
}
