//! What the agent reads from outside: configuration and rules, Prometheus text, journals, HTTP answers and requests: whatever the bytes are, nothing panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use steelyard_agent::config::Config;
use steelyard_agent::health::{Health, answer};
use steelyard_agent::sample::prometheus::Selector;
use steelyard_agent::spool::journal::payloads;
use steelyard_agent::store::http;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let _ = Config::parse(&text);
    if let Ok(selector) = Selector::parse("a") {
        let latency = selector.latency(&text);
        let _ = (
            selector.sum(&text),
            latency.since(&latency),
            Selector::parse(&text),
        );
    }
    let (found, used) = payloads(bytes);
    assert!(used <= bytes.len() && found.len() <= bytes.len());
    let _ = (
        http::parse(bytes, false),
        http::parse(bytes, true),
        http::parse_url(&text),
    );
    let _ = answer(bytes, &Health::default());
});
