//! `steelyard-load` from outside: against servers whose behaviour is known exactly, and against memcached.

mod answers;
mod capacity;
mod faults;
mod hosts;
mod interval_log;
mod lost_hosts;
mod namespaces;
mod protocol;
mod repeat;
#[allow(dead_code, reason = "each binary of tests uses a part of it")]
mod support;
mod tls;
