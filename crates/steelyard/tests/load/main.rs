//! `steelyard-load` from outside: against servers whose behaviour is known exactly, and against memcached.

mod accuracy;
mod delays;
mod faults;
mod protocol;
mod repeat;
mod support;
mod tls;
