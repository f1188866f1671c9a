//! Whatever bytes perf.data holds, its reader may not panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use steelyard_profile::perf_data::{MAGIC, read_stream};

fuzz_target!(|records: &[u8]| {
    // The header is given, so that the records are reached.
    let mut bytes = MAGIC.to_vec();
    bytes.extend(16_u64.to_le_bytes());
    bytes.extend(records);
    let _ = read_stream(bytes.as_slice(), &steelyard_profile::Wanted::default());
});
