//! The kernel's sample records, as they lie in a ring buffer or in perf.data, to stacks of addresses.
//!
//! In: records of perf_event_open(2) in pieces. Out: stacks of `Place`s (a module and an offset in it, a
//! kernel address, an address without a file), which `symbols` gives names to.
//!
//! Invariants: records take effect in the order of their times; an address is resolved with the mappings that
//! its process had at that time; nothing panics or reads outside a record, whatever its bytes are.

mod abi;
mod assembled;
mod assembler;
mod cursor;
mod rounds;
mod spaces;
mod user;

pub use abi::{Attribute, Attributes, HARDWARE, Record, SOFTWARE};
pub use assembled::Assembled;
pub use assembler::{Assembler, Label, Witness};
pub use cursor::Cursor;
pub use rounds::Rounds;
pub use spaces::{Module, ModuleIdentity, Place, Spaces};
pub use user::UserState;
