//! The highest offered rate that meets an objective.
//!
//! In: an objective ([`crate::slo`]), the settings of a load, and how much the search may cost. Out: an interval
//! of rates with the probability that the capacity lies inside, every probe with what it measured, and why the
//! search ended. The way: [`search`] says which rate to offer next, [`measure`] offers it and counts,
//! [`evidence`] says how surely the objective was met, [`posterior`] what follows for the capacity.
//!
//! The capacity of a server is the rate at which half of all runs meet the objective: the run is the replicate.
//! Invariants: a probe that the generator spoilt never becomes an upper bound of the server; a search that was
//! stopped says so. Not here: the curve of latency over rates ([`crate::sweep`]).

pub mod evidence;
mod measure;
pub mod posterior;
mod report;
pub mod search;
#[cfg(test)]
mod simulation;

pub use measure::{Capacity, End, Trail};
