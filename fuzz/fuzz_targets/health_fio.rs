//! What fio prints, as any version of it may: read or refused in one line, never a panic; a value is positive.
#![no_main]

use libfuzzer_sys::fuzz_target;
use steelyard_health::parse_fio;

fuzz_target!(|output: &[u8]| {
    for read in [true, false] {
        match parse_fio(output, read) {
            Ok(found) => assert!(found.rate_bytes_per_s > 0.0 && found.operations_per_s > 0.0),
            Err(why) => assert!(!why.contains('\n'), "{why}"),
        }
    }
});
