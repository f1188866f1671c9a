//! Any bytes where the guard expects specifications of another machine or a journal of an earlier agent: no panic, and nothing
//! that was read is without its figures.
#![no_main]

use libfuzzer_sys::fuzz_target;
use steelyard_agent::guard::{Specs, decode_specs, parse_journal_entry};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(rows) = decode_specs("key", bytes, "p") {
        let count = rows.len();
        let specs = Specs::newest(rows);
        assert!(specs.len() + specs.rejected() <= count);
    }
    if let Ok(entry) = parse_journal_entry(bytes) {
        let again = serde_json::to_vec(&entry).expect("an entry is JSON");
        assert_eq!(parse_journal_entry(&again).as_ref(), Ok(&entry));
    }
});
