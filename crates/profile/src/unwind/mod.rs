//! Call chains of programs without frame pointers, from each sample's registers and a copy of its stack.
//!
//! In: a sample's state, where its addresses are, the files that were mapped there. Out: the frames from the leaf
//! outwards, and how each walk ended, counted. Rules come from the files' `.eh_frame` or `.debug_frame` by
//! framehop; where there are none, as for code that was made at run time, frame pointers are followed.
//!
//! Invariants: nothing panics or reads outside the copy, whatever registers, stack and files hold; a caller is
//! believed only where code is mapped; a stack whose begin was not reached is counted with the reason.
//!
//! Not here: frames of inlined functions; 32-bit programs.

mod code;
mod engine;
mod signals;
mod tally;

use std::path::PathBuf;

use engine::{Aarch64, Engine, X86_64};
pub use tally::{Tally, share};

pub use crate::sample::UserState;

/// Where an address of a program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spot {
    /// At an offset in a file.
    File {
        /// The file's number.
        module: u32,
        /// The offset.
        offset: u64,
    },
    /// In code without a file.
    Anonymous,
    /// In no code.
    Nowhere,
}

/// What a walk asks of whoever knows the process.
pub trait Ground {
    /// Where an address is.
    fn spot(&mut self, address: u64) -> Spot;
    /// The walk begins at this address. It is a frame wherever it is.
    fn enter(&mut self, address: u64) -> Spot;
    /// The walk has come to a call at this address. It is a frame unless the answer is `Nowhere`.
    fn enter_caller(&mut self, address: u64) -> Spot;
    /// Where the file with this number can be read.
    fn file(&mut self, module: u32) -> Option<PathBuf>;
}

/// How a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// At the function that a thread begins with.
    Bottom,
    /// The copy of the stack ends before the stack does.
    OfCopy,
    /// No caller could be found from this place.
    Astray(Spot),
}

/// Processors whose stacks are unwound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processor {
    /// 64-bit x86.
    X86_64,
    /// 64-bit Arm.
    Aarch64,
}

impl Processor {
    /// The one that this program was built for; None when its stacks cannot be unwound.
    pub fn native() -> Option<Self> {
        Self::named(std::env::consts::ARCH)
    }

    /// The one that the kernel calls so.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "x86_64" => Some(Self::X86_64),
            "aarch64" => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// The registers that unwinding begins with, a bit each, as perf_event_open takes them: frame pointer,
    /// stack pointer, program counter, and on Arm the link register.
    pub fn registers(self) -> u64 {
        match self {
            Self::X86_64 => 0b111 << 6,
            Self::Aarch64 => 0b1111 << 29,
        }
    }
}

/// Unwinds stacks of one kind of processor, and counts how that went.
pub struct Unwinding {
    engine: Kind,
    /// What was counted.
    pub tally: Tally,
}

enum Kind {
    X86_64(Box<Engine<X86_64>>),
    Aarch64(Box<Engine<Aarch64>>),
}

impl Unwinding {
    /// For stacks of this kind.
    pub fn new(processor: Processor) -> Self {
        let engine = match processor {
            Processor::X86_64 => Kind::X86_64(Box::default()),
            Processor::Aarch64 => Kind::Aarch64(Box::default()),
        };
        Self {
            engine,
            tally: Tally::default(),
        }
    }

    /// Tells `ground` the frames of a program's stack, from the leaf outwards.
    pub fn walk(&mut self, state: &UserState<'_>, ground: &mut impl Ground) -> End {
        let end = match &mut self.engine {
            Kind::X86_64(engine) => engine.walk(state, ground),
            Kind::Aarch64(engine) => engine.walk(state, ground),
        };
        let knows = |spot| match &self.engine {
            Kind::X86_64(engine) => engine.knows(spot),
            Kind::Aarch64(engine) => engine.knows(spot),
        };
        self.tally.count(end, knows);
        end
    }
}

#[cfg(test)]
mod tests;
