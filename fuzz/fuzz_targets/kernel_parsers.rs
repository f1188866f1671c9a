//! Whatever /proc, /sys and control groups say, no parser of the kernel's notations may panic.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| steelyard_kernel::parse_anything(text));
