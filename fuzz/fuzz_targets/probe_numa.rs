//! Whatever memory.numa_stat or a table of distances holds, it may not panic the probe, and a score stays between 0 and 1.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| steelyard_probe::numa::parse_anything(text));
