//! Whatever a plan of events or the files of a PMU say, nothing may panic.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| steelyard_probe::counters::parse_anything(bytes));
