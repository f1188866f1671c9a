//! Caps on CPU time: what is set, written down, and taken back.

pub(super) mod audit;
pub(super) mod caps;
pub(super) mod journal;
pub(super) mod quota;
pub(super) mod watchdog;
