//! The answers of servers, in pieces cut anywhere: no panic, no loop, the same answers as in one piece, for every
//! protocol that needs no handshake.
#![no_main]

use libfuzzer_sys::fuzz_target;
use steelyard_load::codec::{Codec, Http, MemcachedText, Resp};

fn check(mut whole: impl Codec, mut pieces: impl Codec, text: &[u8], cuts: &[usize]) {
    let (mut answers, mut pieced) = (Vec::new(), Vec::new());
    let verdict = whole.decode(text, &mut Vec::new(), &mut answers);
    let again = cuts
        .windows(2)
        .try_for_each(|cut| pieces.decode(&text[cut[0]..cut[1]], &mut Vec::new(), &mut pieced));
    assert_eq!(verdict, again);
    whole.end(&mut answers);
    pieces.end(&mut pieced);
    assert_eq!(answers, pieced);
    assert_eq!(whole.finished(), pieces.finished());
}

fuzz_target!(|input: (Vec<u8>, Vec<u16>)| {
    let (text, cuts) = input;
    let mut cuts: Vec<usize> = cuts
        .iter()
        .map(|&cut| usize::from(cut) % (text.len() + 1))
        .collect();
    cuts.extend([0, text.len()]);
    cuts.sort_unstable();
    check(
        MemcachedText::default(),
        MemcachedText::default(),
        &text,
        &cuts,
    );
    check(Resp::default(), Resp::default(), &text, &cuts);
    check(Http::default(), Http::default(), &text, &cuts);
});
