//! Records that cross the boundary between Steelyard's two planes.
//!
//! In: JSON text, or values that a program of the data plane measured. Out: JSON files whose shape is
//! fixed by `schemas/*.schema.json` and whose golden examples are in `schemas/golden/`.
//!
//! Invariants: every record names its `schema_version` and `kind`; times are nanoseconds of
//! `CLOCK_MONOTONIC` unless a name says otherwise; a value that could not be measured is `null` and has a
//! reason beside it, never zero; a file appears under its name only when it is complete.
//!
//! Not here: measuring, deriving, drawing, and records that no program of the data plane reads or writes (runs,
//! machines, suites, answers): those are Python's alone.

mod cache_stats;
mod capacity;
mod checks;
mod clock;
mod counter_plan;
mod cpi_specs;
mod error;
mod file;
mod health;
mod io;
mod load;
mod numa_score;
mod rank_stats;
mod sweep;
mod tax;
mod telemetry;
mod verdict;
mod version;

pub use cache_stats::{CacheStats, CacheThread};
pub use capacity::{
    CapacityChanging, CapacityCollapse, CapacityCriterion, CapacityEdge, CapacityInterval,
    CapacityPoint, CapacityProbe, CapacityResult, CapacityTried, ClosedLoop,
};
pub use checks::{Bounds, CONSTANTS, Constants};
pub use clock::{Clock, clock_ns, monotonic_ns};
pub use counter_plan::{CounterPlan, Modes, PlannedEvent};
pub use cpi_specs::{CpiSpec, CpiSpecs};
pub use error::RecordError;
pub use file::{FILE_BYTES_MAX, open_file, read_file, read_text_file, text_of};
pub use health::{
    BandwidthRow, CoreToCore, DiskHealth, DiskRow, Estimate, HealthCache, HealthConditions,
    HealthCpu, HealthMachine, HealthNode, HealthResult, HealthSettings, LatencyPoint,
    LoopbackHealth, MemoryBandwidth, MemoryLatency,
};
pub use io::{parse, read, read_regular, write_atomically, write_whole};
pub use load::{
    IntervalRow, LatencySummary, LoadCpu, LoadHost, LoadLatency, LoadOperations, LoadRequests,
    LoadResult, LoadSettings, LoadThread, QuantileValue, Tool,
};
pub use numa_score::{NumaScore, NumaScoreNode, NumaSubject};
pub use rank_stats::{RankStage, RankStats, RankThread};
pub use sweep::{SweepPoint, SweepResult};
pub use tax::{TaxBenchmark, TaxCategory, TaxMeasure, TaxResult, TaxScore, TaxSettings};
pub use telemetry::{Column, ColumnKind, SelfCost, Source, Telemetry};
pub use verdict::{Check, Level, Verdict};
pub use version::{Kind, Record, check_version};
