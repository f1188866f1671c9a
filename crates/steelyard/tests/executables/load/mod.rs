//! `steelyard-load` from outside: against servers whose behaviour is known exactly, and against memcached.

mod accounting;
mod answers;
mod capacity;
mod faults;
mod for_people;
mod hosts;
mod interval_log;
mod logins;
mod lost_hosts;
mod namespaces;
mod protocol;
mod repeat;
mod sockets;
pub mod support;
mod tls;
