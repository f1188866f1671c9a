//! Whatever text is taken for perf script's, its reader may not panic, and what it makes of it can be written.

#![no_main]

use libfuzzer_sys::fuzz_target;
use steelyard_profile::folded;
use steelyard_profile::script::ScriptReader;

fuzz_target!(|text: &[u8]| {
    let mut reader = ScriptReader::new(None);
    let (first, second) = text.split_at(text.len() / 3);
    reader.feed(first);
    reader.feed(second);
    folded::write(&reader.finish(), &mut std::io::sink()).expect("a sink takes everything");
});
