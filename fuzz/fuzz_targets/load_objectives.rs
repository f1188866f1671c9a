//! Objectives as people write them, and the reports of a load's other processes: read or refused, never a panic,
//! and what is displayed reads back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use steelyard_load::hosts::wire::{PackedHistogram, read_report};
use steelyard_load::slo::Slo;

fuzz_target!(|text: String| {
    if let Ok(slo) = text.parse::<Slo>() {
        assert_eq!(slo.to_string().parse::<Slo>(), Ok(slo));
    }
    let _ = read_report(&text);
    let _ = PackedHistogram(text).unpack();
});
