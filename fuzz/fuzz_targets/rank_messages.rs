//! Any bytes from a client or a leaf: no panic, and the same calls however the bytes are cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use steelyard_rank::decode::{decode, decode_answer};

fuzz_target!(|input: (u8, &[u8])| {
    let (cut, bytes) = input;
    let whole = decode([bytes]);
    let pieces = decode(bytes.chunks(usize::from(cut) + 1));
    assert_eq!(whole, pieces, "cut into pieces of {}", usize::from(cut) + 1);
    let _ = decode_answer(bytes);
});
