//! Inputs of the benchmarks: generated from a seed, with the properties that `data/tax/*.json` states.
//!
//! Only integer arithmetic draws them, so that the same seed gives the same bytes on every architecture.
//! Nothing is read at run time: the files are part of the program.

mod blocks;
mod message;
mod sizes;
mod words;

pub use blocks::{Blocks, blocks};
pub use message::{Item, Message, fleet_messages, response_messages};
pub use sizes::Sizes;
