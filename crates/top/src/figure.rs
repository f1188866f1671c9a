//! Figures: numbers, or why there are none.

use std::fmt;
use std::rc::Rc;

use crate::column::{COLUMNS, Column};

/// Why a figure is missing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// One that is known beforehand.
    Fixed(&'static str),
    /// A reason specific to this machine.
    Made(Rc<str>),
}

impl Reason {
    /// Rates need two readings.
    pub const FIRST_READING: Self = Self::Fixed("only one sample so far: a rate needs two");
    /// Left alone on a crowded machine.
    pub const NOT_VISITED: Self =
        Self::Fixed("it slept; with so many threads, sleeping ones are read every 5 s");
    /// Kernel threads have no memory of their own.
    pub const KERNEL_THREAD: Self =
        Self::Fixed("a kernel thread: it has no program and no memory of its own");
    /// Another user's process.
    pub const NOT_PERMITTED: Self =
        Self::Fixed("another user's process: run as root, or with CAP_SYS_PTRACE");
    /// A process that not even root may look into.
    pub const REFUSED_TO_ROOT: Self = Self::Fixed(
        "refused even to root: CAP_SYS_PTRACE is missing, as in containers, or the process is guarded",
    );
    /// A machine with one node.
    pub const ONE_NODE: Self = Self::Fixed("the machine has one NUMA node: all memory is local");
    /// The kernel's files do not have it.
    pub const NOT_REPORTED: Self = Self::Fixed("this kernel does not report it");
    /// It did not run.
    pub const DID_NOT_RUN: Self = Self::Fixed("it neither ran nor waited for a CPU");

    /// Why a process may not be looked into, given who asks.
    pub fn not_permitted() -> Self {
        // SAFETY: geteuid has no preconditions.
        match unsafe { libc::geteuid() } {
            0 => Self::REFUSED_TO_ROOT,
            _ => Self::NOT_PERMITTED,
        }
    }

    /// A reason specific to this machine.
    pub fn made(text: impl AsRef<str>) -> Self {
        Self::Made(Rc::from(text.as_ref()))
    }

    /// The reason in words.
    pub fn text(&self) -> &str {
        match self {
            Self::Fixed(text) => text,
            Self::Made(text) => text,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.text())
    }
}

/// A number in the unit of its column, or why there is none.
pub type Figure = Result<f64, Reason>;

/// A figure for each column.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures([Figure; COLUMNS.len()]);

impl Figures {
    /// All missing for one reason.
    pub fn missing(reason: &Reason) -> Self {
        Self(std::array::from_fn(|_| Err(reason.clone())))
    }

    /// The figure of a column.
    pub fn get(&self, column: Column) -> &Figure {
        &self.0[column as usize]
    }

    /// Sets the figure of a column.
    pub fn set(&mut self, column: Column, figure: Figure) {
        self.0[column as usize] = figure;
    }

    /// The number of a column, None when it is missing.
    pub fn number(&self, column: Column) -> Option<f64> {
        self.get(column).as_ref().ok().copied()
    }
}
