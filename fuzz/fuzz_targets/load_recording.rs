//! Any text as a recording of arrivals: an error, or arrivals in order for as long as it is replayed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use steelyard_load::schedule::Recording;

fuzz_target!(|text: &str| {
    let Ok(recording) = Recording::parse(text, String::new()) else {
        return;
    };
    let mut last_ns = 0;
    for index in 0..1_000 {
        let at_ns = recording.at_ns(index);
        assert!(
            last_ns <= at_ns,
            "arrival {index}: {at_ns} ns after {last_ns} ns"
        );
        last_ns = at_ns;
    }
});
