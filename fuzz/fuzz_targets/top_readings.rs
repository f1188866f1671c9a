//! What /proc tells of processes, and instructions at sampled addresses: whatever the bytes are, nothing panics.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    steelyard_top::sample::parse_anything(bytes);
    steelyard_top::mix::decode_anything(bytes);
});
