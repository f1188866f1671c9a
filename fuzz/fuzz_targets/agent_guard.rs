//! Any bytes where the guard expects specifications of another machine or a journal of an earlier agent: no panic that the guard
//! does not catch, and nothing that was read is without its figures.
#![no_main]

use libfuzzer_sys::fuzz_target;
use steelyard_agent::guard::{Specs, decode_specs, parse_journal_entry};

fuzz_target!(init: keep_caught_panics(), |bytes: &[u8]| read(bytes));

/// Lets the guard catch panics of the Parquet library: libFuzzer's hook would end the process first. A panic that is not caught
/// ends it in any case.
fn keep_caught_panics() {
    let end = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map_or("", |place| place.file());
        if !place.contains("/registry/src/") {
            end(panic);
        }
    }));
}

fn read(bytes: &[u8]) {
    if let Ok(rows) = decode_specs(bytes.to_vec()) {
        let count = rows.len();
        let specs = Specs::newest(rows);
        assert!(specs.len() + specs.rejected() <= count);
    }
    if let Ok(entry) = parse_journal_entry(bytes) {
        let again = serde_json::to_vec(&entry).expect("an entry is JSON");
        assert_eq!(parse_journal_entry(&again).as_ref(), Ok(&entry));
    }
}
