//! What one A64 instruction is, from the top-level table of encodings.
//!
//! Instructions are 32 bits wide, and bits 28 to 25 name the group; nothing else is needed for shares, and the
//! decoders that there are know no SVE. Source: Arm Architecture Reference Manual for A-profile, "A64
//! instruction set encoding".

use super::{Class, Kind};

fn bits(word: u32, high: u32, low: u32) -> u32 {
    (word >> low) & ((1 << (high - low + 1)) - 1)
}

/// What the instruction `word` is; None for what is reserved.
pub fn classify(word: u32) -> Option<Kind> {
    let group = bits(word, 28, 25);
    let kind = match group {
        // SME has the top bit, the rest of the group is reserved.
        0b0000 if word >> 31 == 1 => Kind {
            class: Class::Sve,
            ..Kind::default()
        },
        0b0010 => sve(word),
        0b1000 | 0b1001 | 0b0101 | 0b1101 => Kind::default(),
        0b1010 | 0b1011 => Kind {
            branches: is_branch(word),
            ..Kind::default()
        },
        0b0100 | 0b0110 | 0b1100 | 0b1110 => memory(word),
        0b0111 | 0b1111 => floating_or_vector(word),
        _ => return None,
    };
    Some(kind)
}

/// Branches; not exceptions, barriers, hints and system registers, which stand in the same group.
fn is_branch(word: u32) -> bool {
    bits(word, 31, 24) != 0b1101_0100 && bits(word, 31, 22) != 0b11_0101_0100
}

/// SVE: its loads and stores have bit 31 set, stores among them bits 30 and 29 too.
fn sve(word: u32) -> Kind {
    let of_memory = bits(word, 31, 31) == 1;
    let stores = of_memory && bits(word, 30, 29) == 0b11;
    Kind {
        class: Class::Sve,
        loads: of_memory && !stores,
        stores,
        ..Kind::default()
    }
}

/// Loads and stores of one and of several registers; bit 26 says that they are vector registers.
fn memory(word: u32) -> Kind {
    let is_vector = bits(word, 26, 26) == 1;
    let form = bits(word, 29, 28);
    let stores_and_loads = match form {
        // Structures of vectors, or exclusive and ordered accesses: bit 22 is L.
        0b00 => direction(bits(word, 22, 22) == 1),
        // Literals, which are always loads, but for tags and copies.
        0b01 => (true, false),
        // Pairs: bit 22 is L.
        0b10 => direction(bits(word, 22, 22) == 1),
        // One register: bits 23 and 22 are the kind of access, 00 stores; atomic operations do both.
        _ => {
            let is_atomic =
                bits(word, 21, 21) == 1 && bits(word, 11, 10) == 0 && bits(word, 24, 24) == 0;
            if is_atomic && !is_vector {
                (true, true)
            } else if is_vector {
                direction(bits(word, 22, 22) == 1)
            } else {
                direction(bits(word, 23, 22) != 0)
            }
        }
    };
    Kind {
        class: if is_vector {
            Class::Neon
        } else {
            Class::Scalar
        },
        vector_bits: if is_vector { 128 } else { 0 },
        loads: stores_and_loads.0,
        stores: stores_and_loads.1,
        branches: false,
    }
}

fn direction(is_load: bool) -> (bool, bool) {
    (is_load, !is_load)
}

/// Scalar floating point and Advanced SIMD, with the cryptographic extensions among them.
fn floating_or_vector(word: u32) -> Kind {
    let class = if is_crypto(word) {
        Class::Crypto
    } else if bits(word, 28, 28) == 1 {
        // Scalar floating point has bits 30 and 28 to 24 as x0 1111x; scalar Advanced SIMD works on one element.
        Class::ScalarFloat
    } else {
        Class::Neon
    };
    Kind {
        class,
        vector_bits: if class == Class::Neon { 128 } else { 0 },
        ..Kind::default()
    }
}

