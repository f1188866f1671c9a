//! Any bytes from a client: no panic, and the same answers however the bytes are cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use steelyard_cache::converse::Conversations;

fuzz_target!(|input: (u8, &[u8])| {
    let (cut, bytes) = input;
    let server = || Conversations::new().expect("address space for a small store");
    let whole = server().talk([bytes]);
    // The answer to stats counts bytes and pieces, and tells the time.
    if bytes.windows(5).any(|window| window == b"stats") {
        return;
    }
    let pieces = server().talk(bytes.chunks(usize::from(cut) + 1));
    assert_eq!(whole, pieces, "cut into pieces of {}", usize::from(cut) + 1);
});
