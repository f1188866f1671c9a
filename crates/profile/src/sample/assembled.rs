//! What an assembler hands over to be named.

use super::spaces::{Module, Place};
use crate::stacks::{Periods, StackTable};
use crate::times::Times;
use crate::unwind::Tally;

/// What an assembler counted.
pub struct Assembled {
    /// The event whose samples were taken.
    pub event: Option<String>,
    /// The first event with samples, where the one that was taken has none.
    pub next_event: Option<String>,
    /// Samples a second that were asked for.
    pub frequency: Option<u64>,
    /// Why samples are left out, when some are.
    pub left_out: Option<String>,
    /// Stacks: the command's number, then places' numbers from the leaf to the root.
    pub stacks: StackTable,
    /// Commands by number.
    pub commands: Vec<String>,
    /// Places by number.
    pub places: Vec<Place>,
    /// Modules by number.
    pub modules: Vec<Module>,
    /// Samples that were dropped.
    pub lost: u64,
    /// Whether some sample did not tell its period.
    pub periods_missing: bool,
    /// Whether samples stand for different numbers of occurrences.
    pub periods: Periods,
    /// A kernel symbol and its address in the recording, when it has one.
    pub kernel_anchor: Option<(String, u64)>,
    /// Names of interpreted functions by number.
    pub interpreted: Vec<String>,
    /// How unwinding went; None when the samples hold call chains.
    pub unwound: Option<Tally>,
    /// Whether samples hold call chains.
    pub has_chains: bool,
    /// Samples whose stack was copied on a processor that is not known.
    pub not_unwound: u64,
    /// Places in files that have no name are written as offsets.
    pub keeps_offsets: bool,
    /// When samples were taken, where it was to be kept.
    pub times: Option<Times>,
}
