//! Whatever numa_maps, memory.numa_stat, the files of nodes or a table of distances hold, none may panic the probe, and a
//! score stays between 0 and 1.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| steelyard_probe::numa::parse_anything(text));
