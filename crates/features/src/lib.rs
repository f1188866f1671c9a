//! Feature extractors in generated code: several MB of machine code, all of which does work that a checksum checks.
//!
//! In: a user's `Profile`, how many extractors are hot, how many calls to make. Out: a vector of features and the hash
//! over every call. Each call's result says which extractor is called next, so that neither compiler nor branch
//! predictor can know the order, and the instruction caches see what a large binary does to them.
//!
//! Invariants: the results are a pure function of the arguments, bit for bit on every ISA (see `build/function.rs`);
//! extractor `n` is the same in every build that has it.
//!
//! Not here: where profiles come from, and what features are used for (`crates/rank`).

mod code;
mod profile;

pub use code::{CodeSize, code_size};
pub use profile::{FIELDS, Profile, TEXT_BYTES};

/// A feature extractor: hashes a profile onto what was found so far.
pub type Extractor = fn(&Profile, u64) -> u64;

#[allow(clippy::all, clippy::too_many_lines, reason = "generated")]
mod generated {
    use crate::Extractor;

    include!(concat!(env!("OUT_DIR"), "/modules.rs"));
}

/// Numbers in a vector of features.
pub const VECTOR: usize = 64;

/// What extraction found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features {
    /// The user as the network sees it.
    pub vector: [i8; VECTOR],
    /// The hash over every call's result.
    pub checksum: u64,
}

/// How many extractors this build has: fewer in a development build.
pub fn available() -> usize {
    generated::EXTRACTORS.len()
}

/// Calls `calls` extractors, of the first `hot`, on `profile`, in an order that their results decide.
///
/// # Panics
/// When `hot` is 0 or above `available()`.
pub fn extract(profile: &Profile, hot: usize, calls: usize) -> Features {
    let extractors = &generated::EXTRACTORS[..hot];
    assert!(!extractors.is_empty(), "no extractor is hot");
    let mut state = profile.fields[0] ^ calls as u64;
    let mut sums = [0u64; VECTOR];
    for call in 0..calls {
        // The upper half of the product of the upper half: every extractor is equally likely.
        let number = (((state >> 32) * hot as u64) >> 32) as usize;
        state = extractors[number](profile, state).wrapping_add(call as u64);
        state = (state ^ state >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let sum = &mut sums[call % VECTOR];
        *sum = sum.rotate_left(7) ^ state;
    }
    Features {
        vector: sums.map(|sum| (sum >> 56) as i8),
        checksum: sums.iter().fold(state, |hash, &sum| {
            (hash ^ sum)
                .wrapping_mul(0x9fb2_1c65_1e98_df25)
                .rotate_left(29)
        }),
    }
}

#[cfg(test)]
mod tests;
