//! `steelyard-probe` from outside: recordings, counters, and a world that fails it.

mod counters;
mod counters_missing;
mod faults;
mod plans;
mod record;
mod support;
