//! Who suffers and who is the cause: evidence, suspects, decisions.

pub(super) mod confirm;
pub(super) mod decide;
pub(super) mod episodes;
pub(super) mod evidence;
pub(super) mod history;
pub(super) mod sample;
pub(super) mod suspects;
#[cfg(test)]
mod tests;
