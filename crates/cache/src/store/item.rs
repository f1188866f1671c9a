//! How an item lies in memory: a 16-byte header, the client's flags when they are not zero, the key, the value.
//!
//! Words are in the machine's byte order, since items never leave the process. Invariant: `Header::total()` is
//! a multiple of the unit and depends only on what the header holds, so that a walk over memory meets every item.

use super::index::UNIT;

const HEADER_BYTES: usize = 16;
/// CAS ids wrap at this many bits: 400 000 stores a second for 22 years.
const CAS_BITS: u32 = 48;
const CAS_MASK: u64 = (1 << CAS_BITS) - 1;
const LIVE: u64 = 1;
const FLAGGED: u64 = 2;
const USES_SHIFT: u32 = 2;
const USES_MASK: u64 = 3;

/// What is known of an item besides its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Length of the value.
    pub value_bytes: u32,
    /// Second of the store's clock from which it is no longer there; 0: never.
    pub expiry_s: u32,
    /// Unique number of its last change.
    pub cas: u64,
    /// Length of the key.
    pub key_bytes: u8,
    /// Whether the index points here.
    pub live: bool,
    /// Hits since the item was last passed by, at most 3.
    pub uses: u8,
    /// The client's flags.
    pub flags: u32,
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl Header {
    /// Reads the header of the item that starts at `bytes`.
    #[inline]
    pub fn read(bytes: &[u8]) -> Self {
        let sizes = word(bytes, 0);
        let state = word(bytes, 8);
        let tail = state >> CAS_BITS;
        let low = tail >> 8;
        let flags = if low & FLAGGED != 0 {
            u32::from_ne_bytes(bytes[HEADER_BYTES..][..4].try_into().expect("four bytes"))
        } else {
            0
        };
        Self {
            value_bytes: sizes as u32,
            expiry_s: (sizes >> 32) as u32,
            cas: state & CAS_MASK,
            key_bytes: tail as u8,
            live: low & LIVE != 0,
            uses: (low >> USES_SHIFT & USES_MASK) as u8,
            flags,
        }
    }

    /// Writes the header at the start of `bytes`.
    #[inline]
    pub fn write(&self, bytes: &mut [u8]) {
        let sizes = u64::from(self.value_bytes) | u64::from(self.expiry_s) << 32;
        let low = (u64::from(self.live) * LIVE)
            | (u64::from(self.flags != 0) * FLAGGED)
            | (u64::from(self.uses) & USES_MASK) << USES_SHIFT;
        let state = self.cas & CAS_MASK | (u64::from(self.key_bytes) | low << 8) << CAS_BITS;
        bytes[..8].copy_from_slice(&sizes.to_ne_bytes());
        bytes[8..HEADER_BYTES].copy_from_slice(&state.to_ne_bytes());
        if self.flags != 0 {
            bytes[HEADER_BYTES..HEADER_BYTES + 4].copy_from_slice(&self.flags.to_ne_bytes());
        }
    }

    /// Where the key starts.
    #[inline]
    pub fn key_at(&self) -> usize {
        HEADER_BYTES + if self.flags != 0 { 4 } else { 0 }
    }

    /// Where the value starts.
    #[inline]
    pub fn value_at(&self) -> usize {
        self.key_at() + usize::from(self.key_bytes)
    }

    /// Bytes that the item takes.
    #[inline]
    pub fn total(&self) -> usize {
        (self.value_at() + self.value_bytes as usize).next_multiple_of(UNIT)
    }
}

/// The most that an item with a value of `value_bytes` can take.
pub const fn most_bytes(value_bytes: usize) -> usize {
    (HEADER_BYTES + 4 + 250 + value_bytes).next_multiple_of(UNIT)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn survives_memory(value_bytes: u32, expiry_s: u32, cas in 0..=CAS_MASK, key_bytes: u8, live: bool,
                           uses in 0u8..4, flags: u32) {
            let header = Header { value_bytes, expiry_s, cas, key_bytes, live, uses, flags };
            let mut bytes = [0xa5; 24];
            header.write(&mut bytes);
            prop_assert_eq!(Header::read(&bytes), header);
            prop_assert_eq!(header.total() % UNIT, 0);
        }
    }
}
