//! What is normal: specifications of CPI, pulled from the store.

pub(super) mod file;
pub(super) mod pull;
pub(super) mod spec;
