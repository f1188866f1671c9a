//! Whatever bytes pprof's messages hold, their reader may not panic, and what it makes of them can be written.

#![no_main]

use libfuzzer_sys::fuzz_target;
use steelyard_profile::{folded, pprof};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(profile) = pprof::read(bytes, &steelyard_profile::Wanted::default()) {
        folded::write(&profile, &mut std::io::sink()).expect("a sink takes everything");
        pprof::write(&profile, 0, std::io::sink()).expect("a sink takes everything");
    }
});
