//! Whatever /proc and /sys say, no parser of the probe may panic.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| steelyard_probe::parse_anything(text));
