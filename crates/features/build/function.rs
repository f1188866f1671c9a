//! The source of one feature extractor: a chain of statements, each of a kind that ranking services compute
//! (crossed fields, decision trees, buckets, polynomials, parsed text), with constants of its own.
//!
//! Invariants: only integer operations that wrap, and IEEE 754 additions and multiplications of finite doubles in a
//! stated order (Rust never fuses them), so that every ISA computes the same bits; every statement changes the
//! running hash, so that none can be left out.

use std::fmt::Write as _;

/// Numbers in a profile, as in `src/lib.rs`.
const FIELDS: u64 = 32;
/// Bytes of text in a profile, as in `src/lib.rs`.
const TEXT: u64 = 512;
/// The text as little-endian words of 8 bytes.
const WORDS: u64 = TEXT / 8;
/// Statements in a function, at least and at most.
const STATEMENTS: (u64, u64) = (4, 8);

/// Draws of constants and kinds of statements.
struct Random(steelyard_statistics::Random);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    fn odd(&mut self) -> u64 {
        self.bits() | 1
    }

    /// A field as an expression.
    fn field(&mut self) -> String {
        format!("p.fields[{}]", self.below(FIELDS))
    }

    /// Sixteen bits of a field as an expression.
    fn part(&mut self) -> String {
        let shift = self.below(49);
        format!("({} >> {shift} & 0xffff)", self.field())
    }
}

/// The source of function `number`.
pub fn source(number: usize) -> String {
    let seed = (number as u64).wrapping_mul(0xd134_2543_de82_ef95);
    let mut random = Random(steelyard_statistics::Random::new(seed));
    let statements = STATEMENTS.0 + random.below(STATEMENTS.1 - STATEMENTS.0 + 1);
    let mut text =
        format!("#[inline(never)]\npub fn f{number}(p: &Profile, mut s: u64) -> u64 {{\n");
    for _ in 0..statements {
        match random.below(8) {
            0 | 1 => cross(&mut random, &mut text),
            2 | 3 => tree(&mut random, &mut text),
            4 => buckets(&mut random, &mut text),
            5 => polynomial(&mut random, &mut text),
            6 => number_in_text(&mut random, &mut text),
            _ => words_in_text(&mut random, &mut text),
        }
    }
    text.push_str("    s\n}\n");
    text
}

/// Fields crossed into one hash, as sparse features are.
fn cross(random: &mut Random, out: &mut String) {
    let (a, b, c) = (random.field(), random.field(), random.field());
    let (x, y, z) = (random.odd(), random.odd(), random.bits());
    let (turn, shift) = (1 + random.below(63), 25 + random.below(14));
    let _ = writeln!(
        out,
        "    s = (s ^ {a}).wrapping_mul({x:#x}).rotate_left({turn}) ^ {b}.wrapping_add({z:#x});\n    \
         s = (s ^ s >> {shift}).wrapping_mul({y:#x}).wrapping_add({c});"
    );
}

/// A decision tree over parts of fields; every leaf does something else.
fn tree(random: &mut Random, out: &mut String) {
    let text = node(random, 3);
    let _ = writeln!(out, "    {text}");
}

fn node(random: &mut Random, depth: u32) -> String {
    if depth == 0 {
        let (field, value, turn) = (random.field(), random.odd(), 1 + random.below(63));
        return match random.below(3) {
            0 => format!("s = s.wrapping_add({field} ^ {value:#x}).rotate_left({turn});"),
            1 => format!("s = (s ^ {field} >> {turn}).wrapping_mul({value:#x});"),
            _ => format!("s = s.rotate_left({turn}).wrapping_sub({field}) ^ {value:#x};"),
        };
    }
    // Thresholds in the middle half keep both sides alive.
    let (part, threshold) = (random.part(), 0x4000 + random.below(0x8000));
    let (low, high) = (node(random, depth - 1), node(random, depth - 1));
    format!("if {part} < {threshold} {{ {low} }} else {{ {high} }}")
}

/// A value put into one of eight buckets of uneven width.
fn buckets(random: &mut Random, out: &mut String) {
    let (part, turn, factor) = (random.part(), 1 + random.below(63), random.odd());
    let _ = writeln!(out, "    let x = {part} ^ s & 0xff;");
    let sum = (0..7)
        .map(|_| format!("(x > {}) as u64", random.below(0x1_0000)))
        .collect::<Vec<_>>()
        .join(" + ");
    let _ = writeln!(
        out,
        "    s = s.rotate_left({turn}) ^ ({sum}).wrapping_mul({factor:#x});"
    );
}

/// A calibration curve: a polynomial over 0..1 in doubles.
fn polynomial(random: &mut Random, out: &mut String) {
    let (part, turn) = (random.part(), 1 + random.below(63));
    let _ = writeln!(out, "    let x = {part} as f64 / 65536.0;");
    // Coefficients of sixteen bits over powers of two are exact in decimal too.
    let mut text = format!("{:.6}", random.below(1 << 16) as f64 / 64.0);
    for _ in 0..5 {
        text = format!("({text} * x + {:.6})", random.below(1 << 16) as f64 / 64.0);
    }
    let _ = writeln!(
        out,
        "    s = s.wrapping_add({text}.to_bits()).rotate_left({turn});"
    );
}

/// A decimal number at a place in the text.
fn number_in_text(random: &mut Random, out: &mut String) {
    let (place, factor) = (random.below(TEXT - 24), random.odd());
    let _ = writeln!(
        out,
        "    let mut value = 0u64;\n    let mut at = {place};\n    \
         while at < {} {{\n        let digit = (p.text[at] ^ 48) as u64;\n        \
         if digit > 9 {{\n            break;\n        }}\n        \
         value = value * 10 + digit;\n        at += 1;\n    }}\n    \
         s = (s ^ value).wrapping_mul({factor:#x});\n    s ^= s >> 31;",
        place + 12
    );
}

/// Three words of the text, hashed without a table.
fn words_in_text(random: &mut Random, out: &mut String) {
    for _ in 0..3 {
        let (place, factor, turn) = (random.below(WORDS), random.odd(), 1 + random.below(63));
        let _ = writeln!(
            out,
            "    s = (s ^ p.words[{place}]).wrapping_mul({factor:#x}).rotate_left({turn});"
        );
    }
}
