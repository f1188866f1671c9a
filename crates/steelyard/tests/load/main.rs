//! `steelyard-load` from outside: against servers whose behaviour is known exactly, and against memcached.

mod accuracy;
mod answers;
mod capacity;
mod delays;
mod faults;
mod hosts;
mod protocol;
mod repeat;
mod support;
mod tls;
