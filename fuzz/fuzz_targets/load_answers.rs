//! The answers of a memcached server, in pieces cut anywhere: no panic, no loop, the same answers as in one piece.
#![no_main]

use libfuzzer_sys::fuzz_target;
use steelyard_load::codec::{Codec, MemcachedText};

fuzz_target!(|input: (Vec<u8>, Vec<u16>)| {
    let (text, cuts) = input;
    let mut cuts: Vec<usize> = cuts.iter().map(|&cut| usize::from(cut) % (text.len() + 1)).collect();
    cuts.extend([0, text.len()]);
    cuts.sort_unstable();
    let (mut whole, mut answers) = (MemcachedText::default(), Vec::new());
    let verdict = whole.decode(&text, &mut Vec::new(), &mut answers);
    let (mut pieces, mut pieced) = (MemcachedText::default(), Vec::new());
    let again = cuts
        .windows(2)
        .try_for_each(|cut| pieces.decode(&text[cut[0]..cut[1]], &mut Vec::new(), &mut pieced));
    assert_eq!(verdict, again);
    assert_eq!(answers, pieced);
});
