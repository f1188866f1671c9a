//! The highest offered rate that meets an objective.
//!
//! In: an objective ([`crate::slo`]), the settings of a load, and how much the search may cost. Out: an interval
//! of rates with the probability that the capacity lies inside, every probe with what it measured, and why the
//! search ended. The way: [`search`] says which rate to offer next and for how long, [`measure`] offers it and counts,
//! [`evidence`] says whether the objective was met, [`curve`] and [`occupation`] how likely such counts are at
//! a rate, [`served`] what the completed requests say, [`posterior`] what follows for the capacity, [`collapse`] whether the
//! server answers less under overload.
//!
//! The capacity of a server is the rate at which the objective holds in the long run: what a load without end would
//! find, in the middle of what the server is in one run and in another. Invariants: a probe that the generator
//! spoilt never becomes an upper bound of the server; a search that was stopped says so; where the probes cannot bear
//! an interval none is stated. Not here: the curve of latency over rates ([`crate::sweep`]).

pub mod collapse;
pub mod curve;
pub mod evidence;
mod measure;
pub mod occupation;
pub mod posterior;
mod prior;
mod report;
pub mod search;
pub mod served;
pub mod steps;

pub use measure::{Capacity, End, Trail};
