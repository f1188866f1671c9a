//! What is known of a user: numbers and a text of fields, made from the user's number.

/// Numbers in a profile.
pub const FIELDS: usize = 32;
/// Bytes of text in a profile.
pub const TEXT_BYTES: usize = 512;

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Counts, times, identifiers.
    pub fields: [u64; FIELDS],
    /// `name=number;` over and over.
    pub text: [u8; TEXT_BYTES],
    /// The text again, as little-endian words.
    pub words: [u64; TEXT_BYTES / 8],
}

fn mix(value: u64) -> u64 {
    let mixed = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

impl Profile {
    /// The profile of a user: the same for ever.
    pub fn of(user: u64) -> Self {
        let mut next = user.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut draw = || {
            next = next.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(next)
        };
        let fields = std::array::from_fn(|_| draw());
        let mut text = [b'0'; TEXT_BYTES];
        let mut at = 0;
        while at < TEXT_BYTES {
            let mut bits = draw();
            let letters = 2 + (bits % 5) as usize;
            let digits = 1 + (bits >> 8) as usize % 10;
            let field = (0..letters + digits + 2).map(|place| {
                bits = bits.rotate_left(5).wrapping_mul(0x9fb2_1c65_1e98_df25);
                match place {
                    _ if place < letters => b'a' + (bits >> 40) as u8 % 26,
                    _ if place == letters => b'=',
                    _ if place <= letters + digits => b'0' + (bits >> 40) as u8 % 10,
                    _ => b';',
                }
            });
            for (byte, slot) in field.zip(&mut text[at..]) {
                *slot = byte;
                at += 1;
            }
        }
        let words = std::array::from_fn(|word| {
            let bytes: [u8; 8] = std::array::from_fn(|byte| text[8 * word + byte]);
            u64::from_le_bytes(bytes)
        });
        Self {
            fields,
            text,
            words,
        }
    }
}
