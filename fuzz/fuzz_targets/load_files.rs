//! Files that shape a load, as anybody may write them: read or refused in one line, never a panic.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use steelyard_load::Protocol;
use steelyard_load::mix::{MixFile, Text};
use steelyard_load::trace::Columns;

fuzz_target!(|text: &str| {
    let refused = |why: String| assert!(!why.contains('\n'), "{why}");
    // A folder that is not there: no file is opened for what the fuzzer writes.
    match MixFile::parse(text, "fuzz", Path::new("/nonexistent")) {
        Ok(mix) => {
            for protocol in [
                Protocol::Memcached,
                Protocol::Redis,
                Protocol::Http,
                Protocol::Thrift,
                Protocol::Cql,
            ] {
                let _ = mix.for_protocol(protocol);
            }
        }
        Err(why) => refused(why),
    }
    let mut lines = text.lines();
    if let Ok(columns) = Columns::parse(lines.next().unwrap_or_default()) {
        for line in lines {
            let _ = columns.row(line);
        }
    }
    if let Err(why) = Text::parse(text) {
        refused(why);
    }
});
