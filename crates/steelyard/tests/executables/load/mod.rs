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
pub mod support;
mod tls;