/// AES (0100 1110 0010 1000 ...), SHA of two and three registers (0101 1110 ...), SHA-512, SHA-3 and SM3/4
/// (1100 1110 ...).
fn is_crypto(word: u32) -> bool {
    let top = bits(word, 31, 24);
    let aes = top == 0b0100_1110 && bits(word, 21, 17) == 0b10100 && bits(word, 11, 10) == 0b10;
    let sha = top == 0b0101_1110
        && ((bits(word, 23, 21) == 0b000 && bits(word, 15, 15) == 0 && bits(word, 11, 10) == 0)
            || (bits(word, 21, 17) == 0b10100 && bits(word, 11, 10) == 0b10));
    aes || sha || top == 0b1100_1110
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Encodings as GNU as writes them.
    #[test]
    fn groups_of_instructions() {
        let table: [(u32, Class, &str); 15] = [
            (0x8b01_0000, Class::Scalar, "add x0, x0, x1"),
            (0x9100_0400, Class::Scalar, "add x0, x0, #1"),
            (0xf940_0000, Class::Scalar, "ldr x0, [x0]"),
            (0xd65f_03c0, Class::Scalar, "ret"),
            (0xd503_201f, Class::Scalar, "nop"),
            (0x1e61_2800, Class::ScalarFloat, "fadd d0, d0, d1"),
            (0x1f41_0800, Class::ScalarFloat, "fmadd d0, d0, d1, d2"),
            (0x4e21_d400, Class::Neon, "fadd v0.4s, v0.4s, v1.4s"),
            (0x4ea1_8400, Class::Neon, "add v0.4s, v0.4s, v1.4s"),
            (0x3dc0_0000, Class::Neon, "ldr q0, [x0]"),
            (0x4e28_4820, Class::Crypto, "aese v0.16b, v1.16b"),
            (0x5e01_0000, Class::Crypto, "sha1c q0, s0, v1.4s"),
            (0x5e28_2820, Class::Crypto, "sha256su0 v0.4s, v1.4s"),
            (0x6581_0000, Class::Sve, "fadd z0.s, z0.s, z1.s"),
            (0xa540_a000, Class::Sve, "ld1w {z0.s}, p0/z, [x0]"),
        ];
        for (word, class, text) in table {
            assert_eq!(classify(word).map(|kind| kind.class), Some(class), "{text}");
        }
        assert_eq!(classify(0), None, "udf");
    }

    #[test]
    fn what_instructions_do() {
        let does = |word| {
            let kind = classify(word).expect("an instruction");
            (kind.loads, kind.stores, kind.branches)
        };
        assert_eq!(does(0xf940_0000), (true, false, false), "ldr x0, [x0]");
        assert_eq!(does(0xf900_0000), (false, true, false), "str x0, [x0]");
        assert_eq!(
            does(0xa9bf_7bfd),
            (false, true, false),
            "stp x29, x30, [sp, #-16]!"
        );
        assert_eq!(
            does(0xa8c1_7bfd),
            (true, false, false),
            "ldp x29, x30, [sp], #16"
        );
        assert_eq!(does(0x3dc0_0000), (true, false, false), "ldr q0, [x0]");
        assert_eq!(does(0x3d80_0000), (false, true, false), "str q0, [x0]");
        assert_eq!(does(0xb820_0041), (true, true, false), "ldadd w0, w1, [x2]");
        assert_eq!(does(0x5800_0000), (true, false, false), "ldr x0, literal");
        assert_eq!(does(0x1400_0000), (false, false, true), "b");
        assert_eq!(does(0x5400_0000), (false, false, true), "b.eq");
        assert_eq!(does(0xd65f_03c0), (false, false, true), "ret");
        assert_eq!(does(0xd400_0001), (false, false, false), "svc #0");
        assert_eq!(does(0xd503_3bbf), (false, false, false), "dmb ish");
        assert_eq!(
            does(0xe540_e000),
            (false, true, false),
            "st1w {{z0.s}}, p0, [x0]"
        );
    }

    proptest! {
        #[test]
        fn arbitrary_words_do_no_harm(word: u32) {
            classify(word);
        }
    }
}
