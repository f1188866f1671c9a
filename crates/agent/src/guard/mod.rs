//! The local CPI2 guard: outliers among this machine's task samples, who causes them, and what is done about it.
//!
//! In: the task samples of each window and the specs (`cpi_specs`) pulled from the store. Out: incidents, and what to
//! cap and release.
//!
//! Not here: how samples are taken, and how specs are made.
