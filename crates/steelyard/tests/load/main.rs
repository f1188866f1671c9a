//! `steelyard-load` from outside: against servers whose behaviour is known exactly, and against memcached.

mod accuracy;
<<<<<<< HEAD
mod capacity;
=======
mod answers;
>>>>>>> bdd5868 (Describe mixes and traces, hold the description against the program, and test servers that misbehave)
mod delays;
mod faults;
mod hosts;
mod protocol;
mod repeat;
mod support;
mod tls;
