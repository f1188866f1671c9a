//! How much machine code the hot extractors are, measured in the running program.
//!
//! The addresses in the table are where the functions begin; a function ends where the next one begins. The last one
//! before a gap (another codegen unit, the end) has no next one: it counts with the mean of the others. Addresses
//! rather than the symbol table, because a stripped executable has none.

use crate::generated::EXTRACTORS;

/// No extractor is this long: a greater distance is a gap between codegen units.
const LONGEST_BYTES: usize = 16 * 1024;

/// Machine code of the extractors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeSize {
    /// Extractors counted.
    pub functions: usize,
    /// Their machine code, bytes.
    pub bytes: u64,
}

/// The machine code of the first `hot` extractors.
pub fn code_size(hot: usize) -> CodeSize {
    let begins: Vec<usize> = EXTRACTORS
        .iter()
        .map(|&extractor| extractor as usize)
        .collect();
    CodeSize {
        functions: hot,
        bytes: size(&begins, hot),
    }
}

fn size(begins: &[usize], hot: usize) -> u64 {
    let mut sorted = begins.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut hot_begins = begins[..hot].to_vec();
    hot_begins.sort_unstable();
    // Functions that the linker folded into one are one.
    hot_begins.dedup();
    let (mut bytes, mut known) = (0, 0);
    for begin in &hot_begins {
        let next = sorted.partition_point(|other| other <= begin);
        let length = sorted.get(next).map_or(usize::MAX, |end| end - begin);
        if length <= LONGEST_BYTES {
            bytes += length as u64;
            known += 1;
        }
    }
    if known == 0 {
        return 0;
    }
    bytes * hot_begins.len() as u64 / known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_counts_with_the_mean_and_a_folded_function_once() {
        assert_eq!(
            size(&[100, 200, 400, 1_000_000, 1_000_300], 5),
            100 + 200 + 300 + 200 + 200
        );
        assert_eq!(size(&[100, 200, 400, 100], 1), 100);
        assert_eq!(size(&[200, 200, 100, 300], 3), 200);
        assert_eq!(size(&[100], 1), 0);
    }
}
